"""The understudy: what it costs the job while Spark's Java is suspended, with quiet clusters of the farm."""

import time
from contextlib import ExitStack
from typing import Any

from tests.bench.clusters_bench import WARM_UP_S_PER_CLUSTER, started
from tests.bench.job_cost import JobCost
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob
from tests.job.job_processes import assert_counts, is_java, processes

CLUSTERS = (250, 1_000)
MEASURED_S = 60.0
CATCHES_UP_S = 60.0
"""It begins with the newest states of the journal, of up to ten minutes before."""


def figures() -> dict[str, Any]:
    """Returns CPU in percent of a core and memory in MB of the driver, by the number of clusters and who counts."""
    return {f"{clusters} clusters": _figures(clusters) for clusters in CLUSTERS}


def _figures(clusters: int) -> dict[str, Any]:
    with ExitStack() as stack:
        _, job = started(stack, clusters, sinks=[])
        eventually(lambda: assert_counts(job, "spark"), within_s=300, every_s=1)
        time.sleep(WARM_UP_S_PER_CLUSTER * clusters)
        before = _driver(job)
        (java,) = processes(job, is_java)
        java.suspend()
        try:
            eventually(lambda: assert_counts(job, "understudy"), within_s=180, every_s=1)
            time.sleep(CATCHES_UP_S)
            return {
                "driver while spark counts": before,
                "driver while the understudy counts": _driver(job),
                "alerts": ", ".join(sorted({one.rule for one in job.firing()})) or "none",
            }
        finally:
            java.resume()


def _driver(job: ConfiguredJob) -> str:
    cost = JobCost(job)
    time.sleep(MEASURED_S)
    return str(cost.end()["driver"])
