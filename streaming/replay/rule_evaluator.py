"""RuleEvaluator: evaluates the rules on one quorum after another, and a rule only if its results may have changed.

`RuleEvaluator.evaluate(quorum)` returns what `rules.evaluate.evaluate(quorum, thresholds)` returns. The rules are
evaluated on recorded numbers, which leave behind the ranges in which each comparison has the same outcome. While a
later quorum has the same fixed part and its moving numbers stay in these ranges, every rule takes the same branches, so
its results are the same. Ages are compared with thresholds as differences (`now - fetched > limit`), so a result that
changes by age alone leaves its range too. A rule declares nothing for this.

Only sums, differences and comparisons of whole numbers can be recorded. A rule whose results depend on a moving number
itself, for example a finding that says how long it has lasted, is evaluated on each quorum.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from operator import attrgetter
from typing import Any, ClassVar, NoReturn, TypeAlias, get_origin

from rules.evaluate import RULES, combined, contained_results, results_of
from rules.finding import Evaluation, Finding, Rule, RuleResult, Thresholds
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation, LeaderView, Probe
from rules.model.quorum import Quorum
from rules.model.replica import Poll, Replica, ReplicaHistory

_MOVING: Mapping[type, tuple[str, ...]] = {
    Quorum: (
        *("now_ms", "log_fetched_at_ms", "high_watermark", "high_watermark_since_ms", "last_offset"),
        *("newest_timestamp_ms", "idle_ms", "silent_ms"),
    ),
    Poll: ("observed_at_ms", "high_watermark", "clock_ahead_ms", "answer_ms"),
    Replica: ("log_end_offset", "last_fetch_ms", "last_caught_up_ms"),
    ReplicaHistory: ("last_seen_at_ms", "last_log_end_offset", "last_leader_epoch"),
    Probe: ("observed_at_ms",),
    LeaderView: ("observed_at_ms",),
    FailedObservation: ("last_at_ms",),
}
"""The fields that are moving numbers. An instance holds each of them as a whole number or None."""
_ELSEWHERE: Mapping[type, tuple[str, ...]] = {
    Quorum: ("poll", "histories", "probes", "leader_views", "failures", "_derived"),
    Poll: ("voters", "observers"),
    ReplicaHistory: ("samples",),
}
"""Fields that hold objects with moving numbers; and samples, which are not recorded: each poll changes them."""
_CLOCKS = tuple(map(_MOVING[Quorum].index, ("now_ms", "newest_timestamp_ms")))
"""The positions of the moving numbers that grow as time passes, also if nothing else is observed."""
_LONGEST_MS = 15_000
"""How far ahead `quiet_until_ms` looks: beyond the longest time that rows wait."""
_RENEWED_MS = 6_000
"""How far ahead its result is at least, if possible: it is computed again only when it is nearer. So the clusters of a
batch are due together next time, not one after the other."""
_SOON_MS = 5_000
"""How far ahead it looks where comparisons are not recorded."""
Values: TypeAlias = tuple[object, ...]
Terms: TypeAlias = tuple[tuple[int, int], ...]
"""A sum of numbers: the position of each number, ascending, with the factor that it is multiplied with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvaluation:
    """The results of the rules, and the conditions under which they stay the same."""

    fixed: Values
    absent: Sequence[bool]
    """Which moving numbers are None."""
    ranges: "Ranges"
    results: Mapping[str, tuple[RuleResult, ...]]
    """By rule id; of the rules that are not in `changing`."""
    changing: tuple[Rule, ...]
    """The rules whose results depend on a moving number itself."""
    unrecorded: tuple[Rule, ...]
    """Those of them of which `ranges` may lack comparisons."""

    def holds(self, quorum: Quorum) -> bool:
        """Returns whether all results but those of `changing` are the same for this quorum."""
        if fixed_part(quorum) != self.fixed:
            return False
        values = moving_numbers(quorum)
        return [value is None for value in values] == self.absent and self.ranges.hold(values)


class RuleEvaluator:
    """Evaluates all rules, with the thresholds of one cluster."""

    def __init__(self, thresholds: Mapping[str, Thresholds]) -> None:
        """`thresholds`: by rule id, as `rules.evaluate.thresholds_for` returns them."""
        self._thresholds = thresholds
        self._recorded: RecordedEvaluation | None = None
        self._newest: Evaluation | None = None
        self._quiet_until_ms: Millis | None = None

    def evaluate(self, quorum: Quorum) -> Evaluation:
        """Returns the evaluation of this quorum: the same object while no rule has to be evaluated."""
        recorded = self._recorded
        if recorded is None or not recorded.holds(quorum):
            recorded, self._newest = self._record(quorum), None
            self._recorded, self._quiet_until_ms = recorded, None
        if self._newest is None or recorded.changing:
            failed: dict[str, str] = {}
            results = dict(recorded.results)
            for rule in recorded.changing:
                results[rule.id] = contained_results(rule, quorum, self._thresholds, failed)
            self._newest = combined(tuple(RULES.values()), results, failed)
        return self._newest

    def quiet_until_ms(self, quorum: Quorum) -> Millis:
        """Returns a time before which no condition begins or ends because time passes, if nothing else is observed.

        `quorum` is the newest one that was evaluated.
        """
        recorded, now_ms, until_ms = self._recorded, quorum.now_ms, self._quiet_until_ms
        assert recorded is not None
        if until_ms is None or until_ms < now_ms + _RENEWED_MS:
            kept_ms = recorded.ranges.kept_for_ms(moving_numbers(quorum))
            if recorded.unrecorded:
                kept_ms = min(kept_ms, _SOON_MS)
                if self._conditions(recorded, quorum) != self._conditions(recorded, _later(quorum, kept_ms)):
                    kept_ms = 0
            until_ms = self._quiet_until_ms = Millis(now_ms + kept_ms)
        return until_ms

    def _conditions(self, recorded: RecordedEvaluation, quorum: Quorum) -> list[tuple[object, ...]]:
        """Returns what the unrecorded rules find, without their texts, in which ages are."""
        failed: dict[str, str] = {}
        return [
            (rule.id, type(each), getattr(each, "subject", None), getattr(each, "severity", None))
            for rule in recorded.unrecorded
            for each in contained_results(rule, quorum, self._thresholds, failed)
        ]

    def _record(self, quorum: Quorum) -> RecordedEvaluation:
        ranges = Ranges()
        numbered = with_recorded_numbers(quorum, ranges)
        found = {rule.id: self._recorded_results(rule, numbered) for rule in RULES.values()}
        depends = {rule for rule, results in found.items() if results is None or _hold_numbers(results)}
        return RecordedEvaluation(
            fixed=fixed_part(quorum),
            absent=[value is None for value in moving_numbers(quorum)],
            ranges=ranges,
            results={rule: results for rule, results in found.items() if results is not None and rule not in depends},
            changing=tuple(rule for rule in RULES.values() if rule.id in depends),
            unrecorded=tuple(rule for rule in RULES.values() if found[rule.id] is None),
        )

    def _recorded_results(self, rule: Rule, numbered: Quorum) -> tuple[RuleResult, ...] | None:
        """Returns the results of a rule; None if it uses a number in another way, or fails."""
        # Facts that another rule derived may have been derived from a number itself: each rule derives its own.
        numbered.forget_derived()
        try:
            return results_of(rule, numbered, self._thresholds[rule.id])
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - also a rule that fails: it is then evaluated, and its failure reported, each time
            return None


def _hold_numbers(results: Iterable[RuleResult]) -> bool:
    findings = (each for each in results if isinstance(each, Finding))
    return any(_holds_number([one.condition_age_ms, dict(one.evidence)]) for one in findings)


def _later(quorum: Quorum, ms: int) -> Quorum:
    newest_ms = quorum.newest_timestamp_ms
    newest_ms = None if newest_ms is None else Millis(newest_ms + ms)
    return replace(quorum, now_ms=Millis(quorum.now_ms + ms), newest_timestamp_ms=newest_ms)


def _holds_number(value: object) -> bool:
    match value:
        case dict():
            return any(map(_holds_number, value.values()))
        case list() | tuple():
            return any(map(_holds_number, value))
        case _:
            return isinstance(value, RecordedNumber)


class NotRecordableError(TypeError):
    """A number is used in another way than in sums, differences and comparisons."""


class Ranges:
    """The ranges of sums of numbers in which all recorded comparisons have the same outcome."""

    def __init__(self) -> None:
        self._ranges: dict[Terms, tuple[float, float]] = {}

    def add(self, terms: Terms, bound: int, *, lowest: bool) -> None:
        """Records that the outcome is the same while the sum is at least, or at most, this bound."""
        if terms:
            low, high = self._ranges.get(terms, (-inf, inf))
            self._ranges[terms] = (max(low, bound), high) if lowest else (low, min(high, bound))

    def hold(self, values: Sequence[Any]) -> bool:
        """Returns whether every sum of these numbers is in its range. Numbers that are compared are not None."""
        for terms, (low, high) in self._ranges.items():
            total = 0
            for position, factor in terms:
                total += values[position] * factor
            if not low <= total <= high:
                return False
        return True

    def kept_for_ms(self, values: Sequence[Any]) -> int:
        """Returns how long every sum stays in its range, in milliseconds, while none but the clocks move.

        A clock moves by at most a millisecond in each; 1 to `_LONGEST_MS`.
        """
        kept = _LONGEST_MS
        for terms, (low, high) in self._ranges.items():
            rise = sum(factor for position, factor in terms if position in _CLOCKS and factor > 0)
            fall = sum(-factor for position, factor in terms if position in _CLOCKS and factor < 0)
            total = sum(values[position] * factor for position, factor in terms)
            if rise and high < inf:
                kept = min(kept, (int(high) - total) // rise + 1)
            if fall and low > -inf:
                kept = min(kept, (total - int(low)) // fall + 1)
        return kept


class RecordedNumber:
    """A whole number that is a sum of moving numbers and a constant; its comparisons are recorded."""

    __slots__ = ("_constant", "_ranges", "_terms", "_value")
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __init__(self, value: int, terms: Terms, constant: int, ranges: Ranges) -> None:
        self._value = value
        self._terms = terms
        self._constant = constant
        self._ranges = ranges

    def __add__(self, other: object) -> "RecordedNumber":
        return self._sum(other, 1)

    __radd__ = __add__

    def __sub__(self, other: object) -> "RecordedNumber":
        return self._sum(other, -1)

    def __rsub__(self, other: object) -> "RecordedNumber":
        return (-self)._sum(other, 1)

    def __neg__(self) -> "RecordedNumber":
        return RecordedNumber(0, (), 0, self._ranges)._sum(self, -1)

    def __lt__(self, other: object) -> bool:
        return not self._is_at_least(other, 0)

    def __le__(self, other: object) -> bool:
        return not self._is_at_least(other, 1)

    def __gt__(self, other: object) -> bool:
        return self._is_at_least(other, 1)

    def __ge__(self, other: object) -> bool:
        return self._is_at_least(other, 0)

    def __eq__(self, other: object) -> bool:
        return other is not None and not self > other and self >= other

    def __bool__(self) -> bool:
        return self != 0

    def __str__(self) -> str:
        return self._refuse()

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        return self._refuse()

    def _is_at_least(self, other: object, distance: int) -> bool:
        difference = self._sum(other, -1)
        outcome = difference._value >= distance
        bound = distance - difference._constant
        self._ranges.add(difference._terms, bound if outcome else bound - 1, lowest=outcome)
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
        return RecordedNumber(self._value + factor * value, terms, self._constant + factor * constant, self._ranges)

    def _refuse(self) -> NoReturn:
        raise NotRecordableError("a result depends on a number of the observations itself")


class UnrecordableValue:
    """Stands for a value whose every use makes a result depend on it: any use raises a TypeError or AttributeError."""

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return bool(self)

    def __bool__(self) -> bool:
        raise NotRecordableError("a result depends on a value that is not recorded")

    def __str__(self) -> str:
        return str(bool(self))

    __repr__ = __str__


def _values_of(names: tuple[str, ...]) -> Callable[[Any], Values]:
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda one: (get(one),)


def _fixed_values_of(kind: type) -> Callable[[Any], Values]:
    excluded = {*_MOVING[kind], *_ELSEWHERE.get(kind, ())}
    fixed = [each for each in fields(kind) if each.name not in excluded]
    get = _values_of(tuple(each.name for each in fixed))
    mappings = [each.name for each in fixed if get_origin(each.type) is Mapping]
    # Equal mappings may differ in their order, on which a result may depend.
    return (lambda one: (*get(one), *(tuple(getattr(one, name)) for name in mappings))) if mappings else get


_NUMBERS = {kind: _values_of(names) for kind, names in _MOVING.items()}
_FIXED = {kind: _fixed_values_of(kind) for kind in _MOVING}


def moving_numbers(quorum: Quorum) -> list[int | None]:
    """Returns the moving numbers. Those of two quorums with the same fixed part are in the same order."""
    values: list[Any] = []
    for kind, part in _objects(quorum):
        for one in part:
            values += _NUMBERS[kind](one)
    return values


def fixed_part(quorum: Quorum) -> Values:
    """Returns everything but the moving numbers and the samples, as one value that can be compared."""
    keys = (tuple(quorum.histories), tuple(quorum.probes), tuple(quorum.leader_views))
    return (keys, *(tuple(map(_FIXED[kind], part)) for kind, part in _objects(quorum)))


def _objects(quorum: Quorum) -> Iterator[tuple[type, Iterable[object]]]:
    yield Quorum, (quorum,)
    if quorum.poll is not None:
        yield Poll, (quorum.poll,)
        yield Replica, quorum.poll.voters
        yield Replica, quorum.poll.observers
    yield ReplicaHistory, quorum.histories.values()
    yield Probe, quorum.probes.values()
    yield LeaderView, quorum.leader_views.values()
    yield FailedObservation, quorum.failures


def with_recorded_numbers(quorum: Quorum, ranges: Ranges) -> Quorum:
    """Returns the quorum with a RecordedNumber for each of `moving_numbers`, in their order."""
    position = 0

    def recorded(one: Any, **changes: object) -> Any:
        nonlocal position
        for name in _MOVING[type(one)]:
            value = getattr(one, name)
            changes[name] = None if value is None else RecordedNumber(value, ((position, 1),), 0, ranges)
            position += 1
        return replace(one, **changes)

    whole = recorded(quorum)
    poll = None
    if quorum.poll is not None:
        poll = recorded(quorum.poll)
        poll = replace(poll, voters=tuple(map(recorded, poll.voters)), observers=tuple(map(recorded, poll.observers)))
    result: Quorum = replace(
        whole,
        poll=poll,
        histories={key: recorded(one, samples=UnrecordableValue()) for key, one in quorum.histories.items()},
        probes={key: recorded(one) for key, one in quorum.probes.items()},
        leader_views={key: recorded(one) for key, one in quorum.leader_views.items()},
        failures=tuple(map(recorded, quorum.failures)),
    )
    return result
