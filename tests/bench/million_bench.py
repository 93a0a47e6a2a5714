"""Busy clusters: a real controller, the real job, and changes of partitions, 10 a second or more.

Each cluster has one controller, which is restarted on a snapshot that Kafka's classes have written. The small cluster
has 10,000 partitions, the large one a million.
"""

import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from streaming.demo.job_process import JobProcess
from tests.bench.job_cost import JobCost, cpu_s, newest_batch, processes_of
from tests.eventually import eventually
from tests.job.job_state import cluster_status
from tests.kafka.large_quorum import LargeQuorum

PARTITIONS_PER_TOPIC = 10
CASES = {
    "small": (10_000, 10.0),
    "50 a second": (10_000, 50.0),
    "200 a second": (10_000, 200.0),
    "large": (1_000_000, 10.0),
}
"""Partitions, and changes a second."""
MEASURED_S = 20.0
_WARM_UP_S = 60.0
"""So long Spark replays a million partitions after the driver had the verdict, and Java compiles what runs often."""
_VERDICT_S = 120.0
_SAMPLE_S = 2.0


def figures() -> dict[str, dict[str, Any]]:
    """Returns the cost of each of the cases."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-million-", ignore_cleanup_errors=True) as folder:
        return {name: measure(Path(folder) / name, *case) for name, case in CASES.items()}


def measure(folder: Path, partitions: int, changes_per_s: float) -> dict[str, Any]:
    """Starts a controller and a job; returns seconds to the status of the whole snapshot, memory, and batches."""
    with LargeQuorum(folder / "lab") as quorum:
        quorum.load(partitions // PARTITIONS_PER_TOPIC, PARTITIONS_PER_TOPIC)
        job = JobProcess(folder=folder / "job", bootstrap=quorum.bootstrap)
        began = time.time()
        with MemorySamples(job) as memory, job:
            verdict = await_verdict(job, quorum)
            start_cpu_s = cpu_by_role(job)
            with quorum.changing(changes_per_s) as changes:
                time.sleep(_WARM_UP_S)
                peak_mb, cost, first, done = memory.largest_mb, JobCost(job), newest_batch(job), changes.done
                time.sleep(MEASURED_S)
                measured = cost.end()
                done = changes.done - done
            files = (job.checkpoint / "spark" / "state" / "0" / "0").glob("*.changelog")
            written = [path.stat().st_size for path in files if int(path.stem.split("_")[0]) > first]
            return {
                "partitions": quorum.counts.partitions,
                "start_to_verdict_s": round(verdict - began, 1),
                "start_to_verdict_cpu_s": start_cpu_s,
                "peak_memory_mb": round(peak_mb),
                "changes_per_s": round(done / MEASURED_S, 1),
                "state_bytes_per_batch": median(written),
                **measured,
            }


def cpu_by_role(job: JobProcess) -> dict[str, float]:
    """Returns the CPU seconds of a job since its start, by role of its processes, and of all."""
    found: dict[str, float] = {}
    for process, role in processes_of(job.pid).items():
        with suppress(psutil.NoSuchProcess):
            found[role] = found.get(role, 0.0) + cpu_s(process)
    return {role: round(spent, 1) for role, spent in {**found, "all": sum(found.values())}.items()}


def await_verdict(job: JobProcess, quorum: LargeQuorum) -> float:
    """Waits for a status that holds the whole snapshot; returns the time of its delivery, in seconds."""

    def complete() -> float:
        status = cluster_status(job)
        assert status.get("recovering_partitions") == quorum.counts.recovering, status.get("recovering_partitions")
        # The brokers are registered and send no Fetch: what depends on that stays unknown.
        unknown = {one["rule"] for one in status["unknown"]} - {"observer-lagging"}
        assert (status["leader_id"], status["electable"], unknown) == (quorum.controllers[0], True, set())
        return time.time()

    return eventually(complete, within_s=_VERDICT_S, every_s=0.2)


class MemorySamples:
    """The proportional set sizes of a job's processes while entered, every two seconds."""

    def __init__(self, job: JobProcess) -> None:
        self.largest_mb = 0.0
        self._job = job
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "MemorySamples":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            # The job may not have started yet, or have ended.
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied, AssertionError):
                used_mb = sum(each.memory_full_info().pss / 1e6 for each in processes_of(self._job.pid))
                self.largest_mb = max(self.largest_mb, used_mb)
