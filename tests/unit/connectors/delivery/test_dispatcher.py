"""The dispatcher records, sends and marks as delivered: nothing is lost, and a failing sink does not affect others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.delivery_report import SinkResult
from connectors.delivery.ledger import stored_alerts
from connectors.delivery.sink_worker import SinkCall
from connectors.errors import StoreError
from connectors.sinks.sink import Delivered, DeliveryMode, DeliveryOptions, Outcome, Rejected, Retry, SerialSink
from connectors.store.alert_store import AlertStore
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.model.job_state import JOB_CLUSTER_ID, SinkState
from rules.notifications.incident import deduplication_key
from rules.notifications.notification import Notification, single_alert_notification
from rules.notifications.route import Route, Silence
from tests.eventually import eventually
from tests.recording_dispatcher import RecordingDispatcher
from tests.unit.connectors.delivery.dispatchers import HangingSink, dispatcher_with, full_disk
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert

LARGE = alert("large", summary="x" * 100_000)
FIRST, SECOND, RESOLVED = alert("one"), alert("two"), alert("one", resolved=True)


def later(seconds: float) -> Millis:
    return Millis(NOON_MS + round(seconds * 1000))


SILENCE = Silence(id="s", starts_at_ms=later(1), ends_at_ms=later(600), author="eva", comment="new disks")


def deliver_in(dispatcher: RecordingDispatcher, seconds: range, *alerts: Alert) -> Mapping[str, SinkResult]:
    """Delivers the alerts in the first of the seconds and nothing in the others; returns the last results."""
    dispatcher.deliver(alerts, later(seconds[0]))
    return [dispatcher.deliver([], later(second)).sinks for second in seconds[1:]][-1]


def test_what_was_silenced_to_its_end_is_not_sent_although_the_silence_ended_during_a_retry_after(
    tmp_path: Path,
) -> None:
    silence = Silence(
        id="1", rule="voter-lagging", starts_at_ms=NOON_MS, ends_at_ms=later(300), author="eva", comment="disks"
    )
    sink = RecordingSink(mode=DeliveryMode.INCIDENTS, outcomes=[Retry(reason="too many requests", after_s=600)])
    dispatcher = dispatcher_with(tmp_path, sink, silences=lambda _: [silence])
    other, silenced = alert(rule="version-drift"), alert(rule="voter-lagging")
    dispatcher.deliver([other, silenced], NOON_MS)
    dispatcher.deliver([alert(rule="voter-lagging", resolved=True)], later(60))
    for second in (299, 301, 601):
        dispatcher.deliver([], later(second))
    assert sink.transitions == [other]


def test_a_clock_that_is_set_back_does_not_delay_a_retry(tmp_path: Path) -> None:
    sink = RecordingSink(outcomes=[Retry(reason="unreachable")])
    dispatcher = dispatcher_with(tmp_path, sink)
    dispatcher.deliver([FIRST], NOON_MS)
    dispatcher.deliver([], later(-3600))
    assert sink.transitions == [FIRST]


def test_a_rejected_document_is_sent_again_as_a_minimal_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = RecordingSink(outcomes=[Rejected(reason="too long"), Delivered()])
    dispatcher = dispatcher_with(tmp_path, sink)
    failed = SinkResult(rejected=1, pending=1, failing="too long")
    assert dispatcher.deliver([FIRST], NOON_MS).sinks["recording"] == failed
    assert "recording: delivery failed; retrying in 1 s: too long" in caplog.text
    assert dispatcher.deliver([], later(1)).sinks["recording"] == SinkResult(delivered=1)
    (sent,) = sink.transitions
    assert (sent.key, sent.summary, sent.evidence) == (FIRST.key, FIRST.summary, {})
    dispatcher.deliver([], later(100))
    assert sink.calls == 2


def test_alerts_that_a_sink_refuses_are_retried_less_and_less_often_and_last(tmp_path: Path) -> None:
    sink, record = RefusingSink(refused={"one", "three", "four"}), RecordingSink("record")
    dispatcher = dispatcher_with(tmp_path, sink, record)
    deliver_in(dispatcher, range(600), *map(incident, ("one", "three", "four", "two")))
    assert sink.transitions == [incident("two")]
    assert sink.calls < 20
    # What was never sent precedes what failed.
    result = dispatcher.deliver([incident("five")], later(600)).sinks["recording"]
    assert sink.transitions == [incident("two"), incident("five")]
    assert (result.set_aside, result.failing) == (3, "HTTP 403")
    (state,) = [one for one in dispatcher.dispatcher.sink_states if one.name == "recording"]
    assert {each.split()[0] for each in state.not_accepted} == sink.refused
    sink.refused = set()
    result = deliver_in(dispatcher, range(601, 800, 60))["recording"]
    assert (result.set_aside, result.failing, result.pending) == (0, None, 0)
    assert len(sink.transitions) == 5


def incident(cluster: str) -> Alert:
    """Returns an alert that is an incident by itself."""
    return alert(cluster, cluster=cluster, cluster_id=cluster)


class RefusingSink(SerialSink[None], RecordingSink):
    """Refuses the alerts about some subjects; after two failures in a row it does not send the rest."""

    def __init__(self, refused: set[str]) -> None:
        RecordingSink.__init__(self, mode=DeliveryMode.INCIDENTS)
        self.refused = refused

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        self.calls += 1
        return super().send(notifications, sent_at_ms=sent_at_ms, deadline_s=deadline_s)

    def _document(self, notification: Notification, sent_at_ms: Millis) -> None:
        return

    def _send_one(self, notification: Notification, document: None, sent_at_ms: Millis, left_s: float) -> Outcome:
        if notification.root.subject in self.refused:
            return Retry(reason="HTTP 403")
        self.transitions += notification.new_transitions
        return Delivered()


class SlowSink(SerialSink[None]):
    def __init__(self, clock: list[float]) -> None:
        super().__init__(DeliveryOptions(name="slow", mode=DeliveryMode.INCIDENTS))
        self.clock = clock

    def _document(self, notification: Notification, sent_at_ms: Millis) -> None:
        return

    def _send_one(self, notification: Notification, document: None, sent_at_ms: Millis, left_s: float) -> Outcome:
        self.clock[0] += 4
        return Delivered()


def test_a_request_is_not_begun_with_less_time_left_than_the_last_one_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    sent = [single_alert_notification(alert(f"voter {number}")) for number in range(3)]
    outcomes = SlowSink(clock).send(sent, sent_at_ms=NOON_MS, deadline_s=10)
    assert outcomes == [Delivered(), Delivered(), Retry(reason="deadline exceeded", attempted=False)]


def test_what_was_not_begun_in_time_is_sent_by_the_next_call_without_a_delay(tmp_path: Path) -> None:
    late = Retry(reason="deadline exceeded", attempted=False)
    sink = RecordingSink(outcomes=[Delivered(), late])
    dispatcher = dispatcher_with(tmp_path, sink)
    assert dispatcher.deliver([FIRST, SECOND], NOON_MS).sinks["recording"].failing is None
    dispatcher.deliver([], NOON_MS)
    assert sink.transitions == [FIRST, SECOND]


class RaisingSink(RecordingSink):
    def respond(self, notifications: Sequence[Notification]) -> Sequence[Outcome]:
        raise RuntimeError("POST https://user:hunter2@hooks.example.com/T0/B1/s3cr3t failed, token=abc123")


class MiscountingSink(RecordingSink):
    returned = 1

    def respond(self, notifications: Sequence[Notification]) -> Sequence[Outcome]:
        return [Delivered()] * self.returned


def test_an_exception_in_a_sink_is_a_retry_without_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good, few, many = RecordingSink("good"), MiscountingSink("few"), MiscountingSink("many")
    many.returned = 3
    report = dispatcher_with(tmp_path, RaisingSink("broken"), few, many, good).deliver([FIRST, SECOND], NOON_MS)
    for name in ("broken", "few", "many"):
        assert (report.sinks[name].retry, report.sinks[name].pending) == (2, 2)
    assert good.transitions == [FIRST, SECOND]
    assert "RuntimeError: POST https://hooks.example.com/*** failed, token=***" in caplog.text
    assert not {"hunter2", "s3cr3t", "abc123"} & set(caplog.text.replace("/", " ").replace("=", " ").split())
    for outcomes in (1, 3):
        assert f"the sink returned {outcomes} outcomes for 2 notifications" in caplog.text


def test_a_hanging_sink_costs_its_deadline_once_and_its_late_outcome_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hanging, good = HangingSink(), RecordingSink("good")
    dispatcher = dispatcher_with(tmp_path, hanging, good, deadline_s=0.05)
    failure = "no response within 0.05 s"
    assert dispatcher.deliver([FIRST], NOON_MS).sinks["hanging"] == SinkResult(pending=1, failing=failure)
    assert dispatcher.deliver([SECOND], later(1)).sinks["hanging"] == SinkResult(pending=2, failing=failure)
    # On a busy machine the good sink may miss such a short deadline too: it is still notified.
    eventually(lambda: not dispatcher.deliver([], later(1)).sinks["good"].pending, within_s=30)
    assert good.transitions == [FIRST, SECOND]
    assert hanging.calls == 1
    assert f"hanging: {failure}; other sinks are not delayed" in caplog.text
    hanging.release.set()
    eventually(lambda: not dispatcher.deliver([], later(2)).sinks["hanging"].pending, within_s=30)
    assert hanging.transitions == [FIRST, SECOND]


def test_no_batch_waits_for_an_overdue_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts: list[float] = []

    class TimedSinkCall(SinkCall):
        def outcomes(self, timeout_s: float) -> Sequence[Outcome] | None:
            timeouts.append(timeout_s)
            return super().outcomes(timeout_s)

    monkeypatch.setattr("connectors.delivery.sink_worker.SinkCall", TimedSinkCall)
    hanging = HangingSink()
    dispatcher = dispatcher_with(tmp_path, hanging, deadline_s=0.05)
    dispatcher.deliver([FIRST], NOON_MS)
    assert max(timeouts) > 0
    timeouts.clear()
    for second in range(3):
        dispatcher.deliver([], later(second))
    hanging.release.set()
    assert set(timeouts) == {0.0}


def test_many_pending_transitions_are_sent_in_several_calls(tmp_path: Path) -> None:
    sink = RecordingSink()
    dispatcher = dispatcher_with(tmp_path, sink)
    alerts = [alert(f"voter {at}") for at in range(700)]
    assert dispatcher.deliver(alerts, NOON_MS).sinks["recording"] == SinkResult(delivered=500, pending=200)
    dispatcher.deliver([], NOON_MS)
    assert sink.transitions == alerts


def test_a_ledger_that_cannot_be_used_raises_an_error_and_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = RecordingSink()
    dispatcher = dispatcher_with(tmp_path, sink)

    def damaged(*_: object) -> None:
        raise StoreError("kraftwatch.db cannot be used: database disk image is malformed")

    monkeypatch.setattr(AlertStore, "_write", damaged)
    with pytest.raises(StoreError, match="is malformed"):
        dispatcher.deliver([FIRST], NOON_MS)
    monkeypatch.undo()
    assert sink.calls == 0
    # Spark repeats the batch.
    dispatcher.deliver([FIRST], NOON_MS)
    assert sink.transitions == [FIRST]


def test_what_a_full_disk_does_not_record_is_sent_once(tmp_path: Path) -> None:
    sink = RecordingSink()
    dispatcher = dispatcher_with(tmp_path, sink)
    with full_disk(dispatcher.ledger):
        for second in range(5):
            dispatcher.deliver([LARGE], later(second))
        assert not stored_alerts(job_database(tmp_path, read_only=True))
    dispatcher.deliver([FIRST], later(5))
    assert sink.transitions == [LARGE, FIRST]
    assert [stored_alerts(job_database(tmp_path)), dispatcher_with(tmp_path, sink).ledger.pending("recording")] == [
        (LARGE, FIRST),
        [],
    ]


def test_of_several_requested_delays_the_longest_is_respected(tmp_path: Path) -> None:
    sink = RecordingSink(outcomes=[Retry(reason="too many requests", after_s=seconds) for seconds in (5, 30)])
    dispatcher = dispatcher_with(tmp_path, sink)
    dispatcher.deliver([FIRST, SECOND], NOON_MS)
    dispatcher.deliver([], later(29))
    assert sink.transitions == []
    dispatcher.deliver([], later(31))
    assert sink.transitions == [FIRST, SECOND]


def test_a_record_that_fails_does_not_keep_people_from_being_reached(tmp_path: Path) -> None:
    people, record = RecordingSink("people", DeliveryMode.INCIDENTS), RecordingSink("record", unreachable=True)
    dispatcher = dispatcher_with(tmp_path, people, record)
    dispatcher.deliver([FIRST], NOON_MS)
    assert not dispatcher.dispatcher.people_not_reached
    people.unreachable = True
    dispatcher.deliver([SECOND, alert("three", cluster_id="other")], later(100))
    assert dispatcher.dispatcher.people_not_reached


def test_nobody_is_reached_only_while_every_sink_for_people_fails(tmp_path: Path) -> None:
    slack, pager = (RecordingSink(name, DeliveryMode.INCIDENTS) for name in ("slack", "pager"))
    dispatcher = dispatcher_with(tmp_path, slack, pager, RecordingSink("record"))
    dispatcher.deliver([FIRST], NOON_MS)
    assert not dispatcher.dispatcher.nobody_is_reached
    slack.unreachable = True
    dispatcher.deliver([alert("two", cluster_id="a")], later(100))
    assert not dispatcher.dispatcher.nobody_is_reached, "the pager is reached"
    pager.unreachable = True
    dispatcher.deliver([alert("three", cluster_id="b")], later(200))
    assert dispatcher.dispatcher.nobody_is_reached
    slack.unreachable = pager.unreachable = False
    dispatcher.deliver([alert("four", cluster_id="c")], later(400))
    assert not dispatcher.dispatcher.nobody_is_reached


def test_a_job_without_sinks_for_people_has_nobody_to_reach(tmp_path: Path) -> None:
    dispatcher = dispatcher_with(tmp_path, RecordingSink("record", unreachable=True))
    dispatcher.deliver([FIRST], NOON_MS)
    assert not dispatcher.dispatcher.nobody_is_reached


def test_a_sink_that_refuses_an_old_alert_again_is_sent_a_new_one_at_once(tmp_path: Path) -> None:
    sink = RefusingSink(refused={"one"})
    dispatcher = dispatcher_with(tmp_path, sink)
    dispatcher.deliver([incident("one"), incident("two")], NOON_MS)
    dispatcher.deliver([], later(1.5))
    assert sink.calls == 2
    dispatcher.deliver([incident("three")], later(1.6))
    assert sink.transitions == [incident("two"), incident("three")]


def test_people_get_one_notification_per_incident_and_a_record_each_transition(tmp_path: Path) -> None:
    people, record = RecordingSink("people", mode=DeliveryMode.INCIDENTS), RecordingSink("record")
    dispatcher = dispatcher_with(tmp_path, people, record)
    dispatcher.deliver([FIRST, SECOND], NOON_MS)
    assert (people.calls, record.calls) == (1, 1)
    assert [(notification.reason, len(notification.alerts)) for notification in people.notifications] == [("firing", 2)]
    assert [len(notification.alerts) for notification in record.notifications] == [1, 1]


def test_an_open_incident_is_repeated_also_after_a_restart(tmp_path: Path) -> None:
    dispatcher_with(tmp_path, RecordingSink(mode=DeliveryMode.INCIDENTS, repeat_s=60)).deliver([FIRST], NOON_MS)
    sink = RecordingSink(mode=DeliveryMode.INCIDENTS, repeat_s=60)
    dispatcher = dispatcher_with(tmp_path, sink)
    dispatcher.deliver([], later(59))
    assert sink.notifications == []
    dispatcher.deliver([], later(60))
    dispatcher.deliver([RESOLVED], later(61))
    assert [notification.reason for notification in sink.notifications] == ["repeated", "resolved"]
    assert len({notification.incident for notification in sink.notifications}) == 1


def test_a_repetition_that_fails_is_not_put_off_until_the_next_one(tmp_path: Path) -> None:
    sink = RecordingSink(mode=DeliveryMode.INCIDENTS, repeat_s=3600)
    dispatcher = dispatcher_with(tmp_path, sink)
    dispatcher.deliver([FIRST], NOON_MS)
    sink.outcomes = [Retry(reason="unreachable")]
    dispatcher.deliver([], later(3600))
    assert len(sink.notifications) == 1
    dispatcher.deliver([], later(3602))
    assert len(sink.notifications) == 2


def test_an_alert_silenced_from_beginning_to_end_is_discarded_permanently(tmp_path: Path) -> None:
    silence = Silence(id="s", starts_at_ms=NOON_MS, ends_at_ms=later(60), author="eva", comment="new disks")
    people = RecordingSink(mode=DeliveryMode.INCIDENTS)
    dispatcher_with(tmp_path, people, silences=lambda _: [silence]).deliver([FIRST, RESOLVED], NOON_MS)
    dispatcher = dispatcher_with(tmp_path, people)
    assert dispatcher.deliver([], later(120)).sinks["recording"] == SinkResult()
    assert people.notifications == []


def test_a_sink_is_not_sent_that_it_fails_itself(tmp_path: Path) -> None:
    failing, good = RecordingSink("failing", mode=DeliveryMode.INCIDENTS), RecordingSink("good")
    dispatcher = dispatcher_with(tmp_path, failing, good)
    about = alert("sink failing", rule="sink-failing", cluster=JOB_CLUSTER_ID, cluster_id=JOB_CLUSTER_ID)
    dispatcher.deliver([about], NOON_MS)
    assert (failing.transitions, good.transitions) == ([], [about])


def test_which_sinks_fail_is_known_once_a_call_has_ended(tmp_path: Path) -> None:
    hanging, refusing, good = HangingSink(), RecordingSink("refusing", unreachable=True), RecordingSink("good")
    dispatcher = dispatcher_with(tmp_path, hanging, refusing, good, deadline_s=0.05)
    dispatcher.deliver([FIRST], NOON_MS)
    states = {one.name: one for one in dispatcher.dispatcher.sink_states}
    assert states["refusing"] == SinkState(name="refusing", failing="unreachable", pending=1)
    assert states["good"] == SinkState(name="good")

    def hangs() -> None:
        dispatcher.deliver([], later(1))
        (state,) = [one for one in dispatcher.dispatcher.sink_states if one.name == "hanging"]
        assert state == SinkState(name="hanging", failing="no response within 0.05 s", pending=1)

    eventually(hangs, within_s=30)
    hanging.release.set()


def routed_sink(mode: DeliveryMode, **route: Any) -> RecordingSink:
    return RecordingSink(f"{mode.value} only", mode=mode, route=Route(**route))


@pytest.mark.parametrize("mode", list(DeliveryMode))
def test_transitions_before_a_new_sink_do_not_count_as_delivered(tmp_path: Path, mode: DeliveryMode) -> None:
    milder = replace(FIRST, severity=Severity.WARNING, observed_at_ms=later(10))
    dispatcher_with(tmp_path, RecordingSink("old")).deliver([FIRST, milder], NOON_MS)
    pager, people = (
        routed_sink(mode, min_severity=Severity.CRITICAL),
        RecordingSink("people", mode=DeliveryMode.INCIDENTS),
    )
    dispatcher_with(tmp_path, pager, people).deliver([], later(20))
    assert pager.transitions == []
    assert [(notification.reason, notification.previously_notified) for notification in people.notifications] == [
        ("firing", False)
    ]


def test_the_end_of_an_alert_older_than_the_ledgers_retention_is_sent_as_resolved(tmp_path: Path) -> None:
    silence = Silence(id="s", starts_at_ms=later(1), ends_at_ms=later(99 * 86_400), author="eva", comment="new disks")
    people = RecordingSink(mode=DeliveryMode.INCIDENTS)
    dispatcher = dispatcher_with(tmp_path, people, silences=lambda _: [silence])
    dispatcher.deliver([FIRST], NOON_MS)
    dispatcher.deliver([RESOLVED], later(31 * 86_400))
    assert [(notification.reason, notification.previously_notified) for notification in people.notifications] == [
        ("firing", False),
        ("resolved", True),
    ]


@pytest.mark.parametrize("silenced", [False, True])
def test_an_incident_that_was_being_sent_when_the_job_was_killed_is_resolved(tmp_path: Path, silenced: bool) -> None:
    """The service may have accepted it: it must not stay open there, whatever was silenced meanwhile."""
    killed = HangingSink("pager", DeliveryMode.INCIDENTS)
    dispatcher_with(tmp_path, killed, patience_s=0.05).deliver([FIRST], NOON_MS)
    pager = RecordingSink("pager", DeliveryMode.INCIDENTS)
    dispatcher = dispatcher_with(tmp_path, pager, silences=lambda _: [SILENCE] if silenced else [])
    dispatcher.deliver([], later(10))
    dispatcher.deliver([RESOLVED], later(60))
    assert pager.transitions == [FIRST, RESOLVED]
    killed.release.set()


@pytest.mark.parametrize("joins", [False, True], ids=["new incident", "known incident"])
@pytest.mark.parametrize("restarts", [False, True], ids=["sink replaced", "job restarted"])
@pytest.mark.parametrize(
    ("mode", "silences", "route"),
    [
        (DeliveryMode.INCIDENTS, [SILENCE], Route()),
        (DeliveryMode.INCIDENTS, [], Route(clusters=("beta",))),
        (DeliveryMode.TRANSITIONS, [], Route(clusters=("beta",))),
    ],
    ids=["silenced", "routed elsewhere", "record routed elsewhere"],
)
def test_an_alert_of_which_the_answer_was_lost_is_resolved(
    tmp_path: Path, mode: DeliveryMode, silences: Sequence[Silence], route: Route, restarts: bool, joins: bool
) -> None:
    """Neither a restart nor a reload forgets that the service may have it, also in an incident of which it has more."""
    # The alert makes the incident worse: that is sent at once.
    other = alert("other", severity=Severity.WARNING, cluster_id=FIRST.cluster_id if joins else "another")
    lost: list[Outcome] = [Delivered(), Retry(reason="the answer was lost")]
    before, after = RecordingSink("pager", mode, outcomes=lost), RecordingSink("pager", mode, route=route)
    dispatcher = dispatcher_with(tmp_path, before, silences=lambda _: silences)
    dispatcher.deliver([other], NOON_MS)
    dispatcher.deliver([FIRST], NOON_MS)
    if restarts:
        dispatcher = dispatcher_with(tmp_path, after, silences=lambda _: silences)
    else:
        dispatcher.dispatcher.set_sinks([after])
    dispatcher.deliver([], later(10))
    assert after.transitions == [], "what it must not be sent now is held back until it ends"
    dispatcher.deliver([RESOLVED], later(120))
    assert [(one.subject, one.state) for one in after.transitions] == [
        (FIRST.subject, "firing"),
        (FIRST.subject, "resolved"),
    ]


def test_two_jobs_that_observe_an_incident_at_different_times_give_it_the_same_keys(tmp_path: Path) -> None:
    """A service that deduplicates by the key pages once for both, and once more when the incident becomes critical."""
    keys = []
    for late_s in (0, 0.7):
        pager = RecordingSink(mode=DeliveryMode.INCIDENTS)
        folder = tmp_path / str(late_s)
        folder.mkdir()
        dispatcher = dispatcher_with(folder, pager)
        for severity, second in ((Severity.WARNING, 5), (Severity.CRITICAL, 600)):
            observed_at_ms = later(second + late_s)
            one = alert("one", started_at_ms=later(late_s), severity=severity, observed_at_ms=observed_at_ms)
            dispatcher.deliver([one], later(second + 1))
        keys.append([deduplication_key(each.incident, each.escalations) for each in pager.notifications])
    assert keys == [[FIRST.fingerprint, f"{FIRST.fingerprint}-1"]] * 2
