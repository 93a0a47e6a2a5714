"""Measures one cluster with a million partitions: a real controller, the real job, and a small cluster for comparison.

`python -m tests.bench.million_bench [--partitions 1000000] [--seconds 40]`. Each cluster has one controller, which is
restarted on a snapshot that Kafka's classes have written, and 10 changes of partitions a second. The small cluster has
10,000 partitions and is measured first. Prints numbers and asserts nothing.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console

from connectors.journal.reader import JournalReader
from connectors.observation import ObservationKind
from streaming.demo.job_process import JobProcess
from tests.bench.idle_bench import cpu_s, newest_batch
from tests.eventually import eventually
from tests.job.job_state import cluster_status, scrape
from tests.kafka.large_quorum import LargeQuorum

CHANGES_PER_S = 10.0
PARTITIONS_PER_TOPIC = 10
SMALL = 10_000
_WARM_UP_S = 15.0
_VERDICT_S = 120.0
_SAMPLE_S = 2.0
_DURATION = "batch_duration_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsCost:
    """What one cluster with 10 changes a second costs. CPU is that of all of the job's processes."""

    partitions: int
    snapshot_bytes: int
    start_to_verdict_s: float
    """From the start of the job to the first status with the recovering partitions of the snapshot."""
    fetch_to_verdict_s: float
    """From the first piece of the snapshot in the journal to that status."""
    peak_memory_mb: float
    """Largest sum of the proportional set sizes of the job's processes until the measurement."""
    memory_mb: float
    batches_per_s: float
    changes_per_s: float
    batch_ms: float
    """Mean time in which Spark ran a micro-batch."""
    batch_cpu_ms: float
    cpu_share: float
    """Of one core."""
    state_bytes_per_batch: float
    """Median size of a file with the changes of the state."""


def figures(partitions: int = 1_000_000, seconds: float = 40.0) -> dict[str, dict[str, float]]:
    """Returns the costs of a small cluster and of a large one, by `small` and `large`."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-million-", ignore_cleanup_errors=True) as folder:
        return {
            name: asdict(measure(Path(folder) / name, count, seconds))
            for name, count in {"small": SMALL, "large": partitions}.items()
        }


def measure(folder: Path, partitions: int, seconds: float) -> PartitionsCost:
    """Starts a controller and a job, and measures both phases."""
    with LargeQuorum(folder / "lab") as quorum:
        quorum.load(partitions // PARTITIONS_PER_TOPIC, PARTITIONS_PER_TOPIC)
        (snapshot,) = quorum.node(1).metadata_log.glob("*.checkpoint")
        job = JobProcess(folder=folder / "job", bootstrap=quorum.bootstrap)
        began = time.time()
        with MemorySamples(job) as memory, job:
            verdict = await_verdict(job, quorum)
            first = first_snapshot_piece_s(job)
            with quorum.changing(CHANGES_PER_S) as changes:
                time.sleep(_WARM_UP_S)
                peak = memory.largest_mb
                cost = _Window(job)
                done = changes.done
                time.sleep(seconds)
                took_s, batches, cpu, batch_s, sizes = cost.end()
                done = changes.done - done
            return PartitionsCost(
                partitions=quorum.counts.partitions,
                snapshot_bytes=snapshot.stat().st_size,
                start_to_verdict_s=verdict - began,
                fetch_to_verdict_s=verdict - first,
                peak_memory_mb=peak,
                memory_mb=memory.newest_mb,
                batches_per_s=batches / took_s,
                changes_per_s=done / took_s,
                batch_ms=1000 * batch_s / batches,
                batch_cpu_ms=1000 * cpu / batches,
                cpu_share=cpu / took_s,
                state_bytes_per_batch=median(sizes),
            )


def await_verdict(job: JobProcess, quorum: LargeQuorum) -> float:
    """Waits for a status that holds the whole snapshot; returns the time of its delivery, in seconds."""

    def complete() -> float:
        status = cluster_status(job)
        assert status.get("recovering_partitions") == quorum.counts.recovering, status.get("recovering_partitions")
        # The brokers are registered and send no Fetch: what depends on that stays unknown.
        unknown = {one["rule"] for one in status["cannot_tell"]} - {"observer-lagging"}
        assert (status["leader_id"], status["electable"], unknown) == (quorum.controllers[0], True, set())
        return time.time()

    return eventually(complete, within_s=_VERDICT_S, every_s=0.2)


def first_snapshot_piece_s(job: JobProcess) -> float:
    """Returns when the first piece of a snapshot was recorded, in seconds."""
    journal = JournalReader(job.checkpoint / "journal")
    rows = journal.read(journal.first_sequence(), journal.published_end())
    return next(row.observed_at_ms / 1000 for row in rows if row.kind is ObservationKind.SNAPSHOT)


class MemorySamples:
    """The proportional set sizes of a job's processes while entered, every two seconds."""

    def __init__(self, job: JobProcess) -> None:
        self.largest_mb = self.newest_mb = 0.0
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
            with suppress(psutil.NoSuchProcess, AssertionError):
                self.newest_mb = memory_mb(self._job)
                self.largest_mb = max(self.largest_mb, self.newest_mb)


def memory_mb(job: JobProcess) -> float:
    """Returns the sum of the proportional set sizes of a job's processes."""
    total = 0.0
    for process in _processes(job):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += process.memory_full_info().pss / 1e6
    return total


def _processes(job: JobProcess) -> Sequence[psutil.Process]:
    parent = psutil.Process(job.pid)
    return [parent, *parent.children(recursive=True)]


class _Window:
    """Counts between its creation and `end`."""

    def __init__(self, job: JobProcess) -> None:
        self._job = job
        self._before = self._read()

    def _read(self) -> tuple[float, int, float, float]:
        cpu = 0.0
        for process in _processes(self._job):
            with suppress(psutil.NoSuchProcess):
                # Spark forks short-lived children all the time: their time is the parent's once they have ended.
                if time.time() - process.create_time() > 1:
                    cpu += cpu_s(process)
        spent = sum(value for (name, _), value in scrape(self._job).items() if name == f"{_DURATION}_sum")
        return time.monotonic(), newest_batch(self._job), cpu, spent

    def end(self) -> tuple[float, int, float, float, list[int]]:
        """Returns seconds, batches, CPU seconds, seconds in batches, and the sizes of the state's changes in bytes."""
        now = self._read()
        first, last = self._before[1], now[1]
        files = (self._job.checkpoint / "spark" / "state" / "0" / "0").glob("*.changelog")
        sizes = [path.stat().st_size for path in files if first < int(path.stem.split("_")[0]) <= last]
        seconds, batches, cpu, spent = (after - before for before, after in zip(self._before, now, strict=True))
        return seconds, int(batches), cpu, spent, sizes


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the figures."""
    parser = argparse.ArgumentParser(description="The cost of a cluster with a million partitions.")
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    console.print(f"{psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f}")
    console.print(json.dumps(figures(options.partitions, options.seconds), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
