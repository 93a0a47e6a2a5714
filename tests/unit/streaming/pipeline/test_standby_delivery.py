"""What a standby job does with its alerts: nothing is lost and nothing sent twice, whoever recorded them."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.job_alerts import job_alert
from connectors.delivery.ledger import Ledger
from connectors.errors import LeaseLostError, StoreError, UnavailableStoreError
from connectors.sinks.sink import DeliveryMode, Outcome
from connectors.store.alert_codec import ALERT
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification
from streaming.pipeline import deliver
from streaming.pipeline.active_role import ActiveRole
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.output_rows import OutputKind
from streaming.status.cluster_status import FindingStatus, to_bytes
from streaming.status.status_store import StatusStore
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert
from tests.unit.streaming.pipeline.test_deliver_containment import Batch, refused, row
from tests.unit.streaming.status.statuses import NO_OBSERVATION


class FakeRole(ActiveRole):
    is_active = False
    is_standby = True

    def __init__(self) -> None:
        """Has no lease."""

    def becomes_active(self) -> None:
        self.is_active, self.is_standby = True, False

    def becomes_standby(self) -> None:
        self.is_active, self.is_standby = False, True

    def is_unsure(self) -> None:
        self.is_active = self.is_standby = False


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


class Job:
    """One of two jobs on one ledger. Each of its waits is one call of `while_it_waits`."""

    def __init__(self, folder: Path) -> None:
        self.role = FakeRole()
        self.sink = RecordingSink(name="people", mode=DeliveryMode.INCIDENTS, repeat_s=None)
        self.ledger = Ledger(job_database(folder))
        self.while_it_waits: Callable[[], bool] = lambda: pytest.fail("it waits")
        self.deliver = Deliver(
            lambda: Dispatcher(self.ledger, [self.sink], patience_s=0.2 if isinstance(self.sink, SlowSink) else 60),
            self.ledger,
            quarantine_of(job_database(folder)),
            store=StatusStore(["prod"]),
            request_poll=lambda *_: None,
            wait=lambda _: self.while_it_waits(),
            role=self.role,
        )

    def sent(self) -> list[tuple[str, str]]:
        return [(one.rule, one.state) for each in self.sink.notifications for one in each.new_transitions]


@pytest.fixture
def active(tmp_path: Path) -> Job:
    job = Job(tmp_path)
    job.role.becomes_active()
    return job


@pytest.fixture
def standby(tmp_path: Path, active: Job) -> Job:
    return Job(tmp_path)


def firing(*, at_s: int = 5, started_s: int = 0, rule: str = "epoch-churn") -> Alert:
    return alert("quorum", rule=rule, observed_at_ms=at(at_s), started_at_ms=at(started_s))


def resolved(*, at_s: int = 60, started_s: int = 0) -> Alert:
    return replace(firing(at_s=at_s, started_s=started_s), state=AlertState.RESOLVED)


def at(seconds: int) -> Millis:
    return Millis(NOON_MS + seconds * 1_000)


FIRED, RESOLVED = ("epoch-churn", "firing"), ("epoch-churn", "resolved")


def test_a_standby_sends_nothing_and_keeps_no_quarantine(active: Job, standby: Job, tmp_path: Path) -> None:
    alert_row = row(OutputKind.ALERT, "prod", "f", ALERT.dump_json(firing()).decode())
    standby.deliver(Batch(row(*refused("prod")), alert_row), 0)  # type: ignore[arg-type]
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
    rows = (
        *(row(OutputKind.ALERT, each.cluster, "f", ALERT.dump_json(each).decode()) for each in (firing(), ended)),
        row(OutputKind.STATUS, firing().cluster, "", to_bytes(status).decode()),
    )
    standby.deliver(Batch(*rows), 0)  # type: ignore[arg-type]
    standby.deliver.send([])
    standby.role.becomes_active()
    standby.deliver.send([])
    assert [each.subject for each in standby.sink.transitions] == ["quorum"]


def test_alerts_of_another_state_continue_those_in_the_ledger(active: Job, standby: Job) -> None:
    active.deliver.send([firing(at_s=5, started_s=0)])
    standby.role.becomes_active()
    # Its state began later: the same condition has another beginning.
    standby.deliver.send([firing(at_s=9, started_s=4)])
    standby.deliver.send([resolved(at_s=60, started_s=4)])
    assert standby.sent() == [RESOLVED]
    assert {one.started_at_ms for one in standby.ledger.history()} == {at(0)}


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


def test_what_ended_before_a_takeover_is_not_sent_again(active: Job, standby: Job) -> None:
    active.deliver.send([firing(at_s=5)])
    active.deliver.send([resolved(at_s=60)])
    standby.role.becomes_active()
    standby.deliver.send([firing(at_s=9, started_s=4), resolved(at_s=60, started_s=4)])
    assert (standby.sent(), len(standby.ledger.history())) == ([], 2)


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


def test_a_job_that_lost_the_lease_in_a_batch_leaves_the_alert_to_the_other_job(
    active: Job, standby: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    active.deliver.send([])

    def lost(*_: object) -> None:
        active.role.becomes_standby()
        standby.role.becomes_active()
        raise LeaseLostError("another job notifies now")

    monkeypatch.setattr(active.ledger, "record", lost)
    active.deliver.send([firing()])
    standby.deliver.send([firing()])
    assert (active.sent(), standby.sent()) == ([], [FIRED])


def test_a_job_that_lost_the_lease_drops_its_alert_about_itself(active: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    active.deliver.send([])
    own = job_alert(
        "monitor-blind",
        "clock",
        Severity.WARNING,
        summary="",
        evidence={},
        remedy=(),
        started_at_ms=at(0),
        now_ms=at(0),
    )

    def lost(*_: object) -> None:
        active.role.becomes_standby()
        raise LeaseLostError("another job notifies now")

    with monkeypatch.context() as patched:
        patched.setattr(active.ledger, "record", lost)
        active.deliver.send([own])
    active.role.becomes_active()
    active.deliver.send([firing()])
    assert active.sent() == [FIRED]


def test_outcomes_are_recorded_before_another_job_may_notify(active: Job, standby: Job) -> None:
    release = threading.Event()
    active.sink = SlowSink(release)
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
