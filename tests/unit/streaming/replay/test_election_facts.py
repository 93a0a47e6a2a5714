"""What a LeaderChangeMessage says of its election: who voted, how many epochs it skipped, and what came before it."""

import pytest

from connectors.observations.log_event import LeaderChanged
from rules.model.history import Election
from rules.model.monitoring import Invariant
from rules.model.quorum import Quorum
from tests.scripts.log_script import (
    LogScript,
    apply,
    ids,
    machine,
)
from tests.situation.case import evaluated


def won(script: LogScript, leader: int, epoch: int, *, voters: tuple[int, ...], votes: tuple[int, ...]) -> None:
    script.epoch = epoch
    script.write(
        LeaderChanged(at=script.at(), leader_id=ids(leader)[0], voter_ids=ids(*voters), granting_voter_ids=ids(*votes))
    )


def elections(quorum: Quorum) -> tuple[Election, ...]:
    return quorum.history.elections


@pytest.mark.parametrize("leader", [2, 9], ids=["for a voter", "for one that is no voter yet"])
def test_a_vote_of_a_replica_outside_the_voters_beside_a_majority_is_legal(leader: int) -> None:
    script, replay = LogScript(), machine()
    won(script, leader, 1, voters=(1, 2, 3), votes=(1, 2, 9))

    quorum = apply(replay, [script.read()])

    assert quorum.invariant_violations == ()
    assert [one.granting_voter_ids for one in elections(quorum)] == [ids(1, 2, 9)]


@pytest.mark.parametrize(
    ("voters", "votes", "counted"),
    [((1, 2, 3), (2,), "1 of 3 votes"), ((1, 2, 3), (2, 9), "1 of 3 votes"), ((1, 2, 3, 4), (2, 3), "2 of 4 votes")],
    ids=["too few votes", "a vote of no voter", "half of the votes"],
)
def test_a_leader_without_the_votes_of_a_majority_violates_an_invariant(
    voters: tuple[int, ...], votes: tuple[int, ...], counted: str
) -> None:
    script, replay = LogScript(), machine()
    won(script, 2, 1, voters=voters, votes=votes)

    quorum = apply(replay, [script.read()])

    (violation,) = quorum.invariant_violations
    assert violation.invariant is Invariant.ELECTED_BY_MINORITY
    (finding,) = (one for one in evaluated(quorum).findings if one.rule == "raft-invariant-broken")
    assert f"controller 2 became the leader of epoch 1 with {counted}" in finding.summary


@pytest.mark.parametrize(("before", "epoch"), [(0, 1), (1, 2), (1, 5)])
def test_a_voters_record_before_the_leader_change_of_its_epoch_violates_an_invariant(before: int, epoch: int) -> None:
    script, replay = LogScript(), machine()
    script.leader(1, epoch=before)
    script.voters("1-a", "2-b", "3-c")
    apply(replay, [script.read()])
    script.epoch = epoch
    script.voters("1-a", "2-b")
    script.leader(1, epoch=epoch)

    quorum = apply(replay, [script.read()])

    (violation,) = quorum.invariant_violations
    assert violation.invariant is Invariant.VOTERS_BEFORE_LEADER
    assert (violation.epoch, violation.detail) == (
        epoch,
        f"offset 2 of the log is a VotersRecord of epoch {epoch}, before the LeaderChangeMessage of that epoch",
    )
    subjects = [str(one.subject) for one in evaluated(quorum).findings if one.rule == "raft-invariant-broken"]
    assert subjects == ["voters-before-leader"]


def test_a_voters_record_that_is_the_first_record_read_violates_nothing() -> None:
    """The records before it could not be read, or the log begins there."""
    script, replay = LogScript(), machine()
    script.voters("1-a", "2-b", "3-c")

    assert apply(replay, [script.read()]).invariant_violations == ()
