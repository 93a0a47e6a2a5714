"""Two jobs on one store: nothing is lost and nothing sent twice, whoever recorded it, and whenever the roles change."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.delivery.ledger import Ledger
from connectors.errors import LeaseLostError, UnavailableStoreError
from connectors.sinks.sink import DeliveryMode, Outcome
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from rules.alert import Alert, AlertState
from rules.firing import EndedAlert, Firing
from rules.model.identifiers import Millis
from rules.model.job_state import SinkState
from rules.notifications.notification import Notification
from rules.notifications.route import Silence
from streaming.pipeline.notifying import Notifying
from streaming.status.status_store import StatusStore
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert
from tests.unit.streaming.pipeline.delivering_job import Job, batch, firing_row, refused

RULE = "epoch-churn"
FIRED, RESOLVED = (RULE, "firing"), (RULE, "resolved")
LATER = Millis(NOON_MS + 600_000)


class SlowSink(RecordingSink):
    """Answers once the event is set."""

    def __init__(self, release: threading.Event) -> None:
        super().__init__(name="people", mode=DeliveryMode.INCIDENTS)
        self._release = release

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        self._release.wait(deadline_s)
        return super().send(notifications, sent_at_ms=sent_at_ms, deadline_s=deadline_s)


@pytest.fixture
def active(tmp_path: Path) -> Job:
    job = Job(tmp_path)
    job.role.becomes_active()
    return job


@pytest.fixture
def standby(tmp_path: Path, active: Job) -> Job:
    return Job(tmp_path)


def at(seconds: int) -> Millis:
    return Millis(NOON_MS + seconds * 1_000)


def churn(second: int = 5, *, since: int = 0) -> Alert:
    return alert("quorum", rule=RULE, observed_at_ms=at(second), started_at_ms=at(since))


def over(second: int = 60, *, since: int = 0) -> Alert:
    return replace(churn(second, since=since), state=AlertState.RESOLVED)


def found(*alerts: Alert, second: int = 100, ended: tuple[Alert, Alert] | None = None) -> Firing:
    pairs = () if ended is None else (EndedAlert(fired=ended[0], resolved=ended[1]),)
    return Firing(cluster="alpha", evaluated_ms=at(second), alerts=alerts, ended=pairs)


def test_a_standby_sends_nothing_and_keeps_no_quarantine(active: Job, standby: Job, tmp_path: Path) -> None:
    standby.deliver(batch(refused("prod"), firing_row(found(churn()))), 0)
    active.finds(found(churn()))
    assert (active.sent(), standby.sent(), standby.notifying.notifies) == ([FIRED], [], False)
    assert quarantine_of(job_database(tmp_path)).items() == {}


@pytest.mark.parametrize(
    ("recorded", "sent"),
    [([], [FIRED, RESOLVED]), ([churn()], [RESOLVED]), ([churn(), over()], [])],
    ids=["the active job ended before it", "between its transitions", "after both"],
)
def test_a_standby_that_takes_over_sends_what_began_and_ended_around_the_takeover(
    active: Job, standby: Job, recorded: list[Alert], sent: list[tuple[str, str]]
) -> None:
    standby.finds(found(churn(), second=5))
    standby.finds(found(second=60, ended=(churn(), over())))
    standby.finds(found(second=61))
    active.notifying.send()
    active.ledger.record(recorded, LATER)
    active.notifying.send()
    standby.role.becomes_active()
    standby.notifying.send()
    standby.notifying.send()
    assert (standby.sent(), standby.notifying.notifies) == (sent, True)


def test_what_ended_long_before_a_takeover_is_history(standby: Job) -> None:
    standby.finds(found(second=60, ended=(churn(), over())))
    standby.finds(found(second=121))
    standby.role.becomes_active()
    standby.notifying.send()
    assert standby.sent() == []


def test_alerts_of_another_job_continue_with_their_beginning(active: Job, standby: Job) -> None:
    active.finds(found(churn()))
    standby.role.becomes_active()
    # Its state began later: the same condition has another beginning.
    standby.finds(found(churn(9, since=4)))
    standby.finds(found(second=101, ended=(churn(9, since=4), over(101, since=4))))
    assert standby.sent() == [RESOLVED]
    assert [one.started_at_ms for one in standby.ledger.history()] == [at(0), at(0)]


def test_an_alert_that_only_the_former_job_found_ends_and_fires_again_when_that_one_notifies_again(
    active: Job, standby: Job
) -> None:
    """One of them is cut off from the cluster."""
    active.finds(found(churn()))
    standby.finds(found())
    active.role.becomes_standby()
    active.notifying.send()
    standby.role.becomes_active()
    standby.notifying.send()
    standby.role.becomes_standby()
    active.role.becomes_active()
    active.finds(found(churn(), second=110))
    assert (active.sent(), standby.sent()) == ([FIRED, FIRED], [RESOLVED])


def test_a_job_that_has_not_evaluated_the_cluster_ends_nothing(active: Job, standby: Job) -> None:
    active.finds(found(churn()))
    standby.role.becomes_active()
    standby.notifying.send()
    assert [one.rule for one in standby.ledger.firing()] == [RULE]


def test_a_job_that_is_active_again_sends_what_the_other_one_recorded_and_did_not_send(
    active: Job, standby: Job
) -> None:
    active.notifying.send()
    active.role.becomes_standby()
    active.notifying.send()
    standby.role.becomes_active()
    standby.sink.unreachable = True
    standby.finds(found(churn()))
    active.role.becomes_active()
    active.notifying.send()
    assert (standby.sent(), active.sent()) == ([], [FIRED])


def test_a_job_that_cannot_ask_the_store_goes_on_and_sends_what_it_found_meanwhile(active: Job) -> None:
    active.notifying.send()
    active.role.is_unsure()
    active.finds(found(second=60, ended=(churn(), over())))
    active.finds(found(churn(190, since=190), second=190))
    assert active.sent() == []
    active.role.becomes_active()
    active.notifying.send()
    assert active.sent() == [FIRED, RESOLVED, FIRED]


def test_a_job_that_lost_the_lease_in_a_batch_leaves_the_alert_to_the_other_job(
    active: Job, standby: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    active.notifying.send()

    def lost(*_: object) -> None:
        active.role.becomes_standby()
        raise LeaseLostError("another job notifies now")

    with monkeypatch.context() as patched:
        patched.setattr(active.ledger, "record", lost)
        active.notifying.put(found(churn()))
        active.notifying.send()
    standby.role.becomes_active()
    standby.finds(found(churn()))
    active.role.becomes_active()
    active.notifying.send()
    assert (active.sent(), standby.sent()) == ([], [FIRED])


def test_outcomes_are_recorded_before_another_job_may_notify(tmp_path: Path) -> None:
    release = threading.Event()
    active = Job(tmp_path, patience_s=0.2)
    active.notifying.set_sinks([SlowSink(release)])
    active.role.becomes_active()
    active.finds(found(churn()))
    pending = active.ledger.pending_count("people")
    release.set()
    left: list[int] = []
    active.notifying.settle(lambda: left.append(active.ledger.pending_count("people")))
    assert (pending, left) == (1, [0])


def test_a_write_whose_answer_was_lost_is_not_repeated(active: Job, tmp_path: Path) -> None:
    active.notifying.send()
    record, failures = active.ledger.record, [UnavailableStoreError("no answer")]

    def answer_lost(alerts: list[Alert], now_ms: Millis) -> object:
        if alerts and failures:
            # It took effect, and this process does not know it.
            Ledger(job_database(tmp_path)).record(alerts, now_ms)
            raise failures.pop()
        return record(alerts, now_ms)

    active.ledger.record = answer_lost  # type: ignore[method-assign, assignment]
    active.finds(found(churn()))
    assert active.sent() == []
    active.notifying.send()
    assert (active.sent(), len(active.ledger.history())) == ([FIRED], 1)


def test_the_alerts_of_a_configured_cluster_that_is_not_monitored_yet_stay(tmp_path: Path) -> None:
    """A new checkpoint beside the ledger, and the cluster does not answer: it is what the alert says."""
    ledger = Ledger(job_database(tmp_path))
    ledger.record([churn()], LATER)
    notifying = Notifying(ledger, [], store=StatusStore(["prod"], waiting=["alpha"]))
    notifying.send()
    assert [one.state for one in ledger.history()] == [AlertState.FIRING]


def test_a_fault_in_the_evaluation_of_the_job_costs_no_cluster_its_alert(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        def begin(self, recorded: Sequence[Alert]) -> None: ...

        def evaluate(self, recorded: Sequence[Alert], sinks: Sequence[SinkState]) -> Firing:
            raise KeyError("secret")

        def holds(self) -> Sequence[Silence]:
            return ()

    ledger = Ledger(job_database(tmp_path))
    notifying = Notifying(ledger, [], store=StatusStore(["alpha"]), job=Failing())
    for _ in range(2):
        notifying.put(found(churn()))
        notifying.send()
    assert [one.rule for one in ledger.firing()] == [RULE]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "secret" not in caplog.text


def recorded(job: Job) -> list[tuple[str, str]]:
    """The end is sent later: an alert that has fired may fire again."""
    return [(one.rule, one.state) for one in job.ledger.history()]


def test_the_incidents_of_a_removed_cluster_end(active: Job) -> None:
    active.finds(found(churn()))
    active.notifying.store.set_clusters(["prod"])
    active.notifying.send()
    assert recorded(active) == [FIRED, RESOLVED]
    assert active.ledger.history()[-1].summary.startswith("Cluster alpha was removed from the configuration")
    active.finds(found(churn()))
    assert recorded(active) == [FIRED, RESOLVED]
