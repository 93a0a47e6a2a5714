"""What a standby job does with its alerts: nothing is lost and nothing sent twice, whoever recorded them."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.delivery.job_alerts import job_alert
from connectors.delivery.ledger import Ledger
from connectors.errors import LeaseLostError, StoreError, UnavailableStoreError
from connectors.sinks.sink import DeliveryMode, Outcome
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification
from streaming.pipeline import deliver
from streaming.status.cluster_status import FindingStatus
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert
from tests.unit.streaming.pipeline.delivering_job import FakeRole, Job, alert_row, batch, refused, status_row
from tests.unit.streaming.status.statuses import NO_OBSERVATION


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


def firing(*, at_s: int = 5, started_s: int = 0) -> Alert:
    return alert("quorum", rule="epoch-churn", observed_at_ms=at(at_s), started_at_ms=at(started_s))


def resolved(*, at_s: int = 60, started_s: int = 0) -> Alert:
    return replace(firing(at_s=at_s, started_s=started_s), state=AlertState.RESOLVED)


def at(seconds: int) -> Millis:
    return Millis(NOON_MS + seconds * 1_000)


FIRED, RESOLVED = ("epoch-churn", "firing"), ("epoch-churn", "resolved")


def test_a_standby_sends_nothing_and_keeps_no_quarantine(active: Job, standby: Job, tmp_path: Path) -> None:
    standby.deliver(batch(refused("prod"), alert_row(firing())), 0)
    active.deliver.send([firing()])
    assert (active.sent(), standby.sent(), standby.deliver.notifies) == ([FIRED], [], False)
    assert quarantine_of(job_database(tmp_path)).items() == {}


@pytest.mark.parametrize(
    ("recorded", "sent"), [([], [FIRED, RESOLVED]), ([firing()], [RESOLVED]), ([firing(), resolved()], [])]
)
def test_a_standby_that_takes_over_sends_what_it_has_found_and_the_active_job_did_not_record(
    active: Job, standby: Job, recorded: list[Alert], sent: list[tuple[str, str]]
) -> None:
    """Also an alert that ended before the takeover: the state yields each transition once."""
    standby.deliver.send([firing(), resolved()])
    active.deliver.send(recorded)
    standby.role.becomes_active()
    standby.deliver.send([])
    standby.deliver.send([])
    assert (standby.sent(), standby.deliver.notifies) == (sent, True)


def test_what_was_found_long_before_a_takeover_is_sent_only_if_it_is_still_found(
    standby: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "_UNRECORDED_S", 0.0)
    found = FindingStatus(rule="epoch-churn", subject="quorum", severity=Severity.CRITICAL, summary="It still churns.")
    status = replace(NO_OBSERVATION, cluster=firing().cluster, now_ms=at(30), findings=(found,))
    ended = replace(firing(), subject="other")
    standby.deliver(batch(alert_row(firing()), alert_row(ended), status_row(status)), 0)
    standby.deliver.send([])
    standby.role.becomes_active()
    standby.deliver.send([])
    assert [each.subject for each in standby.sink.transitions] == ["quorum"]


@pytest.mark.parametrize(("recorded", "sent"), [([firing()], [RESOLVED]), ([firing(), resolved()], [])])
def test_alerts_of_another_state_continue_those_in_the_ledger(
    active: Job, standby: Job, recorded: list[Alert], sent: list[tuple[str, str]]
) -> None:
    for each in recorded:
        active.deliver.send([each])
    standby.role.becomes_active()
    # Its state began later: the same condition has another beginning.
    for each in (firing(at_s=9, started_s=4), resolved(at_s=60, started_s=4)):
        standby.deliver.send([each])
    assert standby.sent() == sent
    assert [one.started_at_ms for one in standby.ledger.history()] == [at(0), at(0)]


def test_a_job_that_is_active_again_sends_what_the_other_one_recorded_and_did_not_send(
    active: Job, standby: Job
) -> None:
    active.deliver.send([])
    active.role = active.deliver.role = FakeRole()
    active.deliver.send([])
    standby.role.becomes_active()
    standby.sink.unreachable = True
    standby.deliver.send([firing()])
    active.role.becomes_active()
    active.deliver.send([])
    assert (standby.sent(), active.sent()) == ([], [FIRED])


def test_a_job_that_cannot_ask_the_store_waits_with_alerts_and_goes_on_without(active: Job) -> None:
    active.deliver.send([])
    active.role.is_unsure()
    active.deliver.send([])
    active.while_it_waits = lambda: True
    with pytest.raises(StoreError, match="the job stops before its newest alerts are in the store"):
        active.deliver.send([firing()])

    def store_is_back() -> bool:
        active.role.becomes_active()
        return False

    active.while_it_waits = store_is_back
    active.deliver.send([firing()])
    assert active.sent() == [FIRED]


def test_a_job_that_lost_the_lease_in_a_batch_leaves_the_alert_to_the_other_job_and_drops_the_one_about_itself(
    active: Job, standby: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"started_at_ms": at(0), "now_ms": at(0)}
    own = job_alert("monitor-blind", "clock", Severity.WARNING, summary="", evidence={}, remedy=(), **times)
    active.deliver.send([])

    def lost(*_: object) -> None:
        active.role.becomes_standby()
        raise LeaseLostError("another job notifies now")

    with monkeypatch.context() as patched:
        patched.setattr(active.ledger, "record", lost)
        active.deliver.send([own, firing()])
    standby.role.becomes_active()
    standby.deliver.send([firing()])
    active.role.becomes_active()
    active.deliver.send([])
    assert (active.sent(), standby.sent()) == ([], [FIRED])


def test_outcomes_are_recorded_before_another_job_may_notify(active: Job, standby: Job) -> None:
    release = threading.Event()
    active.sink, active.patience_s = SlowSink(release), 0.2
    active.deliver.send([firing()])
    pending = active.ledger.pending_count("people")
    release.set()
    left: list[int] = []
    active.deliver.settle(lambda: left.append(active.ledger.pending_count("people")))
    assert (pending, left) == (1, [0])


def test_a_store_that_lost_an_answer_is_read_again_before_the_alert_is_recorded(active: Job, tmp_path: Path) -> None:
    active.deliver.send([])
    record, failures = active.ledger.record, [UnavailableStoreError("no answer")]

    def answer_lost(alerts: list[Alert], now_ms: Millis) -> object:
        if alerts and failures:
            # It took effect, and this process does not know it.
            Ledger(job_database(tmp_path)).record(alerts, now_ms)
            raise failures.pop()
        return record(alerts, now_ms)

    active.ledger.record = answer_lost  # type: ignore[method-assign, assignment]
    active.while_it_waits = lambda: False
    active.deliver.send([firing()])
    assert (active.sent(), len(active.ledger.history())) == ([FIRED], 1)
