"""One axis for what the log tells and what was told."""

from dataclasses import replace
from typing import Any

from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.status.status_store import Recovered, Seen
from streaming.web.cluster_view import Dossier
from streaming.web.timeline import ALERTS_SHOWN, timeline
from streaming.web.timeline_lanes import Shape
from tests.unit.connectors.sinks.sink_alerts import NOON_MS
from tests.unit.connectors.sinks.sink_alerts import alert as an_alert

FROM, TO = Millis(NOON_MS - 60_000), Millis(NOON_MS + 40_000)


def dossier(*history: Alert, recovered: tuple[Recovered, ...] = (), **portrait: Any) -> Dossier:
    seen = Seen(portrait=portrait, received_at_ms=NOON_MS, recovered=recovered)
    return Dossier(name="prod", now_ms=TO, seen=seen, history=history)


def fired(at: int, *, started: int, severity: Severity = Severity.WARNING, subject: str = "controller 1") -> Alert:
    return replace(
        an_alert(),
        subject=subject,
        severity=severity,
        started_at_ms=Millis(NOON_MS + started),
        observed_at_ms=Millis(NOON_MS + at),
        state=AlertState.FIRING,
    )


def test_an_election_and_the_alert_of_the_same_moment_stand_at_the_same_place() -> None:
    election = {"at_ms": NOON_MS - 10_000, "leader_id": 2, "leader_epoch": 8}
    drawn = timeline(dossier(fired(0, started=-10_000), elections=[election]), FROM, TO)
    mark, waiting = drawn.lanes[0].marks[0], drawn.lanes[-1].spans[0]
    assert (mark.shape, mark.x, waiting.x, waiting.kind) == (Shape.ELECTION, 50.0, 50.0, "waiting")


def test_an_alert_waits_fires_gets_worse_and_ends() -> None:
    resolved = replace(fired(30_000, started=0), state=AlertState.RESOLVED)
    life = (fired(10_000, started=0), fired(20_000, started=0, severity=Severity.CRITICAL), resolved)
    (lane,) = timeline(dossier(*life), FROM, TO).lanes[4:]
    assert [(span.kind, span.from_ms - NOON_MS, span.to_ms - NOON_MS, span.open) for span in lane.spans] == [
        ("waiting", 0, 10_000, False),
        ("warning", 10_000, 20_000, False),
        ("critical", 20_000, 30_000, False),
    ]


def test_an_alert_that_fires_reaches_to_now() -> None:
    (lane,) = timeline(dossier(fired(0, started=0)), FROM, TO).lanes[4:]
    assert (lane.spans[0].to_ms, lane.spans[0].open, lane.spans[0].x + lane.spans[0].width) == (TO, True, 100.0)


def test_a_controllers_clock_that_is_ahead_is_put_right() -> None:
    election = {"at_ms": NOON_MS + 300_000, "leader_id": 2, "leader_epoch": 8}
    drawn = timeline(
        dossier(elections=[election], newest_timestamp_ms=NOON_MS + 300_000, log_seen_at_ms=NOON_MS), FROM, TO
    )
    assert (drawn.ahead_ms, drawn.lanes[0].marks[0].at_ms) == (300_000, NOON_MS)


def test_a_log_that_is_behind_may_be_idle_and_is_left_alone() -> None:
    election = {"at_ms": NOON_MS, "leader_id": 2, "leader_epoch": 8}
    drawn = timeline(
        dossier(elections=[election], newest_timestamp_ms=NOON_MS, log_seen_at_ms=NOON_MS + 300_000), FROM, TO
    )
    assert (drawn.ahead_ms, drawn.lanes[0].marks[0].at_ms) == (0, NOON_MS)


def test_a_recovery_that_ended_is_a_span_and_so_is_one_that_goes_on() -> None:
    over = Recovered(topic="a", topic_id="ta", since_ms=Millis(NOON_MS - 20_000), ended_ms=NOON_MS)
    open_ = {"topic": "b", "topic_id": "tb", "since_ms": NOON_MS, "at_least": False, "partitions": 3}
    lane = timeline(dossier(recovered=(over,), recoveries=[open_], now_ms=TO), FROM, TO).lanes[3]
    assert [span.says for span in lane.spans] == [
        "topic a was RECOVERING for 20 s",
        "3 partitions of topic b RECOVERING for 40 s",
    ]


def test_what_is_outside_is_not_drawn_and_what_has_no_lane_is_counted() -> None:
    old = fired(-500_000, started=-500_000, subject="long ago")
    ended = replace(old, state=AlertState.RESOLVED, observed_at_ms=Millis(NOON_MS - 400_000))
    many = [fired(0, started=0, subject=f"controller {number}") for number in range(ALERTS_SHOWN + 3)]
    drawn = timeline(dossier(old, ended, *many), FROM, TO)
    assert drawn.omitted == 3
    assert not any("long ago" in lane.name for lane in drawn.lanes)


def test_there_are_a_few_ticks_at_round_times() -> None:
    words = [word for _, word in timeline(dossier(), Millis(0), Millis(3_600_000)).ticks]
    assert words == ["00:00", "00:10", "00:20", "00:30", "00:40", "00:50", "01:00"]


def test_a_voter_set_changed_by_force_has_a_shape_of_its_own() -> None:
    change = {
        "added": [{"id": 4, "directory_id": "d4"}],
        "removed": [{"id": 1, "directory_id": "d1"}, {"id": 2, "directory_id": "d2"}],
        "moved": [],
        "leader_epoch": 3,
        "offset": 77,
        "at": "2026-11-20T05:01:02.345Z",
    }
    drawn = timeline(dossier(voter_changes=[change], reconfigurations=[{"offset": 77}]), FROM, TO)
    (mark,) = drawn.lanes[1].marks
    assert (mark.shape, mark.label) == (Shape.FORCED, "+4 −1 −2")
    assert mark.says == "voter set changed by force: 4-d4 added, 1-d1 removed and 2-d2 removed, at offset 77"
