"""While the numbers stay in the recorded ranges, every recorded comparison has the same outcome."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest

from streaming.replay.rule_evaluator import Ranges, RecordedNumber, UnrecordableValue

Decision = Callable[[Any, Any, Any], object]
DECISIONS: dict[str, Decision] = {
    "age above a limit": lambda now, at, _: now - at > 2,
    "age at least a limit": lambda now, at, _: now - at >= 2,
    "a number alone": lambda now, at, other: other < 3,
    "equal": lambda now, at, other: at == other,
    "not equal": lambda now, at, other: at != other - 1,
    "equal to a constant": lambda now, at, other: other == 2,
    "absent": lambda now, at, other: other in (None, 1),
    "zero or a number": lambda now, at, other: (other or now) > at,
    "the newer of two": lambda now, at, other: now - max(at, other) >= 1,
    "at least zero": lambda now, at, other: max(0, at - other) > 1,
    "the order": lambda now, at, other: [index for _, index in sorted([(now, 0), (at, 1), (other, 2)])],
    "four numbers": lambda now, at, other: now - (at - other) > other + 1,
    "a limit minus a number": lambda now, at, other: 3 - other > at,
    "a number before its limit": lambda now, at, other: 1 + at <= now,
    "negative": lambda now, at, other: -(now - 3) < at,
    "a narrow limit before a wide one": lambda now, at, other: [other > 3, other > 1, at < 1, at < 3],
    "a wide limit before a narrow one": lambda now, at, other: [other > 1, other > 3, at < 3, at < 1],
    "a number twice": lambda now, at, other: at + at > 3,
    "more than a number twice": lambda now, at, other: now > at + at,
    "twice a number or more": lambda now, at, other: now + now >= other,
    "several": lambda now, at, other: (now > 2 and at > 1) or now - other > 2,
}
VALUES = range(5)


def recorded(decision: Decision, values: Sequence[int]) -> tuple[object, Ranges]:
    ranges = Ranges()
    numbers = (RecordedNumber(value, ((index, 1),), 0, ranges) for index, value in enumerate(values))
    outcome = decision(*numbers)
    return outcome, ranges


@pytest.mark.parametrize("name", DECISIONS)
def test_the_outcome_is_the_same_wherever_the_ranges_hold(name: str) -> None:
    decision = DECISIONS[name]
    lasting = 0
    for values in product(VALUES, repeat=3):
        outcome, ranges = recorded(decision, values)
        assert outcome == decision(*values)
        assert ranges.hold(values)
        for others in product(VALUES, repeat=3):
            if ranges.hold(others):
                lasting += others != values
                assert decision(*others) == outcome, f"{values} to {others}"
    assert lasting > len(VALUES) ** 3, "the ranges hold for other numbers too"


def test_a_difference_that_does_not_move_has_no_range() -> None:
    outcome, ranges = recorded(lambda now, at, _: (now + at) - (at + now) >= 0, (4, 1, 2))

    assert outcome is True
    assert ranges.hold((0, 100, -100))


@pytest.mark.parametrize(
    "use",
    [
        lambda number: f"{number} ms",
        str,
        repr,
        hash,
        int,
        float,
        round,
        abs,
        range,
        lambda number: number * 2,
        lambda number: number // 1_000,
        lambda number: number % 7,
        lambda number: number + 0.5,
        lambda number: number < 0.5,
        lambda number: number == "7",
        lambda number: {number: 1},
        lambda number: [1, 2, 3][number],
        lambda number: "%d" % number,  # noqa: UP031 - the form is the point
    ],
)
def test_a_use_that_depends_on_the_number_itself_raises(use: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError):
        use(RecordedNumber(7, ((0, 1),), 0, Ranges()))


@pytest.mark.parametrize("use", [bool, str, repr, hash, len, list, lambda value: value[-1], lambda value: value == ()])
def test_any_use_of_an_unrecordable_value_raises(use: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError):
        use(UnrecordableValue())
