"""Percentiles of measured values, as plain figures."""

import math
from collections.abc import Sequence


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Returns median, 95th and 99th percentile, maximum and mean, by the nearest rank; empty without values."""
    if not values:
        return {}
    ordered = sorted(values)

    def rank(share: float) -> float:
        return round(ordered[math.ceil(len(ordered) * share) - 1], 2)

    return {
        "p50": rank(0.5),
        "p95": rank(0.95),
        "p99": rank(0.99),
        "max": rank(1.0),
        "mean": round(sum(ordered) / len(ordered), 2),
    }


def distribution(values: Sequence[float]) -> list[float]:
    """Returns the value at each fiftieth of the ordered values, the smallest first: 51 values."""
    ordered = sorted(values)
    return [round(ordered[round((len(ordered) - 1) * part / 50)], 1) for part in range(51)]
