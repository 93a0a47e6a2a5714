"""What an idle job costs is one figure everywhere: the measured one of docs/performance.md, rounded.

The measurement varies from run to run, so the figure must be near the measured one, and the same in every place.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IDLE = json.loads((ROOT / "docs" / "performance.json").read_text())["idle"]["figures"]
MEASURED = {"docs/performance.md", "docs/scale.md"}
"""Tables of measurements, each with its own conditions."""
PLACES = [
    path
    for pattern in ("README.md", "docs/*.md", "deploy/**/*.yaml", "deploy/Dockerfile", "deploy/systemd/*")
    for path in sorted(ROOT.glob(pattern))
    if str(path.relative_to(ROOT)) not in MEASURED
]
_CPU = re.compile(r"(\d+(?:\.\d+)?) %\s+(?:#\s+)?of\s+(?:a|one)\s+core")
_MEMORY = re.compile(r"(\d+\.\d)\s+GB(?!\s+more)")
"""`0.5 GB more` is what something else adds."""


@pytest.mark.parametrize(
    ("pattern", "measured", "near"),
    [(_CPU, IDLE["cpu_percent"], 3.0), (_MEMORY, IDLE["memory_mb"] / 1000, 0.15)],
    ids=["CPU", "memory"],
)
def test_cost_of_the_idle_job_is_one_figure_everywhere(pattern: re.Pattern[str], measured: float, near: float) -> None:
    found = [
        (str(path.relative_to(ROOT)), float(each)) for path in PLACES for each in pattern.findall(path.read_text())
    ]
    files, figures = {file for file, _ in found}, {figure for _, figure in found}

    assert {"README.md", "docs/operations.md"} <= files
    assert len(figures) == 1, found
    assert abs(figures.pop() - measured) <= near, "measured again: correct the figure in each of these places"
