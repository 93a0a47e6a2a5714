"""Every rule's numbers, the configuration's laid over the defaults."""

from collections.abc import Mapping

from connectors.errors import UsageError
from rules.evaluate import thresholds_for
from rules.finding import Thresholds


def flattened(thresholds: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """RULE: {NAME: VALUE} as RULE.NAME -> value."""
    return {f"{rule}.{name}": value for rule, values in thresholds.items() for name, value in values.items()}


def in_force(overrides: Mapping[str, float]) -> Mapping[str, Thresholds]:
    """Every rule's numbers, these (RULE.NAME -> value) laid over the defaults.

    Raises:
        UsageError: no rule knows one of them, or it cannot be.
    """
    try:
        return thresholds_for(overrides)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
