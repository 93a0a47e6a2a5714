"""two-quorums: controllers that lead voters of another quorum with the same cluster id."""

from dataclasses import replace

import pytest

from rules.analysis.leadership import is_same_quorum
from rules.finding import Severity
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    evaluation_of,
    finding_lines,
    findings,
    healthy,
    key,
    leaderless,
    present,
    second_quorum,
    static,
    view,
    with_committed,
    with_views,
)

RULE = "two-quorums"


def test_both_leaders_their_epochs_and_voters_are_named() -> None:
    (finding,) = findings(with_views(healthy(), second_quorum(1)), RULE)

    assert (finding.subject, finding.severity) == ("quorum", Severity.CRITICAL)
    own = ", ".join(str(key(node)) for node in (1, 2)) + f" and {key(3)}"
    assert finding.summary == (
        f"2 quorums have this cluster id: controller 3 leads voters {own} in epoch 7, and controller 1 leads voter "
        f"{key(1, 'newDirOf1')} in epoch 2. kraftwatch follows the first one."
    )
    assert finding.starts == (1,)
    assert any(step.endswith("--bootstrap-controller c1.test:9093 describe --replication") for step in finding.remedy)


def alone(node: int) -> Quorum:
    """A quorum of one voter that is monitored."""
    quorum = healthy()
    voters = tuple(voter for voter in quorum.voters if voter.key.id == node)
    rows = tuple(row for row in present(quorum.poll).voters if row.key.id == node)
    poll = replace(present(quorum.poll), voters=rows, leader_id=NodeId(node))
    own = view(node, leader=node)
    return replace(with_committed(quorum, voters=voters), poll=poll, leader_views={own.endpoint: own})


def test_quorums_of_one_voter_each_are_counted_and_one_is_to_be_kept() -> None:
    """Three controllers, each formatted with --standalone; one of them answers at two addresses."""
    alias = replace(second_quorum(3, epoch=4), endpoint="10.0.0.3:9093", node=None)
    (finding,) = findings(with_views(alone(1), second_quorum(2), second_quorum(3, epoch=4), alias), RULE)
    assert finding.summary.startswith(
        f"3 quorums of one voter each, {{1}}, {{2}} and {{3}}, have this cluster id: controller 1 leads voter {key(1)} "
        f"in epoch 7; controller 2 leads voter {key(2, 'newDirOf2')} in epoch 2; controller 3 leads voter "
    )
    assert finding.remedy[1] == (
        "# Each of these controllers was formatted with --standalone: keep one, format the others with "
        "--no-initial-controllers, and add them to its voters one by one"
    )
    formats = [step for step in finding.remedy if step.startswith("kafka-storage.sh format")]
    assert len(formats) == 2
    assert all(step.endswith(" --no-initial-controllers") for step in formats)


@pytest.mark.parametrize(
    "quorum",
    [
        healthy(),
        # A replaced leader that does not know it yet leads the same voters; so does one that is cut off.
        with_views(healthy(), view(1, leader=1, epoch=5)),
        with_views(healthy(), view(1, leader=2)),
        # It was reported too long ago.
        with_views(healthy(), replace(second_quorum(1), observed_at_ms=view(1, ago_ms=61_000).observed_at_ms)),
    ],
)
def test_one_quorum_whose_controllers_disagree_is_not_two(quorum: Quorum) -> None:
    assert findings(quorum, RULE) == []


def test_views_do_not_disagree_beside_it() -> None:
    quorum = with_views(healthy(), second_quorum(1))
    assert [line for line in finding_lines(quorum) if "views-disagree" in line] == []
    assert "views-disagree" in {one.rule for one in evaluation_of(quorum).unknown}, "inhibited"


def test_quorum_without_a_leader_is_named_by_its_voters() -> None:
    quorum = replace(leaderless(healthy(), 1, 2, 3), leader_id=None, poll=None)
    (finding,) = findings(with_views(quorum, second_quorum(1)), RULE)
    assert f"2 quorums have this cluster id: voters {key(1)}, {key(2)} and {key(3)} without a leader" in finding.summary
    assert "# Start controller 1 again, which then follows that quorum, once it has a leader" in finding.remedy


def test_controller_that_leads_another_quorum_has_no_vote_in_this_one() -> None:
    quorum = with_views(leaderless(healthy(), 1), second_quorum(2))
    (finding,) = findings(quorum, "no-leader")
    disk = key(2, "newDirOf2")
    assert f" Controller 2 is running with another disk, {disk}, without a vote. 2 of 3 voters run " in finding.summary
    same_disk = with_committed(quorum, voters=tuple(replace(one, key=disk) for one in quorum.voters[1:2]))
    (finding,) = findings(same_disk, "no-leader")
    assert "without a vote" not in finding.summary, "it is the disk of the voter"


def test_disk_of_a_same_disk_is_formatted_without_initial_controllers() -> None:
    dynamic, of_static = (
        next(step for step in finding.remedy if step.startswith("kafka-storage.sh format"))
        for quorum in (healthy(), static(healthy()))
        for finding in findings(with_views(quorum, second_quorum(1)), RULE)
    )
    assert dynamic == f"{of_static} --no-initial-controllers"


def keys(*names: str) -> frozenset[ReplicaKey]:
    return frozenset(
        key(int(name.partition("-")[0]), name) if "-" in name else ReplicaKey(id=NodeId(int(name))) for name in names
    )


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (keys("1-a", "2-b", "3-c"), keys("1-a", "2-b", "3-c"), True),
        # A voter was added, a disk replaced, the quorum reduced to one voter by force.
        (keys("1-a", "2-b", "3-c"), keys("1-a", "2-b", "3-c", "4-d"), True),
        (keys("1-a", "2-b", "3-c"), keys("1-a", "2-b"), True),
        (keys("1-a", "2-b", "3-c"), keys("3-c"), True),
        # A disk was formatted as that of a quorum of its own; so were all.
        (keys("1-a", "2-b", "3-c"), keys("2-x"), False),
        (keys("1-a", "2-b", "3-c"), keys("1-x", "2-y", "3-z"), False),
        # Static quorums: most ids are in both. A quorum that became dynamic has the same ids.
        (keys("1", "2", "3"), keys("1", "2", "3", "4"), True),
        (keys("1", "2", "3"), keys("1-a", "2-b", "3-c"), True),
        (keys("1", "2", "3"), keys("2"), False),
    ],
)
def test_voter_sets_of_one_quorum(one: frozenset[ReplicaKey], other: frozenset[ReplicaKey], same: bool) -> None:
    assert is_same_quorum(one, other) is same
    assert is_same_quorum(other, one) is same
