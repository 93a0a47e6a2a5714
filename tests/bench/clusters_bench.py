"""250 clusters in one job: gatherer, Spark and sinks against a farm of clusters (`farm`).

Brokers are fenced, and unfenced in the next round, three times a second in one cluster after the other, without a
hold: the age of a change is from the command to write its record until its alert is in the file of a jsonl sink.
"""

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from tests.bench.job_cost import JobCost, cpu_s, percentiles
from tests.farm.farm import address
from tests.farm.farm_answers import NODES
from tests.farm.farm_process import Change, FarmProcess, cluster_name, running_farm
from tests.job.configured_job import ConfiguredJob
from tests.sinks.server import serving

CLUSTERS = 250
SECONDS = 60.0
CHANGES_PER_S = 3.0
_WARM_UP_S, WARM_UP_S_PER_CLUSTER = 20.0, 0.2
_DELIVERY_S = 15.0
RULE = "broker-fenced"
AT_ONCE = {RULE: {"hold": 0}}
"""The thresholds of the job. With a clear time below ten seconds its quiet rows would be evaluated more often."""


def figures(clusters: int = CLUSTERS) -> dict[str, Any]:
    """Returns the age of changes at their alert in ms, the cost of the job, and of the farm in percent of a core."""
    with ExitStack() as stack:
        url = stack.enter_context(serving()).url
        farm, job = started(stack, clusters, sinks=[{"webhook": {"url": url}}])
        time.sleep(_WARM_UP_S + WARM_UP_S_PER_CLUSTER * clusters)
        farm_process = psutil.Process(farm.process.pid)
        cost, farm_s = JobCost(job), cpu_s(farm_process)
        changes = changed(farm, clusters, SECONDS)
        measured = cost.end()
        farm_s = cpu_s(farm_process) - farm_s
        found = ages(job, changes)
    return {"clusters": clusters, **found, **measured, "farm_cpu_percent": round(100 * farm_s / SECONDS, 1)}


def started(
    stack: ExitStack, clusters: int, *, sinks: Sequence[Any], thresholds: Mapping[str, Any] | None = None, **keys: Any
) -> tuple[FarmProcess, ConfiguredJob]:
    """Starts the farm, and a job that monitors its clusters with holds at zero; `keys`: further ones of its file."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kraftwatch-farm-")))
    farm = stack.enter_context(running_farm(clusters))
    job = ConfiguredJob(folder=folder / "watch", bootstrap=())
    job.write_config(
        clusters=farm_sections(farm, clusters),
        sinks=[f"jsonl:{job.jsonl}", *sinks],
        thresholds={**AT_ONCE, **(thresholds or {})},
        **keys,
    )
    stack.enter_context(job)
    return farm, job


def farm_sections(farm: FarmProcess, clusters: int) -> list[dict[str, Any]]:
    """Returns the sections of the farm's clusters in a configuration."""
    return [
        {"name": cluster_name(number), "bootstrap": [f"{address(number, node)}:{farm.port}" for node in NODES]}
        for number in range(clusters)
    ]


def changed(farm: FarmProcess, clusters: int, seconds: float, *, copies: int = 1) -> Sequence[Change]:
    """Fences and unfences brokers for so long, in one cluster after the other; a change is that of all copies."""
    began, changes = time.monotonic(), list[Change]()
    for number in range(math.ceil(seconds * CHANGES_PER_S / copies)):
        due = began + number * copies / CHANGES_PER_S
        time.sleep(max(0.0, due - time.monotonic()))
        first = number % clusters
        _, state, at = farm.change(first)
        changes += [(cluster_name(first + clusters * copy), state, at) for copy in range(copies)]
    return changes


def ages(job: ConfiguredJob, changes: Sequence[Change]) -> dict[str, Any]:
    """Waits for the last alerts; returns the age of changes at their alert, and the number of alerts of other rules."""
    time.sleep(_DELIVERY_S)
    sent = [(each.rule, (each.line["cluster"], each.state, each.sent_at)) for each in job.alerts()]
    found, others = ages_ms(changes, sent)
    return {
        "changes": len(changes),
        "without_alert": len(changes) - len(found),
        "age_ms": percentiles(found),
        "other_alerts": others,
    }


def ages_ms(changes: Sequence[Change], sent: Sequence[tuple[str, Change]]) -> tuple[list[float], int]:
    """Returns the age of each change when its alert was sent, and the number of alerts of other rules."""
    times: dict[tuple[str, str], list[float]] = {}
    for rule, (cluster, state, at) in sent:
        if rule == RULE:
            times.setdefault((cluster, state), []).append(at)
    first = [next((at for at in times.get((name, state), ()) if at >= began), None) for name, state, began in changes]
    ages = [1_000 * (at - began) for at, (_, _, began) in zip(first, changes, strict=True) if at is not None]
    return ages, sum(rule != RULE for rule, _ in sent)
