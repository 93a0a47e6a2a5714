"""What a job costs: CPU and memory of its processes, micro-batches, and percentiles of what was measured."""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from streaming.demo.job_process import JobProcess
from tests.job.spark_cluster import executor_processes

ROLES = {
    "connectors.gather": "gatherer",
    "org.apache.spark.deploy": "Spark's JVM",
    "python_streaming_source_runner": "planner",
    "foreach_batch_worker": "foreachBatch worker",
    "pyspark.daemon": "Python worker",
}
"""A part of the command line of each process, and what it is called."""


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Returns median, 95th and 99th percentile and maximum, by the nearest rank; empty without values."""
    ordered = sorted(values)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[math.ceil(len(ordered) * share) - 1], 1) for name, share in shares.items() if ordered}


def cpu_s(process: psutil.Process) -> float:
    """Returns the CPU seconds so far, including ended children: Spark forks chmod for each file."""
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def newest_batch(job: JobProcess) -> int:
    """Returns the number of the newest committed micro-batch; -1: none is committed."""
    commits = (job.checkpoint / "spark" / "commits").glob("[0-9]*")
    return max((int(path.name) for path in commits if path.name.isdigit()), default=-1)


def processes_of(pid: int, roles: Mapping[str, str] = ROLES) -> Mapping[psutil.Process, str]:
    """Returns the processes of the job with this driver, each with its role."""
    driver = psutil.Process(pid)
    found = {driver: "driver"}
    for process in driver.children(recursive=True):
        # Spark forks short-lived children all the time: their time is the parent's once they have ended.
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if time.time() - process.create_time() > 1:
                line = " ".join(process.cmdline())
                found[process] = next((role for part, role in roles.items() if part in line), line[:40])
    return found


@dataclass(slots=True)
class JobCost:
    """The cost of a job from its creation until `end`."""

    job: JobProcess
    workers: Path | None = None
    """The folder of a standalone Spark cluster whose executors count too."""
    _cpu_s: dict[psutil.Process, float] = field(init=False)
    _batch: int = field(init=False)
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._cpu_s = {process: cpu_s(process) for process in self._processes()}
        self._batch = newest_batch(self.job)

    def _processes(self) -> Mapping[psutil.Process, str]:
        found = dict(processes_of(self.job.pid))
        if self.workers is not None and self.workers.exists():
            for executor in executor_processes(self.workers):
                found |= {**processes_of(executor.pid), executor: "executors' JVM"}
        return found

    def end(self) -> dict[str, Any]:
        """Returns CPU in percent of a core, memory in MB, micro-batches a second, and both costs by role.

        Memory is the proportional set size: a page that n processes share counts 1/n for each.
        """
        seconds = time.monotonic() - self._began
        roles: dict[str, list[float]] = {}
        for process, role in self._processes().items():
            with suppress(psutil.NoSuchProcess):
                spent = cpu_s(process) - self._cpu_s.get(process, 0.0)
                cost = roles.setdefault(role, [0.0, 0.0])
                cost[0] += 100 * spent / seconds
                cost[1] += process.memory_full_info().pss / 1e6
        cpu, memory = (sum(cost[of] for cost in roles.values()) for of in (0, 1))
        return {
            "cpu_percent": round(cpu, 2),
            "memory_mb": round(memory),
            "batches_per_s": round((newest_batch(self.job) - self._batch) / seconds, 2),
            **{role: f"{cost[0]:.1f} %, {cost[1]:.0f} MB" for role, cost in sorted(roles.items())},
        }
