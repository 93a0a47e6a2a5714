"""The sections of docs/performance.md: how each is measured, and docs/performance.json, which holds the figures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "performance.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSection:
    """One section."""

    name: str
    """Its name in `make bench ONLY=NAME`."""
    function: str
    """MODULE:FUNCTION below `tests.bench`: returns figures as plain values."""
    limit_s: float
    """After so many seconds the measurement is ended: several times what it takes on a quiet machine."""
    runs: int = 1
    """Figures are the medians over so many runs."""
    arguments: Mapping[str, Any] | None = None
    """Keyword arguments of the function."""

    @property
    def command(self) -> str:
        """The command that measures this section alone."""
        return f"make bench ONLY={self.name}"


SECTIONS: Sequence[BenchSection] = (
    BenchSection(name="latency", function="latency_bench:figures", limit_s=900),
    BenchSection(name="idle", function="idle_bench:figures", limit_s=400),
    BenchSection(name="decode", function="decode_bench:figures", limit_s=900),
    BenchSection(name="metadata", function="partitions_bench:figures", limit_s=900),
    BenchSection(name="million", function="million_bench:figures", limit_s=900, arguments={"seconds": 20.0}),
    BenchSection(name="jobs", function="section_figures:jobs", limit_s=1200),
    BenchSection(name="executors", function="executors_bench:figures", limit_s=900),
    BenchSection(name="relay", function="relay_bench:figures", limit_s=600),
)


def read_figures() -> dict[str, Any]:
    """Returns what is stored, by section: `measured` (machine, commit, time, command) and `figures`."""
    stored: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    return stored


def store_section(name: str, measured: Mapping[str, Any], figures: Any) -> dict[str, Any]:
    """Replaces one section and returns all of them."""
    stored = read_figures() | {name: {"measured": dict(measured), "figures": figures}}
    ordered = {section.name: stored[section.name] for section in SECTIONS if section.name in stored}
    FIGURES.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    return ordered


def medians(runs: Sequence[Any]) -> Any:
    """Returns figures of the same structure as each run's: the median of each number."""
    first = runs[0]
    if isinstance(first, Mapping):
        return {key: medians([run[key] for run in runs if key in run]) for key in first}
    if isinstance(first, list):
        return [medians([run[at] for run in runs if at < len(run)]) for at in range(len(first))]
    if isinstance(first, int | float) and not isinstance(first, bool):
        return median(runs)
    return first
