"""The configuration of one rule: another severity for its findings, or off. Thresholds are a key of their own."""

from collections.abc import Mapping

from connectors.settings import Section
from rules.finding import Severity
from rules.rule_overrides import RuleOverride


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
