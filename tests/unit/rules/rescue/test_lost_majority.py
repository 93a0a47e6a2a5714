"""A quorum of the voters that are left: which ones, whose log, which epoch, and when it is refused."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Epoch, NodeId, Offset
from rules.rescue.disk_count import DiskCount
from rules.rescue.lost_majority import NewQuorum, cannot_continue, new_quorum, next_epoch
from rules.rescue.node_decisions import StoppedDisk, disk_survival
from tests.present import present
from tests.situation.situation import controller_key as key
from tests.unit.rules.rescue.stopped_logs import log, voters


def made(
    logs: list[StoppedDisk], of: int, *lost: int, below: int = 0, accepted: bool = False, log_of: int | None = None
) -> NewQuorum:
    listed = [replace(one, voters=voters(of)) for one in logs]
    survival = disk_survival(listed)
    return new_quorum(
        listed,
        voters(of),
        [NodeId(node) for node in lost],
        intact=DiskCount(voters=of, disks=0) if survival is None else survival.intact,
        committed_below=Offset(below),
        epochs=[one.epoch for one in listed],
        accepted=accepted,
        log_of=None if log_of is None else NodeId(log_of),
    )


@pytest.mark.parametrize(
    ("left", "of", "safe", "refusal"),
    [
        (1, 3, False, "1 of 3 voters' disks is left, and 2 hold every record that was committed: others may be lost"),
        (2, 4, True, None),
        (1, 4, False, "1 of 4 voters' disks is left, and 2 hold every record that was committed: others may be lost"),
        (2, 5, False, "2 of 5 voters' disks are left, and 3 hold every record that was committed: others may be lost"),
        (3, 6, True, None),
        (4, 8, True, None),
    ],
)
def test_enough_disks_lose_nothing_and_fewer_are_refused_until_the_loss_is_accepted(
    left: int, of: int, safe: bool, refusal: str | None
) -> None:
    logs = [log(node, (1, 60)) for node in range(1, left + 1)]
    lost = range(left + 1, of + 1)

    found = made(logs, of, *lost)

    assert (found.data_safe, found.refusal) == (safe, refusal)
    assert made(logs, of, *lost, accepted=True).refusal is None
    assert [one.id for one in found.voters] == [*range(1, left + 1)]


def test_a_damaged_disk_is_not_counted_and_votes_no_more() -> None:
    damaged = replace(log(2, (1, 60)), intact=False, damage="at offset 40")

    found = made([log(1, (1, 60)), damaged], 4, 3, 4)

    assert not found.data_safe
    assert ([one.id for one in found.voters], [one.id for one in found.others]) == ([1], [2])


def test_committed_records_beyond_the_best_log_show_that_the_disks_are_older_copies() -> None:
    """The sum alone would say that nothing is lost."""
    found = made([log(1, (1, 60)), log(2, (1, 60))], 4, 3, 4, below=80)

    assert not found.data_safe
    assert found.refusal == "the log ends at offset 60, and records below 80 were committed"


def test_the_best_log_is_by_epoch_and_a_log_that_diverged_votes_no_more() -> None:
    logs = [log(1, (1, 50), (2, 90)), log(2, (1, 50), (3, 60)), log(3, (1, 50), (3, 55))]

    found = made(logs, 7, 4, 5, 6, 7, accepted=True)

    assert found.log.key.id == 2
    assert ([one.id for one in found.voters], [one.id for one in found.others]) == ([2, 3], [1])


@pytest.mark.parametrize(
    ("lost", "of", "problem"),
    [
        ([2], 3, "voter 3-.* is neither given nor lost: give the disk of each voter that is left"),
        ([1, 2, 3], 3, "the disk of voter 1 is given, so it is not lost"),
        ([2, 3, 9], 3, "9 is no voter: the voters are 1, 2 and 3"),
        ([2, 101], 3, "101 is no voter"),
    ],
)
def test_a_wrong_list_is_one_sentence(lost: list[int], of: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        made([log(1, (1, 60)), log(101, (1, 60))], of, *lost)


def test_a_majority_is_started_and_not_rescued() -> None:
    with pytest.raises(
        ValueError, match="2 of 3 voters' disks are left, and 2 elect a leader: start controllers 1 and"
    ):
        made([log(1, (1, 60)), log(2, (1, 40))], 3, 3)


def test_the_disk_of_a_lost_voters_node_with_another_directory_id_is_named() -> None:
    other = replace(log(2, (1, 60)), key=replace(key(2), directory_id=key(9).directory_id))
    with pytest.raises(ValueError, match=r"neither given nor lost.*disk of node 2 that is given has directory id"):
        made([log(1, (1, 60)), other], 3, 3)


def test_only_brokers_are_no_quorum() -> None:
    with pytest.raises(ValueError, match="no voter's disk is left: a broker cannot become a voter"):
        made([log(101, (1, 60))], 3, 1, 2, 3)


def test_an_unreadable_log_is_refused_also_if_the_loss_is_accepted() -> None:
    found = made([log(1, (1, 60), unreadable="it has a record of type 99")], 3, 2, 3, accepted=True)

    assert found.refusal == "the log of controller 1 cannot be continued: it has a record of type 99"


def test_a_broker_whose_log_continues_that_of_the_best_voter_may_replace_it() -> None:
    logs = [log(1, (1, 60)), log(101, (1, 60), (2, 70))]

    assert made(logs, 3, 2, 3, accepted=True).log.key.id == 1
    found = made(logs, 3, 2, 3, accepted=True, log_of=101)
    assert (found.log.key.id, [one.id for one in found.voters]) == (101, [1])
    assert found.epoch > 2


@pytest.mark.parametrize(
    ("broker", "why"),
    [
        (log(101, (1, 60)), "it ends no later than that of controller 1"),
        (log(101, (1, 50), (3, 70)), "it does not begin with the log of controller 1, which would have to be cut off"),
        (log(101, (1, 70), unreadable="a gap"), "a gap"),
        (replace(log(101, (1, 70)), damage="at offset 9"), "it is damaged at offset 9"),
    ],
)
def test_why_a_brokers_log_cannot_be_continued(broker: StoppedDisk, why: str) -> None:
    voter = log(1, (1, 50), (2, 60)) if broker.epoch == 3 else log(1, (1, 60))

    assert cannot_continue(broker, voter) == why
    with pytest.raises(ValueError, match="the log of broker 101 cannot be continued: "):
        made([voter, broker], 3, 2, 3, log_of=101)


def test_epochs_only_rise_also_after_a_second_loss() -> None:
    assert next_epoch([]) == 1_000_000
    assert next_epoch([Epoch(7), Epoch(12)]) == 1_000_000
    assert next_epoch([Epoch(1_000_003)]) == 2_000_000
    assert present(next_epoch([Epoch(1_000_000)])) > 1_000_000
