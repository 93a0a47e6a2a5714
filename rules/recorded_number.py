"""RecordedNumber: a number of an observation that records how a rule compares it.

A rule that is evaluated on recorded numbers leaves behind the ranges in which each of its comparisons has the same
outcome. While the numbers of later observations stay in these ranges, the rule takes the same branches, so its results
are the same and it need not be evaluated. Ages are compared with thresholds as differences (`now - fetched > limit`),
so the ranges are also the times at which a result changes by age alone: no rule declares its thresholds for this.

Only sums, differences and comparisons of whole numbers can be recorded. Every other use, for example in a text, raises
NotRecordableError: the result then depends on the number itself, and the rule is evaluated again each time.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, ClassVar, NoReturn, TypeAlias

Terms: TypeAlias = tuple[tuple[int, int], ...]
"""A sum of numbers: the position of each number, ascending, with the factor that it is multiplied with."""


class NotRecordableError(TypeError):
    """A number is used in another way than in sums, differences and comparisons."""


class Comparisons:
    """The ranges of sums of numbers in which all recorded comparisons have the same outcome."""

    def __init__(self) -> None:
        self._lowest: dict[Terms, int] = {}
        self._highest: dict[Terms, int] = {}
        self._newest: list[tuple[Terms, int, bool]] = []
        """The comparisons since the last `keep` or `drop`: the sum, a bound, and whether it is the lowest value."""

    def add(self, terms: Terms, bound: int, *, lowest: bool) -> None:
        """Records that the outcome is the same while the sum is at least, or at most, this bound."""
        if terms:
            self._newest.append((terms, bound, lowest))

    def keep(self) -> None:
        """Keeps the comparisons since the last call."""
        for terms, bound, lowest in self._newest:
            if terms[0][1] < 0:
                terms, bound, lowest = tuple((position, -each) for position, each in terms), -bound, not lowest
            if lowest:
                self._lowest[terms] = max(bound, self._lowest.get(terms, bound))
            else:
                self._highest[terms] = min(bound, self._highest.get(terms, bound))
        self._newest.clear()

    def drop(self) -> None:
        """Drops the comparisons since the last call: what they decided is not kept either."""
        self._newest.clear()

    def ranges(self) -> "Ranges":
        """Returns the kept comparisons."""
        return Ranges(self._lowest, self._highest)


class Ranges:
    """Recorded ranges, in the form in which they are checked fastest."""

    def __init__(self, lowest: Mapping[Terms, int], highest: Mapping[Terms, int]) -> None:
        # Nearly all comparisons are of one number with a constant, or of a difference with a threshold.
        self._numbers: list[tuple[int, float, float]] = []
        self._differences: list[tuple[int, int, float, float]] = []
        self._sums: list[tuple[Terms, float, float]] = []
        for terms in {**lowest, **highest}:
            low, high = lowest.get(terms, -inf), highest.get(terms, inf)
            match terms:
                case ((number, 1),):
                    self._numbers.append((number, low, high))
                case ((number, 1), (subtracted, -1)):
                    self._differences.append((number, subtracted, low, high))
                case _:
                    self._sums.append((terms, low, high))

    def hold(self, values: Sequence[Any]) -> bool:
        """Returns whether every sum of these numbers is in its range. Numbers that are compared are not None."""
        for number, low, high in self._numbers:
            if not low <= values[number] <= high:
                return False
        for number, subtracted, low, high in self._differences:
            if not low <= values[number] - values[subtracted] <= high:
                return False
        for terms, low, high in self._sums:
            if not low <= sum(values[position] * factor for position, factor in terms) <= high:
                return False
        return True


class RecordedNumber:
    """A whole number that is a sum of moving numbers and a constant; its comparisons are recorded."""

    __slots__ = ("_comparisons", "_constant", "_terms", "_value")
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __init__(self, value: int, terms: Terms, constant: int, comparisons: Comparisons) -> None:
        self._value = value
        self._terms = terms
        self._constant = constant
        self._comparisons = comparisons

    def __add__(self, other: object) -> "RecordedNumber":
        return self._sum(other, 1)

    __radd__ = __add__

    def __sub__(self, other: object) -> "RecordedNumber":
        return self._sum(other, -1)

    def __rsub__(self, other: object) -> "RecordedNumber":
        return (-self)._sum(other, 1)

    def __neg__(self) -> "RecordedNumber":
        terms = tuple((position, -factor) for position, factor in self._terms)
        return RecordedNumber(-self._value, terms, -self._constant, self._comparisons)

    def __lt__(self, other: object) -> bool:
        return not self._is_at_least(other, 0)

    def __le__(self, other: object) -> bool:
        return not self._is_at_least(other, 1)

    def __gt__(self, other: object) -> bool:
        return self._is_at_least(other, 1)

    def __ge__(self, other: object) -> bool:
        return self._is_at_least(other, 0)

    def __eq__(self, other: object) -> bool:
        if other is None:
            return False
        if self > other:
            return False
        return self >= other

    def __bool__(self) -> bool:
        return self != 0

    def __str__(self) -> str:
        return self._refuse()

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        return self._refuse()

    def _is_at_least(self, other: object, distance: int) -> bool:
        """Returns whether this number minus the other one is at least the distance."""
        difference = self._sum(other, -1)
        outcome = difference._value >= distance
        bound = distance - difference._constant
        self._comparisons.add(difference._terms, bound if outcome else bound - 1, lowest=outcome)
        return outcome

    def _sum(self, other: object, factor: int) -> "RecordedNumber":
        if isinstance(other, RecordedNumber):
            factors = dict(self._terms)
            for position, each in other._terms:
                factors[position] = factors.get(position, 0) + factor * each
            terms = tuple(sorted((position, each) for position, each in factors.items() if each))
            value, constant = other._value, other._constant
        elif isinstance(other, int):
            terms, value, constant = self._terms, other, other
        else:
            self._refuse()
        return RecordedNumber(
            self._value + factor * value, terms, self._constant + factor * constant, self._comparisons
        )

    def _refuse(self) -> NoReturn:
        raise NotRecordableError("a result depends on a number of the observations itself")


class UnrecordableValue:
    """Stands for a value whose every use makes a result depend on it: any use raises an error."""

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> NoReturn:
        raise NotRecordableError(f"a result depends on {name} of a value that is not recorded")

    def __eq__(self, other: object) -> bool:
        raise NotRecordableError("a result depends on a value that is not recorded")

    def __bool__(self) -> bool:
        raise NotRecordableError("a result depends on a value that is not recorded")

    def __str__(self) -> str:
        raise NotRecordableError("a result depends on a value that is not recorded")

    __repr__ = __str__
