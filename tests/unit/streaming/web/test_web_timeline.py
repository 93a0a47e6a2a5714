"""The timeline: events of the log and alerts on one axis."""

from dataclasses import replace
from typing import Any

import pytest

from rules.alert import Alert
from rules.finding import Severity
from rules.formatting import from_iso
from rules.model.history import ControllerStart, Election, UncleanElections, VoterChange
from rules.model.identifiers import DirectoryId, Epoch, Millis, NodeId, Offset, ReplicaKey, TopicId
from streaming.status.cluster_status import TopicRecovery
from streaming.status.status_store import EndedRecovery, ReceivedStatus
from streaming.web.cluster_view import ClusterView
from streaming.web.timeline import ALERTS_SHOWN, Shape, timeline
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.streaming.status.statuses import NO_OBSERVATION

FROM, TO = Millis(NOON_MS - 60_000), Millis(NOON_MS + 40_000)


def view(*history: Alert, ended: tuple[EndedRecovery, ...] = (), **fields: Any) -> ClusterView:
    status = replace(NO_OBSERVATION, **fields)
    received = ReceivedStatus(status=status, received_at_ms=NOON_MS, ended_recoveries=ended)
    return ClusterView(name="prod", now_ms=TO, received=received, history=history)


def election(at_ms: int) -> Election:
    return Election(leader_id=NodeId(2), leader_epoch=Epoch(8), offset=Offset(70), timestamp_ms=Millis(at_ms))


def fired(at: int, *, started: int, subject: str = "controller 1", **changed: Any) -> Alert:
    observed_at_ms, warning = Millis(NOON_MS + at), {"severity": Severity.WARNING}
    return alert(subject, started_at_ms=NOON_MS + started, observed_at_ms=observed_at_ms, **{**warning, **changed})


def test_election_and_alert_of_the_same_time_have_the_same_position() -> None:
    line = timeline(view(fired(0, started=-10_000), elections=(election(NOON_MS - 10_000),)), FROM, TO)
    mark, pending = line.lanes[0].marks[0], line.lanes[-1].spans[0]
    assert (mark.shape, line.x(mark.at_ms), line.x(pending.from_ms), pending.kind) == (
        Shape.ELECTION,
        50.0,
        50.0,
        "pending",
    )


def test_election_names_the_voters_that_voted_for_the_leader() -> None:
    known = replace(
        election(NOON_MS), voter_ids=(NodeId(1), NodeId(2), NodeId(3)), granting_voter_ids=(NodeId(2), NodeId(3))
    )
    line = timeline(view(elections=(known, election(NOON_MS))), FROM, TO)
    assert [mark.text for mark in line.lanes[0].marks] == [
        "controller 2 was elected, epoch 8, 2 of 3 votes: 2 and 3",
        "controller 2 was elected, epoch 8",
    ]


def test_alert_has_spans_for_pending_and_each_severity() -> None:
    life = (
        fired(10_000, started=0),
        fired(20_000, started=0, severity=Severity.CRITICAL),
        fired(30_000, started=0, resolved=True),
    )
    line = timeline(view(*life, fired(35_000, started=35_000)), FROM, TO)
    (lane,) = line.lanes[4:]
    assert [(span.kind, span.from_ms - NOON_MS, span.to_ms - NOON_MS, span.open) for span in lane.spans] == [
        ("pending", 0, 10_000, False),
        ("warning", 10_000, 20_000, False),
        ("critical", 20_000, 30_000, False),
        ("warning", 35_000, TO - NOON_MS, True),
    ]
    assert line.x(lane.spans[-1].from_ms) + line.width(lane.spans[-1]) == 100.0


@pytest.mark.parametrize(
    ("newest_ms", "seen_ms", "elected_ms", "ahead_ms"),
    [
        (NOON_MS + 300_000, NOON_MS, NOON_MS + 300_000, 300_000),
        # An idle log.
        (NOON_MS, NOON_MS + 300_000, NOON_MS, 0),
    ],
)
def test_controllers_clock_that_is_ahead_is_subtracted(
    newest_ms: int, seen_ms: int, elected_ms: int, ahead_ms: int
) -> None:
    times: dict[str, Any] = {"newest_timestamp_ms": Millis(newest_ms), "log_fetched_at_ms": Millis(seen_ms)}
    line = timeline(view(elections=(election(elected_ms),), **times), FROM, TO)
    assert (line.ahead_ms, line.lanes[0].marks[0].at_ms) == (ahead_ms, NOON_MS)


def test_ended_and_open_recoveries_are_spans_and_unclean_elections_a_mark() -> None:
    elections = UncleanElections(
        topic_id=TopicId("tb"),
        topic="b",
        elections=3,
        partitions=(0, 1, 2),
        leaders=(NodeId(101),),
        passed_over=(),
        first_timestamp_ms=NOON_MS,
        last_timestamp_ms=TO,
        last_offset=Offset(70),
    )
    over = EndedRecovery(topic="a", topic_id="ta", since_ms=Millis(NOON_MS - 20_000), ended_ms=NOON_MS)
    still_open = TopicRecovery(topic="b", topic_id="tb", since_ms=NOON_MS, at_least=False, partitions=3)
    recent = view(ended=(over,), recoveries=(still_open,), unclean=(elections,), now_ms=TO)
    lane = timeline(recent, FROM, TO).lanes[3]
    assert [span.text for span in lane.spans] == [
        "topic a was RECOVERING for 20 s",
        "3 partitions of topic b RECOVERING for 40 s",
    ]
    assert [(mark.at_ms, mark.text) for mark in lane.marks] == [(NOON_MS, "3 unclean elections in topic b")]


def test_alerts_outside_the_span_are_left_out_and_alerts_without_a_lane_are_counted() -> None:
    old = fired(-500_000, started=-500_000, subject="long ago")
    ended = fired(-400_000, started=-500_000, subject="long ago", resolved=True)
    many = [fired(0, started=0, subject=f"controller {number}") for number in range(ALERTS_SHOWN + 3)]
    line = timeline(view(old, ended, *many), FROM, TO)
    assert line.omitted == 3
    assert not any("long ago" in lane.name for lane in line.lanes)


def test_ticks_are_at_round_times() -> None:
    ticks = timeline(view(), Millis(0), Millis(3_600_000)).ticks
    assert [word for _, word, _ in ticks] == ["00:00", "00:10", "00:20", "00:30", "00:40", "00:50", "01:00"]
    assert [word for _, word, between in ticks if not between] == ["00:00", "00:20", "00:40", "01:00"], "on a phone"


def test_forced_voter_change_has_its_own_shape() -> None:
    change = VoterChange(
        before=(replica_id(1), replica_id(2), replica_id(3)),
        after=(replica_id(3), replica_id(4)),
        leader_epoch=Epoch(3),
        offset=Offset(77),
        timestamp_ms=from_iso("2026-11-20T05:01:02.345Z"),
    )
    line = timeline(view(voter_changes=(change,)), FROM, TO)
    (mark,) = line.lanes[1].marks
    assert (mark.shape, mark.label) == (Shape.FORCED, "+4 −1 −2")
    assert mark.text == "voter set changed by force: 4-d4 added, 1-d1 removed and 2-d2 removed, at offset 77"


@pytest.mark.parametrize(
    ("seconds_to_the_next", "expected"), [(1, ("", True)), (4, ("2", True)), (20, ("2", False))], ids=str
)
def test_a_label_is_left_out_where_it_would_cover_the_next_mark(
    seconds_to_the_next: int, expected: tuple[str, bool]
) -> None:
    starts = [
        ControllerStart(
            id=NodeId(node), incarnation_id="", offset=Offset(70), timestamp_ms=Millis(NOON_MS + after * 1000)
        )
        for node, after in ((2, 0), (3, seconds_to_the_next))
    ]
    first = timeline(view(starts=tuple(starts)), FROM, TO).lanes[2].marks[0]
    assert (first.label, first.wide) == expected, "the label, and whether only a wide screen has room for it"


def replica_id(node: int) -> ReplicaKey:
    return ReplicaKey(id=NodeId(node), directory_id=DirectoryId(f"d{node}"))
