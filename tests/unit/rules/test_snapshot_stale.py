"""snapshot-stale: how far back the leader's newest snapshot reaches, by the log's own time."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import LeaderLog
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    EPOCH,
    NOW,
    elected,
    findings,
    healthy,
    judged,
    leader_log,
    snapshots,
    told,
    unknown,
    view,
    views,
)

RULE = "snapshot-stale"
HOUR_MS = 3_600_000
TOLD = [f"warning {RULE}: metadata log"]


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (leader_log(3 * HOUR_MS), []),
        (leader_log(3 * HOUR_MS + 1), TOLD),
        (leader_log(None, begins_ago_ms=HOUR_MS), []),
        (leader_log(None, begins_ago_ms=4 * HOUR_MS), TOLD),
    ],
)
def test_how_old_is_too_old(log: LeaderLog, said: list[str]) -> None:
    assert told(snapshots(healthy(), log)) == said


def started(quorum: Quorum, ago_ms: int) -> Quorum:
    leader = replace(quorum.controllers[NodeId(3)], timestamp_ms=Millis(NOW - 300 - ago_ms))
    return replace(quorum, controllers={**quorum.controllers, NodeId(3): leader})


@pytest.mark.parametrize(("ago_ms", "said"), [(HOUR_MS // 2, []), (3 * HOUR_MS, []), (3 * HOUR_MS + 1, TOLD)])
def test_a_quorum_that_was_switched_off_for_a_weekend_has_an_old_snapshot_and_no_fault(
    ago_ms: int, said: list[str]
) -> None:
    assert told(started(snapshots(healthy(), leader_log(60 * HOUR_MS)), ago_ms)) == said


@pytest.mark.parametrize(("winner", "said"), [(3, []), (1, TOLD)])
def test_where_the_log_tells_no_starts_the_election_says_since_when_it_leads(winner: int, said: list[str]) -> None:
    quorum = replace(snapshots(healthy(), leader_log(60 * HOUR_MS)), controllers={})
    assert told(elected(quorum, winner)) == said


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (leader_log(None), "neither of a snapshot nor of the log's first record"),
        (
            replace(leader_log(0), snapshot=replace(leader_log(0).snapshot, last_contained_timestamp_ms=None)),  # type: ignore[type-var]
            "the header of snapshot 6400-6 could not be read",
        ),
    ],
)
def test_what_is_not_seen_is_not_judged(log: LeaderLog, why: str) -> None:
    quorum = snapshots(healthy(), log)
    assert told(quorum) == []
    (gap,) = [each for each in judged(quorum).unknown if each.rule == RULE]
    assert why in gap.why


def test_a_kafka_before_3_6_that_tells_of_none_may_have_one() -> None:
    quorum = snapshots(healthy(), leader_log(None, begins_ago_ms=4 * HOUR_MS, tells_absence=False))
    assert told(quorum) == []
    (silent,) = [each for each in judged(quorum).not_applicable if each.rule == RULE]
    assert "only once it has deleted log before one" in silent.why


def test_without_a_leaders_word_it_cannot_tell() -> None:
    assert (RULE, None) in unknown(replace(healthy(), views={}))


def test_of_two_that_say_they_lead_the_one_of_the_newer_epoch_is_judged() -> None:
    """A leader that is cut off goes on saying so for a while."""
    deposed = replace(view(1, leader=1, epoch=EPOCH - 1), log=leader_log(4 * HOUR_MS))
    assert findings(views(healthy(), deposed), RULE) == []


def test_records_that_came_since_and_the_threshold() -> None:
    (finding,) = findings(snapshots(healthy(), leader_log(4 * HOUR_MS, end=800)), RULE)
    assert finding.evidence["records_since"] == 9_200
    assert finding.standing_ms == HOUR_MS
    assert judged(snapshots(healthy(), leader_log(4 * HOUR_MS)), {f"{RULE}.age": 5 * 3_600}).findings == ()
