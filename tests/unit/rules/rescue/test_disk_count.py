"""What a number of voters' disks surely holds, for each quorum of 1 to 9 voters."""

from itertools import combinations

import pytest

from rules.rescue.disk_count import DiskCount

NEEDED = {1: (1, 1), 2: (1, 2), 3: (2, 2), 4: (2, 3), 5: (3, 3), 6: (3, 4), 7: (4, 4), 8: (4, 5), 9: (5, 5)}
"""By number of voters: the disks that hold every committed record, and the disks with which a leader is elected."""


@pytest.mark.parametrize("voters", NEEDED)
def test_disks_that_hold_everything_and_disks_that_elect_a_leader(voters: int) -> None:
    counts = [DiskCount(voters=voters, disks=disks) for disks in range(voters + 1)]

    assert next(one.disks for one in counts if one.holds_all) == NEEDED[voters][0]
    assert next(one.disks for one in counts if one.electable) == NEEDED[voters][1]
    assert all(one.holds_all for one in counts if one.electable), "whoever is elected has every committed record"


@pytest.mark.parametrize("voters", NEEDED)
def test_no_record_that_any_majority_committed_is_lost_with_the_others(voters: int) -> None:
    """By trying every majority that may have a record, and every choice of disks that may be left."""
    nodes = range(voters)
    committed = [{*some} for some in combinations(nodes, voters // 2 + 1)]

    for disks in range(voters + 1):
        sure = all(held & {*left} for left in combinations(nodes, disks) for held in committed)
        assert DiskCount(voters=voters, disks=disks).holds_all is sure, f"{disks} of {voters}"


def test_texts() -> None:
    half, one = DiskCount(voters=4, disks=2), DiskCount(voters=3, disks=1)

    assert half.too_few("disks are given") == "only 2 of 4 voters' disks are given, 3 are needed to elect a leader"
    assert half.held_text == "any 2 of 4 hold every record that was committed"
    assert one.held_text == "records that were committed may be on the others only"
