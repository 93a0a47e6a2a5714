"""snapshot-stale: the age of the leader's newest snapshot, by the timestamps in the log."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rules.evaluate import thresholds_for
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import LeaderLog
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    EPOCH,
    NOW,
    elected,
    evaluation_of,
    finding_lines,
    findings,
    healthy,
    leader_log,
    position,
    snapshots,
    unknown_reasons,
    view,
    with_controller,
    with_past,
    with_views,
)

RULE = "snapshot-stale"
HOUR_MS = 3_600_000
FIRES = [f"warning {RULE}: metadata log"]


@pytest.mark.parametrize(("begins_ago_ms", "expected"), [(3 * HOUR_MS, []), (3 * HOUR_MS + 1, FIRES)])
def test_a_log_without_a_snapshot_is_as_old_as_its_first_record(begins_ago_ms: int, expected: list[str]) -> None:
    assert finding_lines(snapshots(healthy(), leader_log(None, begins_ago_ms=begins_ago_ms))) == expected


def test_no_snapshot_is_due_while_nothing_is_written() -> None:
    """Without NoOps; SnapshotGenerator considers a snapshot when a record is committed."""
    quorum = replace(snapshots(healthy(), leader_log(4 * HOUR_MS)), idle_ms=2 * HOUR_MS)
    assert finding_lines(quorum) == []
    assert finding_lines(snapshots(replace(quorum, idle_ms=HOUR_MS - 1), leader_log(4 * HOUR_MS))) == FIRES


def started(quorum: Quorum, ago_ms: int) -> Quorum:
    leader = replace(quorum.controllers[NodeId(3)], at=position(53, 300 + ago_ms))
    return with_controller(quorum, leader)


@pytest.mark.parametrize(("ago_ms", "expected"), [(HOUR_MS // 2, []), (3 * HOUR_MS, []), (3 * HOUR_MS + 1, FIRES)])
def test_leader_that_started_recently_may_have_an_old_snapshot(ago_ms: int, expected: list[str]) -> None:
    assert finding_lines(started(snapshots(healthy(), leader_log(60 * HOUR_MS)), ago_ms)) == expected


@pytest.mark.parametrize(("winner", "expected"), [(3, []), (1, FIRES)])
def test_election_time_is_used_if_controllers_do_not_register(winner: int, expected: list[str]) -> None:
    quorum = replace(snapshots(healthy(), leader_log(60 * HOUR_MS)), controllers={})
    assert finding_lines(elected(quorum, winner)) == expected


def test_leader_that_was_elected_several_times_runs_since_the_newest_election() -> None:
    quorum = replace(snapshots(healthy(), leader_log(60 * HOUR_MS)), controllers={})
    assert finding_lines(elected(quorum, 3, 3, every_ms=4 * HOUR_MS)) == []


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (leader_log(None), "the leader reported neither a snapshot nor the first record of its log"),
        (
            replace(leader_log(0), snapshot=replace(leader_log(0).snapshot, last_contained_timestamp_ms=None)),  # type: ignore[type-var]
            "the header of snapshot 6400-6 could not be read",
        ),
    ],
)
def test_result_is_unknown_if_the_age_of_the_snapshot_is_unknown(log: LeaderLog, why: str) -> None:
    quorum = snapshots(healthy(), log)
    assert finding_lines(quorum) == []
    assert unknown_reasons(quorum, RULE) == [(None, why)]


def test_kafka_before_3_6_that_reports_no_snapshot_is_not_applicable() -> None:
    quorum = snapshots(healthy(), leader_log(None, begins_ago_ms=4 * HOUR_MS, tells_absence=False))
    assert finding_lines(quorum) == []
    (not_applicable,) = [each for each in evaluation_of(quorum).not_applicable if each.rule == RULE]
    assert not_applicable.why == (
        "this Kafka version reports a snapshot only after it has deleted log segments before it, and it has not"
    )


class SnapshotAlerts:
    """The alerts of this rule about a quorum that is evaluated again and again."""

    def __init__(self) -> None:
        self.tracked = TrackedConditions()

    def at(self, quorum: Quorum, second: float) -> list[str]:
        """Returns the alerts of this second, in which everything is observed as in `quorum`."""
        evaluation = evaluation_of(quorum)
        only = replace(evaluation, findings=tuple(each for each in evaluation.findings if each.rule == RULE))
        now = replace(quorum, now_ms=Millis(NOW + round(second * 1_000)))
        self.tracked, alerts = advance(self.tracked, only, now, thresholds_for({}))
        return [f"{alert.state} {alert.rule}" for alert in alerts]


def after_an_outage() -> Quorum:
    """Returns the first records after four hours without a leader: start and snapshot of the leader are older."""
    return elected(started(snapshots(healthy(), leader_log(5 * HOUR_MS)), 6 * HOUR_MS), 3)


@pytest.mark.parametrize(
    "recovered",
    [lambda quorum: started(quorum, 0), lambda quorum: snapshots(quorum, leader_log(0))],
    ids=["leader registers", "leader takes a snapshot"],
)
def test_first_records_after_an_outage_of_the_quorum_fire_nothing(recovered: Callable[[Quorum], Quorum]) -> None:
    alerts, restored = SnapshotAlerts(), after_an_outage()
    assert finding_lines(restored) == FIRES

    assert [alerts.at(restored, second) for second in (0, 1, 10, 30)] == [[]] * 4
    assert alerts.at(recovered(restored), 31) == []
    assert not alerts.tracked.conditions


def test_an_election_every_two_hours_does_not_hide_that_no_snapshot_is_taken() -> None:
    alerts = SnapshotAlerts()
    broken = elected(started(snapshots(healthy(), leader_log(60 * HOUR_MS)), 60 * HOUR_MS), 3)
    (won,) = broken.history.elections

    fired = {}
    for second in range(0, 6 * 3_600, 60):
        election = replace(won, timestamp_ms=Millis(won.timestamp_ms - second % 7_200 * 1_000))
        quorum = with_past(broken, elections=(election,))
        if lines := alerts.at(quorum, second):
            fired[second] = lines
    assert fired == {60: [f"firing {RULE}"]}, "it fires once and does not resolve"


def test_leader_of_the_newest_epoch_is_evaluated() -> None:
    """A leader that is cut off reports itself as the leader for a while."""
    deposed = replace(view(1, leader=1, epoch=EPOCH - 1), log=leader_log(4 * HOUR_MS))
    assert findings(with_views(healthy(), deposed), RULE) == []
