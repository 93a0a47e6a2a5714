"""Measures a backlog on a standalone cluster of Spark: 1, 2 and 4 executors, each a Java process with one core.

`python -m tests.bench.executors_bench [--executors 1,2,4] [--clusters 100] [--seconds 95]`. The rows are those of a
real quorum (`backlog_rows`), written beforehand for each cluster. The executors run on this machine: with fewer cores
than executors, compare the CPU time and how evenly it is shared, not the speed. Asserts nothing.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from deploy.lab.lab import Lab
from rules.model.monitoring import Vantage
from streaming.config.root import PipelineSection
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.query import Query
from streaming.pipeline.spark_session import start_spark
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.status_store import StatusStore
from tests.bench.backlog_rows import backlog, recorded_rows
from tests.bench.cluster_second_bench import cluster_names
from tests.bench.idle_bench import cpu_s
from tests.bench.percentiles import percentiles
from tests.job.spark_cluster import standalone_cluster

EXECUTORS = (1, 2, 4)
_WARM_UP_BATCHES = 3
_DRAINED_S = 300.0
_COMMITS_EVERY_S = 0.05


def figures(executors: Sequence[int] = EXECUTORS, clusters: int = 100, seconds: int = 95) -> dict[str, Any]:
    """Returns figures by number of executors."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Lab(folder / "lab", brokers=0) as lab:
            recorded = recorded_rows(lab, folder / "gather")
            cluster_id = lab.cluster_id
        rows = list(backlog(recorded, seconds))
        found = {
            str(count): _drain(folder / str(count), rows, clusters=clusters, executors=count, cluster_id=cluster_id)
            for count in executors
        }
    return {"clusters": clusters, "seconds": seconds, "rows": clusters * len(rows), "cores": psutil.cpu_count()} | {
        "executors": found
    }


def _drain(
    folder: Path, rows: Sequence[Observation], *, clusters: int, executors: int, cluster_id: str
) -> dict[str, Any]:
    """Returns what the backlog costs after the first batches, in which the executors start."""
    folder.mkdir()
    checkpoint = Checkpoint(folder=folder / "checkpoint")
    names = cluster_names(clusters)
    with JournalWriter(checkpoint.journal) as journal:
        for row in rows:
            journal.append([replace(row, cluster=name) for name in names])
        end = journal.publish()
    settings = ClusterSettings(name="prod", cluster_id=cluster_id, bootstrap=("c:1",), vantage=Vantage.INSIDE)
    partitions = PipelineSection(partitions=executors).spark_settings()
    with (
        standalone_cluster(folder / "spark", workers=executors) as master,
        closing(Ledger(checkpoint.ledger)) as ledger,
    ):
        deliver = Deliver(
            Dispatcher(ledger, []),
            quarantine_of(job_database(checkpoint.folder)),
            store=StatusStore(names),
            request_poll=lambda *_: None,
        )
        memory = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
        spark = start_spark(master=master, logs=checkpoint.logs, settings={**partitions, **memory})
        query = Query(spark, checkpoint, deliver)
        query.start(Step({name: replace(settings, name=name) for name in names}, spark_folder=checkpoint.spark))
        try:
            return _follow(checkpoint, folder / "spark", end, clusters * _seconds(rows) / end)
        finally:
            query.stop()
            spark.stop()


def _follow(checkpoint: Checkpoint, cluster: Path, end: int, cluster_seconds_per_row: float) -> dict[str, Any]:
    """Waits until the backlog is drained; returns CPU times and durations of the batches after the warm-up."""
    warm = _await_batch(checkpoint, _WARM_UP_BATCHES)
    before, own_before, began = _executors_cpu(cluster), _driver_cpu(cluster), time.monotonic()
    commits = [began]
    number, reached = warm
    first = reached
    while reached < end:
        number, reached = _await_batch(checkpoint, number + 1)
        commits.append(time.monotonic())
    after, own = _executors_cpu(cluster), _driver_cpu(cluster) - own_before
    spent = sorted(after[pid] - before.get(pid, 0.0) for pid in after)
    cluster_seconds = (end - first) * cluster_seconds_per_row
    return {
        "partitions": len(list((checkpoint.spark / "state" / "0").glob("[0-9]*"))),
        "batches": len(commits) - 1,
        "clusters_per_core": round(cluster_seconds / sum(spent)),
        "executors_cpu_ms": round(1_000 * sum(spent) / cluster_seconds, 3),
        "driver_cpu_ms": round(1_000 * own / cluster_seconds, 3),
        "cpu_share_percent": [round(100 * each / sum(spent)) for each in spent],
        "cluster_seconds_per_second": round(cluster_seconds / (commits[-1] - began)),
        "batch_ms": percentiles([1_000 * (after - before) for before, after in pairwise(commits)]),
    }


def _await_batch(checkpoint: Checkpoint, number: int) -> tuple[int, int]:
    """Waits until a batch of at least this number is committed; returns it and the sequence after its last row."""
    deadline = time.monotonic() + _DRAINED_S
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            commits = [path.name for path in (checkpoint.spark / "commits").iterdir() if path.name.isdigit()]
            newest = max(map(int, commits), default=-1)
            if newest >= number:
                offsets = (checkpoint.spark / "offsets" / str(newest)).read_text().splitlines()
                return newest, int(json.loads(offsets[2])["sequence"])
        time.sleep(_COMMITS_EVERY_S)
    raise AssertionError(f"batch {number} was not committed within {_DRAINED_S:.0f} s")


def _executors_cpu(cluster: Path) -> dict[int, float]:
    """Returns the CPU seconds of each executor with its Python workers, by process id."""
    found: dict[int, float] = {}
    for process in psutil.process_iter(["cwd", "cmdline"]):
        if Path(process.info["cwd"] or "/").is_relative_to(cluster) and any(
            "CoarseGrainedExecutorBackend" in part for part in process.info["cmdline"] or ()
        ):
            found[process.pid] = _family_cpu(process)
    return found


def _driver_cpu(cluster: Path) -> float:
    """Returns the CPU seconds of this process, its Java and the planner."""
    own = psutil.Process()
    return sum(_family_cpu(each) for each in own.children() if not _is_in(each, cluster)) + cpu_s(own)


def _is_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return Path(process.cwd()).is_relative_to(folder)
    except psutil.Error:
        return True


def _family_cpu(process: psutil.Process) -> float:
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system
    return total


def _seconds(rows: Sequence[Observation]) -> float:
    return (rows[-1].observed_at_ms - rows[0].observed_at_ms) / 1_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the figures as JSON."""
    parser = argparse.ArgumentParser(description="A backlog on a standalone cluster of Spark.")
    parser.add_argument("--executors", default=",".join(map(str, EXECUTORS)))
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=95)
    options = parser.parse_args(arguments)
    found = figures(tuple(map(int, options.executors.split(","))), options.clusters, options.seconds)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
