"""KIP-595 replication: fetch validation, diverging logs, and commits."""

import pytest

from tests.simulation.controlled_simulation import ControlledSimulation
from tests.simulation.controller import SimulatedController
from tests.simulation.metadata_log import LogEntry
from tests.simulation.raft_messages import FetchRequest


def fetch(
    leader: SimulatedController, of: SimulatedController, offset: int, last_epoch: int, *, epoch: int | None = None
) -> FetchRequest:
    return FetchRequest(of.key, leader.epoch if epoch is None else epoch, offset, last_epoch)


@pytest.mark.kip("D071")
@pytest.mark.parametrize("epoch", [-1, 1])
def test_a_fetch_of_another_epoch_is_answered_with_the_leader_only(epoch: int) -> None:
    simulation = ControlledSimulation(3)
    leader, (one, _) = simulation.leader, simulation.followers

    answer = leader.handle_fetch(simulation.now_ms, fetch(leader, one, 3, 1, epoch=leader.epoch + epoch))

    assert not answer.served
    assert (answer.leader, answer.epoch) == (leader.id, leader.epoch)


@pytest.mark.kip("D071", "D074")
def test_a_voters_fetch_commits_and_an_observers_does_not() -> None:
    simulation = ControlledSimulation(3)
    leader, (one, other) = simulation.leader, simulation.followers
    observer = simulation.observer()
    simulation.network.one_way |= {(node.id, leader.id) for node in (one, other)}
    simulation.run_for(0.5)
    leader.write(simulation.now_ms, None)
    end, epoch, mark = len(leader.log), leader.log.last_epoch, leader.high_watermark
    assert mark < end

    leader.handle_fetch(simulation.now_ms, fetch(leader, observer, end, epoch))
    assert leader.high_watermark == mark
    leader.handle_fetch(simulation.now_ms, fetch(leader, one, end, epoch))
    assert leader.high_watermark == end


def with_epochs(log_of: SimulatedController, *epochs: int) -> None:
    """Replaces the log: one record for each of these epochs."""
    log_of.log.entries = [LogEntry(epoch, 0, None) for epoch in epochs]


@pytest.mark.kip("D072", "D073", "D075", "D079")
@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (6, 3, None),  # the end of epoch 3 is 6: consistent
        (4, 3, None),  # within epoch 3's range
        (2, 1, None),  # the end of epoch 1, where epoch 3 begins
        (5, 2, (1, 2)),  # epoch 2 is not here: the largest below it is 1, and ends at 2
        (2, 2, (1, 2)),  # as long as epoch 1 is here, and yet another record before it
        (4, 1, (1, 2)),  # epoch 1 ends earlier here
        (7, 4, (3, 6)),  # all of epoch 4 is skipped at once
    ],
)
def test_a_diverging_fetch_is_answered_with_the_largest_common_epoch_and_its_end(
    offset: int, last_epoch: int, diverging: tuple[int, int] | None
) -> None:
    simulation = ControlledSimulation(1)
    leader = simulation.leader
    observer = simulation.observer()
    with_epochs(leader, 1, 1, 3, 3, 3, 3, 5)
    leader.epoch = 5

    answer = leader.handle_fetch(simulation.now_ms, fetch(leader, observer, offset, last_epoch))

    assert answer.diverging == diverging
    assert bool(answer.entries) is (diverging is None)


@pytest.mark.kip("D072", "D073", "D079", "D080")
def test_a_follower_with_a_diverging_log_truncates_epoch_by_epoch_to_the_leaders_log() -> None:
    simulation = ControlledSimulation(3)
    simulation.strict = simulation.ground_truth.strict = simulation.checker.strict = False
    leader, (one, other) = simulation.leader, simulation.followers
    shared = len(one.log)
    for epoch in range(3):
        # Records that isolated leaders wrote and no other replica has.
        one.log.append([LogEntry(leader.epoch + epoch, 0, None)] * 2)
    for node in (leader, other):
        node.epoch = leader.epoch + 9
    leader.write(simulation.now_ms, None)
    assert len(one.log) == shared + 6
    truncations, lengths = simulation.ground_truth.truncations, [len(one.log)]

    def same() -> bool:
        lengths.append(len(one.log))
        return all(mine is theirs for mine, theirs in zip(one.log.entries, leader.log.entries, strict=False))

    assert not same()
    simulation.until(same, 20)

    assert simulation.ground_truth.truncations > truncations
    assert min(lengths) >= shared, "common records are not truncated"
    simulation.until(lambda: len(one.log) > shared + 6 and same(), 20)


@pytest.mark.kip("D064", "K044")
def test_records_of_an_earlier_epoch_are_committed_only_with_an_entry_of_the_leaders_epoch() -> None:
    simulation = ControlledSimulation(3)
    leader, (one, other) = simulation.leader, simulation.followers
    leader.epoch += 1
    leader.epoch_start = len(leader.log)
    mark = leader.high_watermark
    end = len(leader.log)
    leader.log.append([LogEntry(leader.epoch - 1, 0, None)])
    leader.epoch_start = len(leader.log)

    for node in (one, other):
        leader.handle_fetch(simulation.now_ms, fetch(leader, node, end + 1, leader.epoch - 1))
    assert leader.high_watermark == mark, "both have the record, but it is of an earlier epoch"

    leader.write(simulation.now_ms, None)
    leader.handle_fetch(simulation.now_ms, fetch(leader, one, end + 2, leader.epoch))
    assert leader.high_watermark == end + 2
