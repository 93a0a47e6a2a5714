"""The rules, found in `rules/checks`, and one evaluation of a quorum by all of them.

A rule is fenced: what it raises becomes a finding of `monitor-blind` about that rule, and the others go on.
Root causes silence their consequences where the rule declares it (`Rule.inhibited_by`): what is silenced
is "cannot tell", so that an alert told before does not resolve because something worse stands before it.
"""

import difflib
import importlib
import math
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rules import checks
from rules.finding import Evaluation, Finding, NotApplicable, Rule, RuleResult, Severity, Thresholds, UnknownResult
from rules.model.quorum import Quorum
from rules.remedy_commands import with_legend

BLIND = "monitor-blind"
"""The rule that speaks of ourselves: a rule that fails is told under its name."""


class ThresholdError(ValueError):
    """An override that no rule knows or that cannot be: one sentence, with the nearest name there is."""


def _found() -> Mapping[str, Rule]:
    names = sorted(module.name for module in pkgutil.iter_modules(checks.__path__))
    rules = [importlib.import_module(f"{checks.__name__}.{name}").RULE for name in names]
    return {rule.id: rule for rule in rules}


RULES: Mapping[str, Rule] = _found()
"""Every rule by its id, in the order of the ids."""


def thresholds_for(overrides: Mapping[str, float]) -> Mapping[str, Thresholds]:
    """The numbers in force: every rule's defaults, with these overrides.

    Args:
        overrides: `RULE.NAME` -> value, in the threshold's own unit.

    Raises:
        ThresholdError: an unknown rule or threshold, or a value below 0 or not finite.
    """
    values = {rule.id: {each.name: each.default for each in rule.thresholds} for rule in RULES.values()}
    for key, value in overrides.items():
        rule, _, name = key.partition(".")
        if rule not in values:
            raise ThresholdError(f"unknown rule '{rule}' in '{key}': {_nearest(rule, values)}")
        if name not in values[rule]:
            raise ThresholdError(f"rule '{rule}' has no threshold '{name}': {_nearest(name, values[rule])}")
        if not math.isfinite(value) or value < 0:
            raise ThresholdError(f"threshold '{key}' cannot be {value:g}: expected a number of 0 or more")
        values[rule][name] = float(value)
    return {rule: Thresholds(values=numbers) for rule, numbers in values.items()}


def evaluate(quorum: Quorum, thresholds: Mapping[str, Thresholds], rules: Sequence[Rule] | None = None) -> Evaluation:
    """What every rule says of this quorum: the same input gives the same evaluation, in the same order.

    Args:
        quorum: what is known now.
        thresholds: by rule id, as `thresholds_for` gives them.
        rules: those to ask; None for all.
    """
    asked = tuple(RULES.values()) if rules is None else tuple(rules)
    said = {rule.id: _fenced(rule, quorum, thresholds[rule.id]) for rule in asked}
    standing = {verdict.rule for verdicts in said.values() for verdict in verdicts if isinstance(verdict, Finding)}
    verdicts = [verdict for rule in asked for verdict in _unsilenced(rule, said[rule.id], standing)]
    return Evaluation(
        findings=tuple(
            replace(each, remedy=with_legend(quorum, each.remedy)) for each in verdicts if isinstance(each, Finding)
        ),
        unknown=tuple(each for each in verdicts if isinstance(each, UnknownResult)),
        not_applicable=tuple(each for each in verdicts if isinstance(each, NotApplicable)),
    )


def _fenced(rule: Rule, quorum: Quorum, thresholds: Thresholds) -> tuple[RuleResult, ...]:
    try:
        return tuple(rule.evaluate(quorum, thresholds))
    except Exception as problem:  # noqa: BLE001 - a broken rule must not take the other rules with it
        error = f"{type(problem).__name__}: {problem}"
        return (
            Finding(
                rule=BLIND,
                subject=f"rule {rule.id}",
                severity=Severity.WARNING,
                summary=f"rule {rule.id} failed: {error}",
                evidence={"rule": rule.id, "error": error, "last_offset": quorum.last_offset},
                remedy=(f"# Report this as a fault of kraftwatch: until it is mended, rule {rule.id} sees nothing",),
            ),
            UnknownResult(rule=rule.id, subject=None, why=f"the rule failed: {error}"),
        )


def _unsilenced(rule: Rule, verdicts: Iterable[RuleResult], standing: set[str]) -> Iterable[RuleResult]:
    causes = [cause for cause in rule.inhibited_by if cause in standing]
    if not causes:
        return verdicts
    # What a failed rule says of itself is no consequence of anything.
    kept = [verdict for verdict in verdicts if not (isinstance(verdict, Finding) and verdict.rule == rule.id)]
    return [*kept, UnknownResult(rule=rule.id, subject=None, why=f"{causes[0]} stands, which would explain it")]


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else f"there are {', '.join(names)}"
