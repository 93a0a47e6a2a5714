"""Sinks are added and removed while the job runs: nothing is sent twice, and a new sink receives what is firing."""

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.delivery.ledger import Ledger
from connectors.errors import UsageError
from connectors.sinks.sink import DeliveryMode
from connectors.store.tables import job_database
from rules.alert import AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.route import Route
from tests.eventually import eventually
from tests.recording_dispatcher import RecordingDispatcher
from tests.unit.connectors.delivery.dispatchers import HangingSink, dispatcher_with
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert

FIRST, SECOND = alert("one"), alert("two")


@pytest.mark.parametrize("mode", DeliveryMode)
def test_a_sink_whose_route_is_widened_receives_what_is_firing(mode: DeliveryMode, tmp_path: Path) -> None:
    narrow, wide = RecordingSink("pager", mode, route=Route(clusters=("beta",))), RecordingSink("pager", mode)
    dispatcher = dispatcher_with(tmp_path, narrow)
    dispatcher.deliver([FIRST, SECOND, alert("two", resolved=True)], NOON_MS)

    dispatcher.dispatcher.set_sinks([wide])
    dispatcher.deliver([], NOON_MS)
    dispatcher_with(tmp_path, wide).deliver([], NOON_MS)

    assert (narrow.transitions, wide.transitions) == ([], [FIRST])


@pytest.mark.parametrize("mode", DeliveryMode)
def test_a_sink_that_returns_with_a_wider_route_is_not_sent_the_end_alone(mode: DeliveryMode, tmp_path: Path) -> None:
    narrow, wide = RecordingSink("pager", mode, route=Route(clusters=("beta",))), RecordingSink("pager", mode)
    dispatcher = dispatcher_with(tmp_path, narrow)
    dispatcher.deliver([FIRST], NOON_MS)
    dispatcher.dispatcher.set_sinks([])
    dispatcher.deliver([alert("one", resolved=True)], NOON_MS)

    dispatcher.dispatcher.set_sinks([wide])

    assert dispatcher.deliver([SECOND], NOON_MS).sinks["pager"].pending == 0
    assert wide.transitions == [SECOND]


def test_a_kept_sink_that_fails_is_not_called_earlier_because_the_sinks_were_read_again(tmp_path: Path) -> None:
    failing = RecordingSink("failing", unreachable=True)
    dispatcher = dispatcher_with(tmp_path, failing)
    for second in range(8):
        dispatcher.deliver([FIRST] if second == 0 else [], Millis(NOON_MS + 1_000 * second))
    calls = failing.calls

    dispatcher.dispatcher.set_sinks([failing, RecordingSink("added")])
    dispatcher.deliver([], Millis(NOON_MS + 8_000))

    assert failing.calls == calls


def test_what_a_removed_sink_did_not_get_is_dropped_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept, removed = RecordingSink("kept"), RecordingSink("removed", unreachable=True)
    ledger = Ledger(job_database(tmp_path), keep_entries=1)
    dispatcher = RecordingDispatcher(ledger, [kept, removed], deadline_s=30, patience_s=30)
    dispatcher.deliver([FIRST], NOON_MS)
    caplog.clear()

    dispatcher.dispatcher.set_sinks([kept])
    for at_ms, transition in enumerate((alert("one", resolved=True), SECOND, alert("two", resolved=True))):
        dispatcher.deliver([transition], Millis(NOON_MS + at_ms))

    assert caplog.text == ""


def test_a_call_in_progress_is_not_repeated_by_the_sinks_successor(tmp_path: Path) -> None:
    slow, successor = HangingSink("sink"), RecordingSink("sink")
    dispatcher = dispatcher_with(tmp_path, slow, patience_s=0.05)

    def nothing_is_pending() -> bool:
        return not dispatcher.deliver([], NOON_MS).sinks["sink"].pending

    assert dispatcher.deliver([FIRST], NOON_MS).sinks["sink"].pending == 1

    dispatcher.dispatcher.set_sinks([successor])
    dispatcher.deliver([], NOON_MS)
    assert successor.transitions == []
    slow.release.set()
    eventually(nothing_is_pending, within_s=30)
    dispatcher.deliver([SECOND], NOON_MS)
    eventually(nothing_is_pending, within_s=30)

    assert (slow.transitions, successor.transitions) == ([FIRST], [SECOND])


def test_a_call_that_missed_its_deadline_is_not_reported_again_by_the_sinks_successor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slow = HangingSink("sink")
    dispatcher = RecordingDispatcher(Ledger(job_database(tmp_path)), [slow], deadline_s=0.05, patience_s=30)
    dispatcher.deliver([FIRST], NOON_MS)
    dispatcher.dispatcher.set_sinks([RecordingSink("sink")])
    dispatcher.deliver([], NOON_MS)
    slow.release.set()
    assert caplog.text.count("no response within 0.05 s") == 1


def test_two_sinks_with_the_same_name_change_nothing(tmp_path: Path) -> None:
    before = RecordingSink("before")
    dispatcher = dispatcher_with(tmp_path, before)

    with pytest.raises(UsageError, match="The sink twice is configured twice"):
        dispatcher.dispatcher.set_sinks([RecordingSink("twice"), RecordingSink("twice")])

    dispatcher.deliver([FIRST], NOON_MS)
    assert before.transitions == [FIRST]


def test_a_sink_that_is_added_to_an_open_incident_also_gets_what_it_was(tmp_path: Path) -> None:
    people = DeliveryMode.INCIDENTS
    outage = alert("quorum", summary="No leader elected.", severity=Severity.CRITICAL)
    left = alert("quorum", rule="failure-tolerance", summary="Voter 3 is not fetching.", severity=Severity.WARNING)
    first, record = RecordingSink("first", people), RecordingSink("record")
    dispatcher = dispatcher_with(tmp_path, first)
    over = replace(outage, state=AlertState.RESOLVED, observed_at_ms=Millis(NOON_MS + 60_000))
    for second, transitions in enumerate(([outage], [left], [over])):
        dispatcher.deliver(transitions, Millis(NOON_MS + 60_000 * second))

    added, other = RecordingSink("added", people), RecordingSink("other", people, route=Route(rules=("failure-*",)))
    dispatcher.dispatcher.set_sinks([first, record, added, other])
    dispatcher.deliver([], Millis(NOON_MS + 600_000))

    before = "Voter 3 is not fetching. Before, the incident was critical (no-leader): No leader elected."
    assert [one.summary for one in added.notifications] == [before]
    assert [one.summary for one in other.notifications] == [left.summary], "its route excludes the other alert"
    assert (added.transitions, other.transitions, record.transitions) == ([left], [left], [left])
