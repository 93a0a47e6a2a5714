"""The configured overrides of rules: another severity, or not evaluated at all."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rules.finding import Severity, Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOverride:
    """How the configuration changes one rule on one cluster, apart from its thresholds."""

    severity: Severity | None = None
    """The severity of all findings of the rule; None: as the rule gives it."""
    enabled: bool = True
    """False: the rule is not evaluated, and has no findings."""


def with_overrides(
    thresholds: Mapping[str, Thresholds], overrides: Mapping[str, RuleOverride]
) -> Mapping[str, Thresholds]:
    """Returns the thresholds by rule id with the overrides of these rules."""
    return {
        rule: replace(each, severity=overrides[rule].severity, enabled=overrides[rule].enabled)
        if rule in overrides
        else each
        for rule, each in thresholds.items()
    }
