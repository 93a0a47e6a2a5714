"""KIP-595, replication: what a fetch is checked for, how logs that part come together, what is committed."""

import pytest

from tests.simulation.controller import Controller
from tests.simulation.metadata_log import Entry
from tests.simulation.raft_messages import Fetch
from tests.simulation.scripted_quorum import Scene


def asked(leader: Controller, of: Controller, offset: int, last_epoch: int, *, epoch: int | None = None) -> Fetch:
    return Fetch(of.key, leader.epoch if epoch is None else epoch, offset, last_epoch)


@pytest.mark.kip("D071")
@pytest.mark.parametrize("epoch", [-1, 1])
def test_a_fetch_of_another_epoch_is_not_served_but_told_who_leads(epoch: int) -> None:
    scene = Scene(3)
    leader, (one, _) = scene.leader, scene.followers

    answer = leader._serve(scene.now_ms, asked(leader, one, 3, 1, epoch=leader.epoch + epoch))

    assert not answer.served
    assert (answer.leader, answer.epoch) == (leader.id, leader.epoch)


@pytest.mark.kip("D071", "D074")
def test_an_observers_fetch_commits_nothing_a_voters_does() -> None:
    scene = Scene(3)
    leader, (one, other) = scene.leader, scene.followers
    watcher = scene.observer()
    scene.network.one_way |= {(node.id, leader.id) for node in (one, other)}
    scene.seconds(0.5)
    leader.write(scene.now_ms, None)
    end, epoch, mark = len(leader.log), leader.log.last_epoch, leader.high_watermark
    assert mark < end

    leader._serve(scene.now_ms, asked(leader, watcher, end, epoch))
    assert leader.high_watermark == mark
    leader._serve(scene.now_ms, asked(leader, one, end, epoch))
    assert leader.high_watermark == end


def with_epochs(log_of: Controller, *epochs: int) -> None:
    """A log of these epochs, one record each."""
    log_of.log.entries = [Entry(epoch, 0, None) for epoch in epochs]


@pytest.mark.kip("D072", "D073", "D075", "D079")
@pytest.mark.parametrize(
    ("offset", "last_epoch", "parts"),
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
def test_where_logs_part_is_told_by_the_largest_epoch_not_newer_and_its_end(
    offset: int, last_epoch: int, parts: tuple[int, int] | None
) -> None:
    scene = Scene(1)
    leader = scene.leader
    watcher = scene.observer()
    with_epochs(leader, 1, 1, 3, 3, 3, 3, 5)
    leader.epoch = 5

    answer = leader._serve(scene.now_ms, asked(leader, watcher, offset, last_epoch))

    assert answer.diverging == parts
    assert bool(answer.entries) is (parts is None)


@pytest.mark.kip("D072", "D073", "D079", "D080")
def test_a_follower_whose_log_parted_cuts_it_epoch_by_epoch_and_then_holds_the_leaders() -> None:
    scene = Scene(3)
    scene.strict = scene.truth.strict = scene.judge.strict = False
    leader, (one, other) = scene.leader, scene.followers
    shared = len(one.log)
    for epoch in range(3):
        # What leaders that were cut off wrote, and nobody else ever had.
        one.log.append([Entry(leader.epoch + epoch, 0, None)] * 2)
    for node in (leader, other):
        node.epoch = leader.epoch + 9
    leader.write(scene.now_ms, None)
    assert len(one.log) == shared + 6
    cuts, lengths = scene.truth.cuts, [len(one.log)]

    def same() -> bool:
        lengths.append(len(one.log))
        return all(mine is theirs for mine, theirs in zip(one.log.entries, leader.log.entries, strict=False))

    assert not same()
    scene.until(same, 20)

    assert scene.truth.cuts > cuts
    assert min(lengths) >= shared, "what both have is not cut"
    scene.until(lambda: len(one.log) > shared + 6 and same(), 20)


@pytest.mark.kip("D064", "K044")
def test_what_an_earlier_epoch_left_is_committed_only_with_an_entry_of_the_leaders_own() -> None:
    scene = Scene(3)
    leader, (one, other) = scene.leader, scene.followers
    leader.epoch += 1
    leader.epoch_start = len(leader.log)
    mark = leader.high_watermark
    end = len(leader.log)
    leader.log.append([Entry(leader.epoch - 1, 0, None)])
    leader.epoch_start = len(leader.log)

    for node in (one, other):
        leader._serve(scene.now_ms, asked(leader, node, end + 1, leader.epoch - 1))
    assert leader.high_watermark == mark, "both have it, and it is of an earlier epoch"

    leader.write(scene.now_ms, None)
    leader._serve(scene.now_ms, asked(leader, one, end + 2, leader.epoch))
    assert leader.high_watermark == end + 2
