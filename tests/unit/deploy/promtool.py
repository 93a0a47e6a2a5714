"""promtool, and which metrics and labels an expression may name."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streaming.metrics.batch_stats import BATCH_DURATION
from streaming.metrics.job_metrics import CLUSTER_METRICS, OWN_METRICS
from streaming.metrics.metric_spec import MetricSpec

_METRIC = re.compile(r"\bkraftwatch_\w+")


_SELECTOR = re.compile(r"(kraftwatch_\w+)\{(.*?)\}")


def labels_by_metric() -> dict[str, set[str]]:
    """Every metric with its labels, including those that Prometheus adds."""
    specs: list[MetricSpec[Any]] = [*OWN_METRICS]
    labels = {one.full_name: set(one.labels) for one in specs}
    labels |= {one.full_name: {"cluster", *one.labels} for one in CLUSTER_METRICS}
    labels |= {f"{BATCH_DURATION}_bucket": {"le"}, f"{BATCH_DURATION}_count": set(), f"{BATCH_DURATION}_sum": set()}
    return {name: {*each, "instance", "job"} for name, each in labels.items()}


def unknown(expression: str) -> Iterator[str]:
    """The metrics and labels of an expression that do not exist."""
    known = labels_by_metric()
    for name in _METRIC.findall(expression):
        if name not in known:
            yield name
    for name, selector in _SELECTOR.findall(expression):
        yield from (label for label in re.findall(r"(\w+)\s*[=!]", selector) if label not in known.get(name, set()))


def promtool(folder: Path, *arguments: str) -> str:
    """Runs promtool, which must find nothing wrong; returns its output."""
    ran = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
