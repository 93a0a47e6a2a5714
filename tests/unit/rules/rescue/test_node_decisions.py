"""Which nodes of a stopped quorum are rescued, and which surviving disk is the most complete.

What a majority holds survives, what one alone holds does not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.model.identifiers import Epoch, Offset
from rules.model.membership import majority
from rules.rescue.node_decisions import (
    DiskSurvival,
    NodeAction,
    NodeDecision,
    StoppedDisk,
    disk_survival,
    held_by_majority,
    node_decisions,
    overrides_in,
    start_order,
)
from tests.situation.situation import controller_key as key
from tests.unit.rules.rescue.stopped_logs import log, voters

APPLY, LEAVE, FETCH_AGAIN, REFUSE = NodeAction


def actions(decisions: tuple[NodeDecision, ...]) -> dict[int, NodeAction]:
    return {one.key.id: one.action for one in decisions}


@pytest.mark.parametrize(
    ("logs", "end"),
    [
        pytest.param([log(1, (1, 70)), log(2, (1, 60)), log(3, (1, 40))], 60, id="a tail that one holds"),
        pytest.param(
            [log(1, (1, 50), (2, 80), (5, 100)), log(2, (1, 50), (2, 80), (4, 120))],
            80,
            id="a longer log of an earlier epoch",
        ),
        pytest.param([log(1, (1, 50), (3, 60)), log(2, (1, 55)), log(3, (1, 40))], 50, id="an uncommitted tail"),
        pytest.param([log(1, (5, 100)), log(2, (4, 70))], 70, id="covered by a snapshot of the other"),
        pytest.param([log(1, (1, 70)), log(9, (1, 70))], 0, id="no majority of voters"),
    ],
)
def test_records_of_the_most_complete_log_that_a_majority_holds(logs: list[StoppedDisk], end: int) -> None:
    assert held_by_majority(logs, voters(3)) == end


def case(name: str, logs: list[StoppedDisk], expected: Mapping[int, NodeAction], *reasons: str) -> Any:
    return pytest.param(logs, expected, reasons, id=name)


WHOLE, BEGINNING = "its log holds every record that survives", "its log is a beginning of the surviving log"
TAIL = "no majority of the voters has its records from offset 60 to 69, so they are not committed"
DIVERGED = "its log differs from the others: its end, offset 90, is of epoch 2"
LOST = (
    "only 1 of 3 voters' disks are given, 2 are needed to elect a leader: records that were committed may be on the "
    "others only"
)
UNREADABLE = "a majority of 2 voters cannot be rescued: 2: open; 3: damaged"
APART = "the voters' logs have diverged, so that no 2 of them agree with the most complete one, of controller 2"


@pytest.mark.parametrize(
    ("logs", "expected", "reasons"),
    [
        case("identical", [log(n, (1, 60)) for n in (1, 2, 3)], {1: APPLY, 2: APPLY, 3: APPLY}),
        case("behind", [log(1, (1, 60)), log(2, (1, 60)), log(3, (1, 40))], {1: APPLY, 2: APPLY, 3: APPLY}),
        case(
            "tail",
            [log(1, (1, 70)), log(2, (1, 60)), log(3, (1, 40))],
            {1: LEAVE, 2: APPLY, 3: APPLY},
            *(TAIL, WHOLE, BEGINNING),
        ),
        case("tail that the majority needs", [log(1, (1, 70)), log(2, (1, 60))], {1: APPLY, 2: APPLY}),
        case("lost majority", [log(1, (1, 70))], {1: REFUSE}, LOST),
        case(
            "diverged in an earlier epoch",
            [log(1, (1, 50), (3, 60)), log(2, (1, 50), (3, 60)), log(3, (1, 50), (2, 90))],
            {1: APPLY, 2: APPLY, 3: LEAVE},
            *(WHOLE, WHOLE, DIVERGED),
        ),
        case(
            "leader of a newer epoch that nobody fetched from",
            [log(1, (1, 50), (3, 60)), log(2, (1, 45)), log(3, (1, 55))],
            {1: LEAVE, 2: APPLY, 3: APPLY},
        ),
        case(
            "brokers",
            [log(1, (1, 60)), log(2, (1, 60)), log(101, (1, 58)), log(102, (1, 90))],
            {1: APPLY, 2: APPLY, 101: APPLY, 102: FETCH_AGAIN},
        ),
        case(
            "one damaged",
            [log(1, (1, 60)), log(2, (1, 60)), log(3, (1, 60), unreadable="damaged")],
            {1: APPLY, 2: APPLY, 3: LEAVE},
        ),
        case(
            "a majority cannot be read",
            [log(1, (1, 60)), log(2, (1, 60), unreadable="open"), log(3, (1, 60), unreadable="damaged")],
            {1: REFUSE, 2: REFUSE, 3: REFUSE},
            *(UNREADABLE, UNREADABLE, UNREADABLE),
        ),
        case("diverged", [log(1, (1, 50), (2, 60)), log(2, (1, 40), (3, 55))], {1: REFUSE, 2: REFUSE}, APART, APART),
    ],
)
def test_action_of_each_node(
    logs: list[StoppedDisk], expected: Mapping[int, NodeAction], reasons: tuple[str, ...]
) -> None:
    decisions = node_decisions(logs, voters(3))

    assert actions(decisions) == expected
    assert tuple(one.reason for one in decisions)[: len(reasons)] == reasons


def test_most_complete_log_starts_first() -> None:
    logs = [log(1, (1, 40)), log(2, (1, 70)), log(3, (2, 45))]
    decisions = tuple(NodeDecision(key=one.key, action=APPLY, reason="") for one in logs)

    assert [one.id for one in start_order(decisions, logs)] == [3, 2, 1]


@given(
    count=st.integers(1, 7),
    ends=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 20)), min_size=7, max_size=7),
    given_disks=st.sets(st.integers(1, 7)),
)
def test_whatever_a_majority_may_have_committed_survives(
    count: int, ends: list[tuple[int, int]], given_disks: set[int]
) -> None:
    """The logs are one history, each cut at another place: none has diverged."""
    history: dict[int, int] = {}
    for epoch, end in sorted(ends[:count]):
        history[epoch] = max(
            history.get(epoch, 0), end, max((at for one, at in history.items() if one < epoch), default=0)
        )
    logs = [
        log(
            node,
            *((one, at) for one, at in history.items() if one < epoch),
            (epoch, max(end, *_below(history, epoch), 0)),
        )
        for node, (epoch, end) in enumerate(ends[:count], 1)
        if node in given_disks
    ]
    decisions = node_decisions(logs, voters(count)) if logs else ()
    rescued = [one for one in logs if actions(decisions)[one.key.id] is APPLY]

    if len(logs) < majority(count):
        assert not rescued
        return
    assert len(rescued) >= majority(count), "one history: no log has diverged"
    winner = max(one.position for one in rescued)
    certain = sorted((one.position for one in logs), reverse=True)[majority(count) - 1]
    assert winner >= certain, "the next leader has every record that a majority of all voters may hold"
    if len(logs) == count and count % 2:
        assert winner == certain, "and no other record is made permanent while all disks are known"


def _below(history: Mapping[int, int], epoch: int) -> list[int]:
    return [at for one, at in history.items() if one < epoch]


# The surviving disks.


def survival(disks: Iterable[StoppedDisk]) -> DiskSurvival:
    found = disk_survival(disks)
    assert found is not None
    return found


def disk(node: int, end: int, epoch: int = 1, of: int = 3) -> StoppedDisk:
    return StoppedDisk(key=key(node), epoch=Epoch(epoch), end_offset=Offset(end), voters=voters(of))


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
    assert [one.id for one in survival(disks).best] == best


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
    found = survival(disk(node, 10, of=of) for node in range(1, read + 1))

    assert (found.holds_all_committed, found.electable) == (whole, electable)
    assert [one.id for one in found.absent] == [*range(read + 1, of + 1)]


def test_refusal_of_half_of_the_disks_says_that_they_hold_everything() -> None:
    """It said that committed records may be on the others only, and the plan beside it that nothing is lost."""
    half = [replace(log(node, (1, 60)), voters=voters(4)) for node in (1, 2)]
    (one, _) = node_decisions(half, voters(4))
    (damaged, _) = node_decisions([half[0], replace(half[1], intact=False)], voters(4))

    assert survival(half).holds_all_committed
    assert one.reason == (
        "only 2 of 4 voters' disks are given, 3 are needed to elect a leader: any 2 of 4 hold every record that was "
        "committed"
    )
    assert damaged.reason.endswith("records that were committed may be on the others only")


def test_damaged_disk_counts_as_a_missing_one() -> None:
    """Records after the damage may be committed, and on neither the other disk nor the missing third one."""
    damaged = replace(disk(1, 10), intact=False)

    found = survival([damaged, disk(2, 40)])
    assert [one.id for one in found.damaged] == [1]
    assert not found.holds_all_committed
    three = survival([damaged, disk(2, 40), disk(3, 41)])
    assert three.holds_all_committed


def damaged_log(node: int, *ends: tuple[int, int]) -> StoppedDisk:
    return replace(log(node, *ends), intact=False, damage="at offset 40")


def test_a_log_that_is_damaged_before_its_end_may_have_held_every_record() -> None:
    """Records from 60 on are in one readable log, and may have been committed with the damaged one."""
    logs = [log(1, (1, 100)), log(2, (1, 60)), damaged_log(3, (1, 40))]

    decided = node_decisions(logs, voters(3))

    assert actions(decided) == {1: APPLY, 2: APPLY, 3: LEAVE}
    assert decided[2].reason == "its log is damaged at offset 40"
    assert held_by_majority(logs, voters(3)) == 100
    assert [one.id for one in start_order(decided, logs)] == [1, 2]


def test_without_a_majority_of_sound_logs_nothing_is_rescued() -> None:
    logs = [log(1, (1, 100)), damaged_log(2, (1, 40)), damaged_log(3, (1, 120))]

    decided = node_decisions(logs, voters(3))

    assert actions(decided) == {1: REFUSE, 2: REFUSE, 3: REFUSE}
    assert decided[0].reason == (
        "only 1 of 3 voters' logs are given and sound, 2 are needed to elect a leader: that of controller 2 is damaged "
        "at offset 40; "
        "that of controller 3 is damaged at offset 40, and records that were committed may be in no other one"
    )
    found = survival(logs)
    assert ([one.id for one in found.best], [one.id for one in found.unsound]) == ([1], [2, 3])


def test_a_damaged_log_of_a_broker_is_fetched_again() -> None:
    logs = [log(1, (1, 60)), log(2, (1, 60)), damaged_log(101, (1, 40))]
    assert actions(node_decisions(logs, voters(3))) == {1: APPLY, 2: APPLY, 101: FETCH_AGAIN}


def test_override_in_a_snapshot_is_distinguished_from_an_ordinary_change() -> None:
    recorded, moved = voters(3, offset=36), voters(3, offset=99, host="new")
    ordinary = replace(recorded, offset=Offset(99))

    assert overrides_in([(recorded, False), (ordinary, True)], Offset(0)) == ()
    assert overrides_in([(recorded, False), (moved, True)], Offset(0)) == ((recorded, moved),)
    assert overrides_in([(recorded, False), (moved, False)], Offset(0)) == (), (
        "a record in the log is an ordinary change"
    )
    for log_from, known in ((37, True), (38, False)):
        found = overrides_in([(recorded, False), (moved, True)], Offset(log_from))
        assert bool(found) is known, "unknown if the log between the two is deleted"
