"""Surviving disks: the most complete one, how many must be read, and overridden voter sets in snapshots."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Epoch, Offset
from rules.model.membership import Voter, VoterSet
from rules.rescue.node_decisions import StoppedDisk, disk_survival, overrides_in
from tests.unit.rules.situation import endpoint, key, present

pytestmark = pytest.mark.kip("A008", "A009", "A040", "D049", "E051", "E078")


def voters(*nodes: int, offset: int = 2, host: str | None = None) -> VoterSet:
    return VoterSet(
        voters=tuple(Voter(key=key(node), endpoints=(endpoint(node, host),)) for node in nodes),
        offset=Offset(offset),
        leader_epoch=Epoch(1),
        timestamp_ms=None,
    )


def disk(node: int, end: int, epoch: int = 1, of: int = 3, directory: str | None = None) -> StoppedDisk:
    all_of_them = voters(*range(1, of + 1))
    return StoppedDisk(key=key(node, directory), epoch=Epoch(epoch), end_offset=Offset(end), voters=all_of_them)


@pytest.mark.kip("E051")
@pytest.mark.parametrize(
    ("disks", "best"),
    [
        ([disk(1, 10), disk(2, 12), disk(3, 11)], [2]),
        ([disk(1, 12), disk(2, 12), disk(3, 11)], [1, 2]),
        # A higher epoch wins over a longer log, as in an election.
        ([disk(1, 50, epoch=3), disk(2, 40, epoch=4)], [2]),
        # A broker's log may be the longest, but a broker has no vote.
        ([disk(101, 60), disk(1, 50), disk(2, 49)], [1]),
    ],
)
def test_best_disk_has_the_highest_epoch_and_then_the_highest_offset(disks: list[StoppedDisk], best: list[int]) -> None:
    found = disk_survival(disks)

    assert found is not None
    assert [one.id for one in found.best] == best


@pytest.mark.parametrize(
    ("of", "read", "whole", "electable"),
    [
        (1, 1, True, True),
        (3, 1, False, False),
        (3, 2, True, True),
        (3, 3, True, True),
        # Any two of four have a record that three of four have; but they are no majority.
        (4, 2, True, False),
        (4, 3, True, True),
        (5, 2, False, False),
        (5, 3, True, True),
    ],
)
def test_number_of_disks_needed_to_have_all_committed_records(of: int, read: int, whole: bool, electable: bool) -> None:
    found = disk_survival(disk(node, 10, of=of) for node in range(1, read + 1))

    assert found is not None
    assert (found.holds_all_committed, found.electable) == (whole, electable)
    assert [one.id for one in found.absent] == [*range(read + 1, of + 1)]


def test_damaged_disk_counts_as_a_missing_one() -> None:
    """Records after the damage may be committed, and on neither the other disk nor the missing third one."""
    damaged = replace(disk(1, 10), intact=False)

    found = present(disk_survival([damaged, disk(2, 40)]))
    assert [one.id for one in found.damaged] == [1]
    assert not found.holds_all_committed
    three = present(disk_survival([damaged, disk(2, 40), disk(3, 41)]))
    assert three.holds_all_committed


@pytest.mark.kip("E078")
def test_override_in_a_snapshot_is_distinguished_from_an_ordinary_change() -> None:
    recorded, moved = voters(1, 2, 3, offset=36), voters(1, 2, 3, offset=99, host="new.test")
    ordinary = replace(recorded, offset=Offset(99))

    assert overrides_in([(recorded, False), (ordinary, True)], Offset(0)) == ()
    assert overrides_in([(recorded, False), (moved, True)], Offset(0)) == ((recorded, moved),)
    assert overrides_in([(recorded, False), (moved, False)], Offset(0)) == (), (
        "a record in the log is an ordinary change"
    )
    assert overrides_in([(recorded, False), (moved, True)], Offset(60)) == (), (
        "the log between the two is deleted: unknown"
    )
