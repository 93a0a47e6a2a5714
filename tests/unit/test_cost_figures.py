"""What an idle job costs is one figure everywhere: the measured one of docs/performance.md, rounded.

The measurement varies from run to run, so the figure must be near the measured one, and the same in every place.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def resources() -> dict[str, dict[str, Any]]:
    """Returns the resources that each deployment for Kubernetes reserves for one job."""
    values = yaml.safe_load((ROOT / "deploy" / "helm" / "kraftwatch" / "values.yaml").read_text())
    manifests = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "kraftwatch.yaml").read_text())
    (workload,) = (one for one in manifests if one["kind"] == "StatefulSet")
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return {"chart": values["resources"], "manifest": container["resources"]}


def test_deployments_reserve_the_same_and_what_was_measured() -> None:
    of_chart, of_manifest = resources().values()
    memory_mib, cpu_m = of_chart["requests"]["memory"], of_chart["requests"]["cpu"]

    assert of_chart == of_manifest
    assert memory_mib.endswith("Mi")
    assert int(memory_mib[:-2]) * 1.048576 >= IDLE["memory_mb"]
    assert cpu_m.endswith("m")
    assert int(cpu_m[:-1]) >= 10 * IDLE["cpu_percent"]


def test_memory_limit_is_what_the_operations_page_says_to_plan() -> None:
    (planned,) = re.findall(r"Plan (\d+) GB\. A cluster", (ROOT / "docs" / "operations.md").read_text())
    (service,) = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"].values()
    unit = (ROOT / "deploy" / "systemd" / "kraftwatch.service").read_text()

    assert {each["limits"]["memory"] for each in resources().values()} == {f"{planned}Gi"}
    assert service["mem_limit"] == f"{planned}g"
    assert f"\nMemoryHigh={planned}G\n" in unit
