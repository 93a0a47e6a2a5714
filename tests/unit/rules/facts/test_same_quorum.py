"""Whether two voter sets can be of one quorum, earlier and later."""

import pytest

from rules.model.identifiers import ReplicaKey
from rules.model.membership import is_same_quorum
from tests.commands import replica_key


def keys(*names: str) -> frozenset[ReplicaKey]:
    return frozenset(map(replica_key, names))


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
