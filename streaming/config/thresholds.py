"""The thresholds of all rules: the defaults with the configured overrides."""

from collections.abc import Mapping

from connectors.errors import UsageError
from connectors.settings import has_unit
from rules.evaluate import RULES, thresholds_for
from rules.finding import Thresholds


def check_unit(rule: str, name: str, value: object) -> None:
    """Checks that a threshold given with a unit of time, such as `5m`, is a duration.

    Raises:
        ValueError: the threshold is a number of something else.
    """
    threshold = next((each for each in RULES[rule].thresholds if each.name == name), None) if rule in RULES else None
    if threshold is not None and threshold.unit != "s" and has_unit(value):
        raise ValueError(f"invalid value '{value}' for {rule}.{name}: expected a number of {threshold.unit}")


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
