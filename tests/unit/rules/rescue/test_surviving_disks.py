"""Which disk to go on with, what must be read to know it, and voter sets that a snapshot changed."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Epoch, Offset
from rules.model.voter_set import Voter, VoterSet
from rules.rescue.surviving_disks import Survivor, overridden, survival
from tests.unit.rules.situation import endpoint, key


def voters(*nodes: int, offset: int = 2, host: str | None = None) -> VoterSet:
    return VoterSet(
        voters=tuple(Voter(key=key(node), endpoints=(endpoint(node, host),)) for node in nodes),
        offset=Offset(offset),
        leader_epoch=Epoch(1),
        timestamp_ms=None,
    )


def disk(node: int, end: int, epoch: int = 1, of: int = 3, directory: str | None = None) -> Survivor:
    all_of_them = voters(*range(1, of + 1))
    return Survivor(key=key(node, directory), epoch=Epoch(epoch), end_offset=Offset(end), voters=all_of_them)


@pytest.mark.kip("E051")
@pytest.mark.parametrize(
    ("disks", "best"),
    [
        ([disk(1, 10), disk(2, 12), disk(3, 11)], [2]),
        ([disk(1, 12), disk(2, 12), disk(3, 11)], [1, 2]),
        # A higher epoch wins over a longer log, as in an election.
        ([disk(1, 50, epoch=3), disk(2, 40, epoch=4)], [2]),
        # A broker's log may be the longest: it may have a vote less than all, for it votes in nothing.
        ([disk(101, 60), disk(1, 50), disk(2, 49)], [1]),
    ],
)
def test_the_furthest_log_of_a_voter_by_epoch_and_then_by_offset(disks: list[Survivor], best: list[int]) -> None:
    found = survival(disks)

    assert found is not None
    assert [one.id for one in found.best] == best


@pytest.mark.parametrize(
    ("of", "read", "whole", "electable"),
    [
        (1, 1, True, True),
        (3, 1, False, False),
        (3, 2, True, True),
        (3, 3, True, True),
        # Any two of four have a record that three of four have; they are no majority all the same.
        (4, 2, True, False),
        (4, 3, True, True),
        (5, 2, False, False),
        (5, 3, True, True),
    ],
)
def test_how_many_disks_it_takes_to_know_that_nothing_committed_is_missing(
    of: int, read: int, whole: bool, electable: bool
) -> None:
    found = survival(disk(node, 10, of=of) for node in range(1, read + 1))

    assert found is not None
    assert (found.holds_all_committed, found.electable) == (whole, electable)
    assert [one.id for one in found.absent] == [*range(read + 1, of + 1)]


def test_a_disk_that_was_replaced_is_not_the_voters() -> None:
    found = survival([disk(1, 10), disk(2, 10, directory="new")])

    assert found is not None
    assert [one.id for one in found.present] == [1]
    assert not found.holds_all_committed


def test_a_damaged_disk_shows_no_more_than_a_missing_one() -> None:
    """What it had behind the damage may be committed, and be neither on the other disk nor on a third that is gone."""
    damaged = replace(disk(1, 10), intact=False)

    found = survival([damaged, disk(2, 40)])
    assert found is not None
    assert [one.id for one in found.damaged] == [1]
    assert not found.holds_all_committed
    three = survival([damaged, disk(2, 40), disk(3, 41)])
    assert three is not None
    assert three.holds_all_committed


def test_brokers_alone_say_nothing_of_whom_to_elect() -> None:
    assert survival([disk(101, 10)]) is None
    assert survival([]) is None


@pytest.mark.kip("E078")
def test_a_snapshot_that_changed_the_voters_is_told_from_an_ordinary_one() -> None:
    told, moved = voters(1, 2, 3, offset=36), voters(1, 2, 3, offset=99, host="new.test")
    ordinary = replace(told, offset=Offset(99))

    assert overridden([(told, False), (ordinary, True)], Offset(0)) == ()
    (found,) = overridden([(told, False), (moved, True)], Offset(0))
    assert (found.before, found.after, found.identities_changed) == (told, moved, False)
    (worse,) = overridden([(told, False), (voters(1, 2, offset=99), True)], Offset(0))
    assert worse.identities_changed
    assert overridden([(told, False), (moved, False)], Offset(0)) == (), "a record of the log is the ordinary way"
    assert overridden([(told, False), (moved, True)], Offset(60)) == (), "the log between is gone: nobody can say"
