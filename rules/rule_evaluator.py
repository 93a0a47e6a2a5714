"""RuleEvaluator: evaluates the rules on one quorum after another, and a rule only if its results may have changed.

`RuleEvaluator.evaluate(quorum)` returns what `rules.evaluate.evaluate(quorum, thresholds)` returns. The rules are
evaluated on recorded numbers (`rules.recorded_number`). While a later quorum has the same fixed part and its moving
numbers stay in the recorded ranges, the results are the same. Rules whose results depend on a moving number itself, for
example a finding that says how long it has lasted, are evaluated on each quorum. A rule declares nothing for this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rules.evaluate import RULES, combined, contained_results, evaluate, results_of
from rules.finding import Evaluation, Finding, Rule, RuleResult, Thresholds
from rules.model.quorum import Quorum
from rules.moving_numbers import Values, fixed_part, moving_numbers, with_recorded_numbers
from rules.recorded_number import Comparisons, Ranges, RecordedNumber

_MOST_UNRECORDED = 16
"""The maximum number of evaluations in a row that are not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvaluation:
    """An evaluation, and the conditions under which its results stay the same."""

    fixed: Values
    absent: Sequence[bool]
    """Which moving numbers are None."""
    ranges: Ranges
    results: Mapping[str, tuple[RuleResult, ...]]
    """By rule id; of the rules that are not in `changing`."""
    changing: tuple[Rule, ...]
    """The rules whose results depend on a moving number itself."""
    evaluation: Evaluation

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
        self._used = True
        """Whether the newest recorded evaluation was used for another quorum."""
        self._unrecorded, self._pause = 0, 0

    def evaluate(self, quorum: Quorum) -> Evaluation:
        """Returns the evaluation of this quorum."""
        recorded = self._recorded
        if recorded is not None and recorded.holds(quorum):
            self._used, self._pause = True, 0
            return self._continued(recorded, quorum) if recorded.changing else recorded.evaluation
        self._recorded = None
        if recorded is not None and not self._used:
            # The quorum changes with every observation: recording, which takes longer, pauses longer and longer.
            self._pause = min(2 * self._pause + 1, _MOST_UNRECORDED)
            self._unrecorded = self._pause
        if self._unrecorded:
            self._unrecorded -= 1
            return evaluate(quorum, self._thresholds)
        self._recorded, self._used = self._record(quorum), False
        return self._recorded.evaluation

    def _continued(self, recorded: RecordedEvaluation, quorum: Quorum) -> Evaluation:
        failed: dict[str, str] = {}
        results = dict(recorded.results)
        for rule in recorded.changing:
            results[rule.id] = contained_results(rule, quorum, self._thresholds, failed)
        return combined(tuple(RULES.values()), results, failed)

    def _record(self, quorum: Quorum) -> RecordedEvaluation:
        comparisons = Comparisons()
        numbered = with_recorded_numbers(quorum, comparisons)
        results: dict[str, tuple[RuleResult, ...]] = {}
        changing: list[Rule] = []
        failed: dict[str, str] = {}
        for rule in RULES.values():
            found = self._recorded_results(rule, numbered)
            if found is None:
                comparisons.drop()
                changing.append(rule)
            else:
                comparisons.keep()
                results[rule.id] = found
        current = {rule.id: contained_results(rule, quorum, self._thresholds, failed) for rule in changing}
        return RecordedEvaluation(
            fixed=fixed_part(quorum),
            absent=[value is None for value in moving_numbers(quorum)],
            ranges=comparisons.ranges(),
            results=results,
            changing=tuple(changing),
            evaluation=combined(tuple(RULES.values()), {**results, **current}, failed),
        )

    def _recorded_results(self, rule: Rule, numbered: Quorum) -> tuple[RuleResult, ...] | None:
        """Returns the results of a rule; None if they depend on a moving number itself, or the rule fails."""
        # Facts that another rule derived may have been derived from a number itself: each rule derives its own.
        numbered.forget_derived()
        try:
            results = results_of(rule, numbered, self._thresholds[rule.id])
            return None if any(isinstance(each, Finding) and _is_changing(each) for each in results) else results
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - also a rule that fails: it is then evaluated, and its failure reported, each time
            return None


def _is_changing(finding: Finding) -> bool:
    return _holds_number([finding.condition_age_ms, dict(finding.evidence)])


def _holds_number(value: object) -> bool:
    match value:
        case dict():
            return any(map(_holds_number, value.values()))
        case list() | tuple():
            return any(map(_holds_number, value))
        case _:
            return isinstance(value, RecordedNumber)
