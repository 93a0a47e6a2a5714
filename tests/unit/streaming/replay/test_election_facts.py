"""What a LeaderChangeMessage says of its election: who voted, how many epochs it skipped, and what came before it."""

from dataclasses import replace

import pytest

from connectors.observations.log_event import LeaderChanged
from rules.model.history import Election
from rules.model.identifiers import Millis
from rules.model.monitoring import Invariant
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from tests.unit.rules.situation import findings
from tests.unit.streaming.replay.log_script import (
    LogScript,
    apply,
    ids,
    machine,
)


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
    (finding,) = findings(quorum, "raft-invariant-broken")
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
    assert [one.subject for one in findings(quorum, "raft-invariant-broken")] == ["voters-before-leader"]


def test_a_voters_record_that_is_the_first_record_read_violates_nothing() -> None:
    """The records before it could not be read, or the log begins there."""
    script, replay = LogScript(), machine()
    script.voters("1-a", "2-b", "3-c")

    assert apply(replay, [script.read()]).invariant_violations == ()


def jumped(replay: Machine, script: LogScript, *, epochs: int, after_ms: int) -> Quorum:
    """A leader of epoch 1; then nothing for `after_ms`; then a leader that many epochs later."""
    script.leader(1)
    script.noops(2)
    apply(replay, [script.read()])
    script.now_ms += after_ms
    script.leader(2, epoch=1 + epochs)
    return apply(replay, [script.read()])


@pytest.mark.parametrize(
    ("epochs", "after_ms", "fires"),
    [(60, 2_000, True), (60, 120_000, False), (11, 1_000, True), (9, 1_000, False)],
    ids=["cut off for long", "an outage with one candidate", "eleven", "a few lost elections"],
)
def test_more_epochs_than_elections_fit_into_the_time_without_a_leader_fire(
    epochs: int, after_ms: int, fires: bool
) -> None:
    quorum = jumped(machine(), LogScript(), epochs=epochs, after_ms=after_ms)

    found = findings(quorum, "epoch-churn")

    assert [(one.severity, one.subject) for one in found] == [("warning", f"epoch {1 + epochs}")] * fires
    if found:
        assert found[0].summary.startswith(f"The leader epoch jumped from 1 to {1 + epochs}")
        assert found[0].evidence["epochs_without_a_leader"] == epochs - 1


def test_a_jump_is_over_after_the_window() -> None:
    script, replay = LogScript(), machine()
    quorum = jumped(replay, script, epochs=60, after_ms=2_000)
    assert quorum.newest_timestamp_ms is not None
    later = replace(quorum, newest_timestamp_ms=Millis(quorum.newest_timestamp_ms + 901_000))
    assert findings(later, "epoch-churn") == []
