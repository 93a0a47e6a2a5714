"""`python -m tests.bench.section_figures NAME FILE`: measures one section and writes its figures as JSON.

Each section runs in a process of its own, so that none inherits the Spark session or the memory of another.
"""

import importlib
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.measured_sections import SECTIONS, medians

JOBS_CLUSTERS = (1, 10, 100, 1_000)


def jobs(seconds: float = 15.0) -> dict[str, Any]:
    """Returns what the whole job costs, by number of clusters."""
    measure = importlib.import_module("tests.bench.fleet_job_bench").measure
    return {str(clusters): measure(clusters, seconds) for clusters in JOBS_CLUSTERS}


def rounded(value: Any) -> Any:
    """Returns figures with numbers of at most four significant digits; None for those that are not finite."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value


def main(name: str, path: str) -> int:
    """Measures; the median over several runs where the section says so."""
    (section,) = (each for each in SECTIONS if each.name == name)
    module, _, function = section.function.partition(":")
    measure: Callable[..., Any] = getattr(importlib.import_module(f"tests.bench.{module}"), function)
    runs = [measure(**section.arguments or {}) for _ in range(section.runs)]
    Path(path).write_text(json.dumps(rounded(medians(runs))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
