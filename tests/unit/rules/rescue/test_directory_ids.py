"""Which logs under other directory ids count as those of voters, and that no id given back loses a committed record."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.model.identifiers import DirectoryId, Epoch, Offset
from rules.model.membership import majority
from rules.rescue.directory_ids import OtherIds, other_ids
from rules.rescue.node_decisions import StoppedDisk, disk_survival
from tests.situation.situation import controller_key as key
from tests.unit.rules.rescue.stopped_logs import log, voters

NOBODY = OtherIds({}, frozenset())


def labelled(disk: StoppedDisk, directory: str | None = "new") -> StoppedDisk:
    name = None if directory is None else DirectoryId(f"{directory}-{disk.key.id}")
    return replace(disk, key=replace(disk.key, directory_id=name))


def back(disks: list[StoppedDisk]) -> tuple[list[int], list[int]]:
    """The nodes that get their ids back at once, and those that do later."""
    found = other_ids(disks, voters(3))
    at_once = [one for one in found.keys.values() if one not in found.later]
    return sorted(int(one.id) for one in at_once), sorted(int(one.id) for one in found.later)


@pytest.mark.parametrize(
    ("disks", "expected"),
    [
        pytest.param([labelled(log(1, (1, 60))), labelled(log(2, (1, 60))), log(3, (1, 50))], ([1, 2], []), id="two"),
        pytest.param([labelled(log(n, (1, 60))) for n in (1, 2, 3)], ([1, 2, 3], []), id="all"),
        pytest.param([labelled(log(n, (1, 60)), None) for n in (1, 2, 3)], ([1, 2, 3], []), id="no directory id"),
        pytest.param([labelled(log(n, (1, 50 + n))) for n in (1, 2, 3)], ([2, 3], [1]), id="one is behind"),
        pytest.param([log(1, (1, 60)), log(2, (1, 60)), labelled(log(3, (1, 60)))], ([], []), id="not needed"),
        pytest.param([labelled(log(1, (1, 60))), labelled(log(101, (1, 60)))], ([], []), id="a broker is no voter"),
        pytest.param(
            [labelled(log(1, (1, 50), (2, 90))), log(2, (1, 50), (3, 60))], ([], []), id="a log that has diverged"
        ),
        pytest.param(
            [replace(log(1, (1, 60)), key=replace(key(1), directory_id=key(3).directory_id)), log(3, (1, 60))],
            ([], []),
            id="a copy of another disk",
        ),
        pytest.param(
            [replace(labelled(log(1, (1, 60))), damage="at offset 9"), log(3, (1, 60))], ([], []), id="a damaged log"
        ),
    ],
)
def test_logs_under_other_ids_are_voters_while_the_majority_needs_them(
    disks: list[StoppedDisk], expected: tuple[list[int], list[int]]
) -> None:
    assert back(disks) == expected


def test_an_epoch_number_that_was_used_twice_makes_two_logs() -> None:
    begins = {Epoch(1): (Offset(0), 7), Epoch(2): (Offset(40), 8)}
    former = replace(labelled(log(1, (1, 40), (2, 50))), epoch_begins=begins)
    restored = replace(log(3, (1, 40), (2, 60)), epoch_begins=begins | {Epoch(2): (Offset(40), 9)})

    assert back([former, restored]) == ([], [])
    assert back([former, replace(restored, epoch_begins=begins)]) == ([1], [])


def test_a_vote_for_itself_with_the_recorded_id_proves_that_the_disk_is_the_voters() -> None:
    for voted, proved in ((None, False), (key(2), False), (key(1), True)):
        found = disk_survival([replace(log(1, (1, 60)), voted=voted), log(3, (1, 60))], [key(1)])
        assert found is not None
        assert found.holds_all_committed is proved


@given(st.data())
def test_no_committed_record_is_lost_by_an_id_that_is_given_back(data: st.DataObject) -> None:
    """Also if the disks that were replaced, as many as a leader can do without, have fetched any part of the log."""
    number = data.draw(st.sampled_from([3, 5]))
    nodes, needed = range(1, number + 1), majority(number)
    written = {node: data.draw(st.integers(1, 9), label=f"log of {node}") for node in nodes}
    committed = sorted(written.values())[number - needed]
    replaced = data.draw(st.sets(st.sampled_from(nodes), max_size=number - needed), label="replaced")
    formatted = data.draw(st.sets(st.sampled_from(nodes)), label="formatted again over the log")
    given_ = data.draw(st.sets(st.sampled_from(nodes), min_size=1), label="given")
    disks = []
    for node in sorted(given_):
        end = data.draw(st.integers(1, committed), label=f"fetched by {node}") if node in replaced else written[node]
        one = replace(log(node, (1, end)), voters=voters(number))
        disks.append(labelled(one) if node in replaced | formatted else one)

    found = other_ids(disks, voters(number))
    assert (found == NOBODY) or len(disks) >= needed
    known = [replace(one, key=found.keys.get(one.key, one.key)) for one in disks]
    survival = disk_survival(known, found.keys.values())
    if found == NOBODY or survival is None or not survival.holds_all_committed:
        return
    started = [one for one in known if one.key in survival.present and one.key not in found.later]
    for electing in combinations(started, needed):
        leader = max(electing, key=lambda one: one.position)
        assert leader.end_offset >= committed
