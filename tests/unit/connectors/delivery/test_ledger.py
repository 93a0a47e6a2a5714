"""The ledger: what was delivered and what is pending, across crashes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select, update

from connectors.delivery.ledger import Ledger, stored_alerts
from connectors.errors import StoreError
from connectors.store.alert_store import AlertStore
from connectors.store.database import Database
from connectors.store.tables import ALERTS, job_database
from rules.alert import Alert, AlertState
from rules.finding import FindingFacts, Severity
from rules.firing import Firing
from rules.model.identifiers import Millis, NodeId
from rules.model.job_state import ClockStep
from rules.model.monitoring import Reason
from rules.notifications.incident import deduplication_key
from rules.notifications.notification import Notified
from tests.unit.connectors.delivery.dispatchers import full_disk
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

FIRST, SECOND, RESOLVED = alert("one"), alert("two"), alert("one", resolved=True)
AGAIN = alert("one", started_at_ms=NOON_MS + 60_000)
DAY_MS = 86_400_000


def opened(folder: Path, *sinks: str, keep_entries: int = 10_000) -> Ledger:
    ledger = Ledger(job_database(folder), keep_entries=keep_entries)
    for sink in sinks:
        ledger.add_sink(sink)
    return ledger


def record_delivered(ledger: Ledger, sink: str, *alerts: Alert) -> None:
    """Records alerts that this sink accepts."""
    ledger.record(alerts, NOON_MS)
    ledger.mark_delivered(sink, [each.key for each in alerts])


def past(subject: str = "past") -> tuple[Alert, Alert]:
    """Returns the transitions of an alert that ended."""
    return alert(subject), alert(subject, resolved=True)


@settings(max_examples=25, deadline=None)
@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.none() | st.integers(0, 2**63))
def test_an_alert_is_read_as_it_was_recorded(text: str, number: float, offset: int | None) -> None:
    recorded = alert(text, summary=text, evidence={text: [number, {"in": text}]}, remedy=(text,), offset=offset)
    with TemporaryDirectory() as folder:
        opened(Path(folder)).record([recorded], NOON_MS)
        assert stored_alerts(job_database(Path(folder), read_only=True)) == (recorded,)


def test_an_alert_that_was_stored_without_a_later_field_is_read(tmp_path: Path) -> None:
    facts = FindingFacts(
        failed_nodes=(NodeId(4),),
        clusters=("a", "b"),
        unobserved=(Reason.TIMED_OUT,),
        clock_step=ClockStep(before_ms=Millis(1), after_ms=Millis(2), at_ms=Millis(3)),
    )
    opened(tmp_path).record([replace(FIRST, facts=facts)], NOON_MS)
    database = job_database(tmp_path)
    assert opened(tmp_path).firing()[0].facts == facts
    with database.transaction() as connection:
        stored = dict(connection.scalars(select(ALERTS.c.alert)).one())
        del stored["facts"]
        connection.execute(update(ALERTS).values(alert=stored))
    assert opened(tmp_path).firing() == [FIRST]


def test_a_number_that_json_does_not_have_loses_no_alert(tmp_path: Path) -> None:
    opened(tmp_path).record([alert("one", evidence={"ratio": float("nan")})], NOON_MS)
    assert opened(tmp_path).firing()[0].evidence == {"ratio": None}


def test_each_sink_has_its_pending_transitions_in_order_and_once(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a", "b")
    assert ledger.record([FIRST, SECOND, FIRST], NOON_MS) == (FIRST, SECOND)
    assert ledger.record([SECOND, RESOLVED], NOON_MS) == (RESOLVED,)
    ledger.mark_delivered("a", [FIRST.key, RESOLVED.key])
    assert ledger.pending("a") == [SECOND]
    assert ledger.pending("b") == [FIRST, SECOND, RESOLVED]
    again = opened(tmp_path, "a", "b")
    assert again.pending("a") == [SECOND]
    assert again.pending("b") == [FIRST, SECOND, RESOLVED]
    assert again.record([FIRST, SECOND, RESOLVED], NOON_MS) == ()
    assert again.firing() == [SECOND]


def test_a_transition_that_is_evaluated_a_minute_late_says_so_and_stays_the_same_transition(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a")
    (in_time,) = ledger.record([FIRST], Millis(FIRST.observed_at_ms + 59_999))
    (just_late,) = ledger.record([alert("three")], Millis(FIRST.observed_at_ms + 60_000))
    assert just_late.late_ms == 60_000
    (late,) = ledger.record([SECOND], Millis(SECOND.observed_at_ms + 47 * 60_000))
    assert (in_time.late_ms, late.late_ms) == (None, 47 * 60_000)
    assert (late, late.key) == (SECOND, SECOND.key)
    assert ledger.record([SECOND], Millis(SECOND.observed_at_ms + 90 * 60_000)) == ()
    assert [one.late_ms for one in opened(tmp_path, "a").pending("a")] == [None, 60_000, 47 * 60_000]


def test_critical_warning_and_critical_again_are_three_transitions(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a")
    transitions = [
        alert("one", severity=severity, observed_at_ms=Millis(NOON_MS + 10_000 * number))
        for number, severity in enumerate((Severity.CRITICAL, Severity.WARNING, Severity.CRITICAL))
    ]
    for one in transitions:
        ledger.record([one], NOON_MS)
    assert ledger.pending("a") == transitions


def test_only_what_is_firing_is_pending_for_a_new_sink(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a")
    ledger.record([FIRST, SECOND, RESOLVED], NOON_MS)
    ledger.add_sink("b")
    ledger.add_sink("a")
    third = alert("three")
    ledger.record([third], NOON_MS)
    assert ledger.pending("b") == [SECOND, third]
    assert ledger.pending("a") == [FIRST, SECOND, RESOLVED, third]
    assert opened(tmp_path).pending("b") == [SECOND, third]


def test_old_and_excess_alerts_are_dropped_but_never_what_is_firing(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a", keep_entries=10)
    ledger.record([FIRST], NOON_MS)
    for at in range(600):
        record_delivered(ledger, "a", *past(f"past {at}"))
    assert ledger.firing() == [FIRST]
    assert ledger.pending("a") == [FIRST]
    assert ledger.record([FIRST, alert("past 599")], NOON_MS) == ()
    # The others are dropped by age too, with their delivery status.
    ledger.record([SECOND], Millis(NOON_MS + 31 * DAY_MS))
    assert ledger.record([FIRST, SECOND, alert("past 599")], NOON_MS) == (alert("past 599"),)


def test_the_delivered_transition_is_kept_while_its_end_is_pending(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "well", "late", keep_entries=3)
    ledger.record([FIRST], NOON_MS)
    for sink in ("well", "late"):
        ledger.mark_delivered(sink, [FIRST.key])
    ledger.record([*past("two"), RESOLVED], NOON_MS)
    ledger.mark_delivered("well", [RESOLVED.key])
    ledger.record([], NOON_MS)
    (transitions,) = ledger.incidents("late").values()
    assert [(each.alert, each.delivered) for each in transitions if each.alert.subject == "one"] == [
        (FIRST, True),
        (RESOLVED, False),
    ]


def test_a_known_sink_that_is_slow_after_a_restart_is_not_removed_with_what_it_did_not_get(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened(tmp_path, "slow")
    ledger = opened(tmp_path, "slow", keep_entries=1)
    ledger.record([*past(), FIRST], NOON_MS)
    assert ledger.pending("slow") == [FIRST]
    assert "2 alerts were dropped undelivered" in caplog.text


def test_numbers_are_used_again_when_every_alert_was_dropped(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a")
    record_delivered(ledger, "a", FIRST, RESOLVED)
    ledger.record([], Millis(NOON_MS + 31 * DAY_MS))
    assert ledger.history() == ()
    ledger.record([SECOND], Millis(NOON_MS + 31 * DAY_MS))
    assert opened(tmp_path, "a").pending("a") == [SECOND]


@pytest.mark.parametrize(
    "batches", [[[FIRST, RESOLVED, AGAIN]], [[FIRST, RESOLVED], [AGAIN]]], ids=["in one batch", "in two"]
)
def test_an_alert_that_fires_again_before_its_end_was_sent_is_another_incident_for_the_services(
    tmp_path: Path, batches: list[list[Alert]]
) -> None:
    """With the same key, a service would take the resolution of the first for that of the second."""
    third = alert("one", started_at_ms=NOON_MS + 120_000)
    ended = alert("one", started_at_ms=NOON_MS + 60_000, resolved=True)
    ledger = opened(tmp_path, "a")
    for batch in batches:
        ledger.record(batch, NOON_MS)
    keys = [deduplication_key(one) for one in ledger.incidents("a")]
    assert keys[0] == FIRST.fingerprint
    assert len({*keys}) == 2
    ledger.record([ended], NOON_MS)
    ledger.mark_delivered("a", [each.key for each in (FIRST, RESOLVED, AGAIN, ended)])
    ledger.record([third], NOON_MS)
    assert [deduplication_key(one) for one in ledger.incidents("a")] == [FIRST.fingerprint]


def test_of_two_firing_transitions_of_an_alert_only_the_newest_is_firing(tmp_path: Path) -> None:
    """A job whose state was lost finds the condition again, with another beginning."""
    opened(tmp_path).record([FIRST, AGAIN], NOON_MS)
    assert opened(tmp_path).firing() == [AGAIN]


def test_incidents_are_in_the_order_of_their_beginning(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a")
    ledger.record([FIRST, alert("one", cluster="other", cluster_id="other")], NOON_MS)
    ledger.mark_delivered("a", [FIRST.key])
    assert [each.alert.cluster_id for (each,) in ledger.incidents("a").values()] == [FIRST.cluster_id, "other"]


def test_a_dropped_end_takes_its_beginning_with_it(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a")
    record_delivered(ledger, "a", FIRST)
    # The beginning was recorded long before the end.
    ledger.record([RESOLVED], Millis(NOON_MS + 20 * DAY_MS))
    ledger.mark_delivered("a", [RESOLVED.key])
    assert len(ledger.history()) == 2
    for later_ms in (0, 1_000):
        assert ledger.record([], Millis(NOON_MS + 51 * DAY_MS + later_ms)) == ()
        assert (ledger.history(), ledger.firing()) == ((), [])
    assert opened(tmp_path, "a").firing() == []


def test_what_is_pending_is_not_dropped_by_age(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledger = opened(tmp_path, "working", "failing")
    record_delivered(ledger, "working", *past("one"), *past("two"))

    # The clock was a month ahead for one delivery.
    for now_ms in (Millis(NOON_MS + 31 * DAY_MS), NOON_MS):
        ledger.record([], now_ms)
        assert ledger.pending("failing") == [*past("one"), *past("two")]

    ledger.mark_delivered("failing", [each.key for each in past("one")])
    ledger.record([], Millis(NOON_MS + 31 * DAY_MS))
    assert ledger.history() == past("two")
    assert opened(tmp_path, "working", "failing").pending("failing") == [*past("two")]
    assert caplog.text == ""


def test_an_open_incident_keeps_what_escalated_it(tmp_path: Path) -> None:
    """Its newest page in PagerDuty has the number of escalations in its key."""
    ledger = opened(tmp_path, "a")
    warning = alert("one", severity=Severity.WARNING)
    critical = replace(alert("one"), observed_at_ms=Millis(NOON_MS + 60_000))
    other = alert("two", severity=Severity.WARNING)
    end = replace(critical, state=AlertState.RESOLVED, observed_at_ms=Millis(NOON_MS + 120_000))
    record_delivered(ledger, "a", warning, critical, other, end)

    def escalations() -> list[int]:
        return [each.escalations for transitions in ledger.incidents("a").values() for each in transitions]

    assert escalations() == [0, 1, 1, 1]
    ledger.record([], Millis(NOON_MS + 31 * DAY_MS))
    assert escalations() == [0, 1, 1, 1]
    record_delivered(ledger, "a", replace(other, state=AlertState.RESOLVED, observed_at_ms=Millis(NOON_MS + 180_000)))
    ledger.record([], Millis(NOON_MS + 62 * DAY_MS))
    assert ledger.history() == ()


def test_a_standby_reads_one_state_while_the_active_job_drops_an_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = opened(tmp_path, "a", keep_entries=1)
    record_delivered(active, "a", alert("one", resolved=True))
    standby, reading = opened(tmp_path, "a"), Database.reading
    dropped: list[str] = []

    @contextmanager
    def then_dropped(database: Database) -> Iterator[Connection]:
        with reading(database) as connection:
            yield connection
        if not dropped:
            dropped.append("one")
            record_delivered(active, "a", alert("two", resolved=True))

    monkeypatch.setattr(Database, "reading", then_dropped)
    standby.refresh()
    assert [one.subject for one in standby.history()] == ["one"]
    standby.refresh()
    assert [one.subject for one in standby.history()] == ["two"]


def test_a_deactivated_sink_is_removed_when_its_pending_transitions_are_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened(tmp_path, "stays", "goes", "went")
    ledger = opened(tmp_path, "stays", "goes", keep_entries=1)
    ledger.deactivate_sink("goes")
    record_delivered(ledger, "stays", FIRST)
    # Until then it can be added again and receives what it missed.
    ledger.add_sink("goes")
    assert ledger.pending("goes") == [FIRST]
    ledger.deactivate_sink("goes")
    record_delivered(ledger, "stays", *past())
    ledger.record([SECOND], NOON_MS)
    assert caplog.text == ""
    assert [*AlertStore(job_database(tmp_path)).content()[1]] == ["stays"]
    again = opened(tmp_path, "goes", "stays")
    assert again.pending("goes") == [FIRST, SECOND]
    assert again.pending("stays") == [SECOND]


def test_when_each_sink_was_notified_is_kept_apart(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a", "b")
    ledger.record([FIRST], NOON_MS)
    (incident,) = ledger.incidents("a")
    for sink, at_ms in (("a", 1), ("b", 2), ("a", 3)):
        ledger.mark_delivered(sink, [], notified={incident: Notified(at_ms=Millis(at_ms))})
    for each in (ledger, opened(tmp_path, "a", "b")):
        assert [each.last_notified(one)[incident].at_ms for one in ("a", "b")] == [3, 2]


def test_a_sink_that_is_added_again_after_it_was_removed_was_notified_of_nothing(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "stays", "goes", keep_entries=1)
    ledger.record([FIRST], NOON_MS)
    (incident,) = ledger.incidents("goes")
    for sink in ("stays", "goes"):
        ledger.mark_delivered(sink, [FIRST.key] * (sink == "stays"), notified={incident: Notified(at_ms=NOON_MS)})
    ledger.deactivate_sink("goes")
    record_delivered(ledger, "stays", SECOND, *past())
    ledger.record([alert("three")], NOON_MS)

    again = opened(tmp_path, "stays", "goes")

    assert ([*again.last_notified("stays")], [*again.last_notified("goes")]) == ([incident], [])


def test_what_a_full_disk_does_not_take_is_recorded_in_its_order_once_there_is_room(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a", "b")
    large = alert("large", summary="x" * 100_000)
    with full_disk(ledger):
        assert ledger.record([FIRST, large], NOON_MS) == (FIRST, large)
        ledger.mark_delivered("a", [FIRST.key])
        ledger.record([RESOLVED], NOON_MS)
        ledger.discard("b", [large.key])
        assert (ledger.pending("a"), ledger.pending("b")) == ([large, RESOLVED], [FIRST, RESOLVED])
        assert opened(tmp_path).history() == ()
    ledger.reconcile([], NOON_MS)
    again = opened(tmp_path)
    assert (again.pending("a"), again.pending("b")) == ([large, RESOLVED], [FIRST, RESOLVED])
    assert again.firing() == [large]


def test_of_the_texts_that_a_full_disk_does_not_take_the_newest_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.delivery.ledger.TEXT_S", 0.0)
    ledger, large = opened(tmp_path, "a"), replace(FIRST, summary="x" * 100_000)
    with full_disk(ledger):
        ledger.reconcile([found(large)], NOON_MS)
        kept = len(ledger._store._unwritten)
        for second in range(20, 60):
            ledger.reconcile([found(replace(large, summary=f"At {second}."), second=second)], NOON_MS)
        assert len(ledger._store._unwritten) == kept
    ledger.reconcile([], NOON_MS)
    assert [one.summary for one in opened(tmp_path).history()] == ["At 59."]


def test_of_what_a_full_disk_does_not_take_no_more_waits_than_the_ledger_keeps(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a", keep_entries=10)
    record_delivered(ledger, "a", *past("written"))
    ledger.record([large := alert("large", summary="x" * 100_000)], NOON_MS)
    sizes = []
    with full_disk(ledger):
        for at in range(100):
            ended = past(f"past {at}")
            ledger.record(ended, NOON_MS)
            (incident, *_) = ledger.incidents("a")
            ledger.mark_delivered("a", [each.key for each in ended], notified={incident: Notified(at_ms=NOON_MS)})
            sizes.append(sum(len(rows) for _, rows in ledger._store._unwritten))
        kept, pending = ledger.history(), ledger.pending("a")
    ledger.reconcile([], NOON_MS)
    assert (max(sizes), sizes[50]) == (max(sizes[:50]), sizes[99]), sizes
    again = opened(tmp_path, "a", keep_entries=10)
    assert (again.history(), again.pending("a")) == (kept, pending)
    assert again.firing() == [large]


def test_numbers_that_are_used_again_while_the_disk_is_full_leave_nothing_of_before(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a")
    record_delivered(ledger, "a", FIRST, RESOLVED)
    with full_disk(ledger):
        for day in (31, 62, 93):
            at_ms = Millis(NOON_MS + day * DAY_MS)
            ledger.record([], at_ms)
            ledger.record([replace(each, summary="x" * 100_000) for each in past(f"{day}")], at_ms)
            ledger.mark_delivered("a", [each.key for each in ledger.pending("a")])
    ledger.reconcile([], Millis(NOON_MS + 93 * DAY_MS))
    assert [one.subject for one in opened(tmp_path, "a").history()] == ["93", "93"]


def test_a_database_that_was_deleted_while_the_job_runs_is_not_written(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a")
    (tmp_path / "kraftwatch.db").unlink()
    with pytest.raises(StoreError, match=r"kraftwatch\.db cannot be used: it was deleted"):
        ledger.record([FIRST], NOON_MS)


def found(*alerts: Alert, second: int = 10) -> Firing:
    return Firing(cluster="alpha", evaluated_ms=Millis(NOON_MS + 1_000 * second), alerts=alerts)


def test_what_is_pending_says_what_is_true_now_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that could not be reached, or a silence that ends: people read what holds then."""
    ledger = opened(tmp_path, "a")
    assert ledger.reconcile([found(FIRST)], NOON_MS) == 1
    newer = replace(FIRST, summary="Two controllers are down.", remedy=("# Start controller 2.",))
    assert ledger.reconcile([found(newer, second=20)], NOON_MS) == 1
    assert [one.summary for one in ledger.pending("a")] == ["Two controllers are down."]
    assert [one.key for one in ledger.pending("a")] == [FIRST.key]
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    assert ledger.reconcile([found(newer, second=30)], NOON_MS) == 0
    again = opened(tmp_path, "a")
    assert [(one.summary, one.remedy) for one in again.pending("a")] == [
        ("Two controllers are down.", ("# Start controller 2.",))
    ]


def test_a_firing_that_is_reconciled_twice_records_once(tmp_path: Path) -> None:
    ledger = opened(tmp_path, "a")
    assert [ledger.reconcile([found(FIRST, SECOND)], NOON_MS) for _ in range(2)] == [2, 0]
    assert [ledger.reconcile([found(SECOND, second=60)], NOON_MS) for _ in range(2)] == [1, 0]
    assert [(one.subject, one.state.value) for one in ledger.history()] == [
        ("one", "firing"),
        ("two", "firing"),
        ("one", "resolved"),
    ]
    assert opened(tmp_path).history() == ledger.history()
