"""The configuration of the rules: another severity for the findings of one, or off; and all thresholds."""

from collections.abc import Mapping

from connectors.errors import UsageError
from connectors.settings import Section, is_number, shown
from rules.evaluate import RULES, RuleOverride, thresholds_for
from rules.finding import Severity, Thresholds


class RuleSection(Section):
    """How one rule is changed."""

    severity: Severity | None = None
    """The severity of every finding of the rule: `critical`, `warning` or `info`; default: as the rule gives it."""
    enabled: bool | None = None
    """`false`: the rule is not evaluated, and its alerts that are firing resolve; default: `true`."""


def overrides_in_force(common: Mapping[str, RuleSection], own: Mapping[str, RuleSection]) -> Mapping[str, RuleOverride]:
    """Returns the overrides of one cluster by rule id; each key of the cluster's own ones wins."""
    found: dict[str, RuleOverride] = {}
    for rule in [*common, *(each for each in own if each not in common)]:
        sections = [section for section in (own.get(rule), common.get(rule)) if section is not None]
        severity = next((each.severity for each in sections if each.severity is not None), None)
        enabled = next((each.enabled for each in sections if each.enabled is not None), True)
        found[rule] = RuleOverride(severity=severity, enabled=enabled)
    return found


def invalid_count(rule: str, name: str, value: object) -> str | None:
    """Returns what is wrong with the value of a threshold that is no duration; None if it is a number."""
    threshold = next((each for each in RULES[rule].thresholds if each.name == name), None) if rule in RULES else None
    if threshold is None or threshold.unit == "s" or is_number(value):
        return None
    return f"{shown(value)}: expected a number of {threshold.unit}"


def flattened(thresholds: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Returns RULE: {NAME: VALUE} as RULE.NAME -> value."""
    return {f"{rule}.{name}": value for rule, values in thresholds.items() for name, value in values.items()}


def in_force(overrides: Mapping[str, float]) -> Mapping[str, Thresholds]:
    """Returns all thresholds by rule id: the defaults with these overrides (RULE.NAME -> value).

    Raises:
        UsageError: an unknown rule or threshold, or an invalid value.
    """
    try:
        return thresholds_for(overrides)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
