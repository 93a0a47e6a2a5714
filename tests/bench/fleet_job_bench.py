"""Measures the whole job by number of clusters: gatherer, Spark and sinks against a farm of clusters (`fleet_farm`).

`python -m tests.bench.fleet_job_bench [--clusters 1,10,100,1000] [--seconds 20] [--real N]`. With 100 clusters or more,
one hangs, one answers with random bytes, ten elect leaders all the time and one begins with a snapshot of 8,000
partitions; the others are well-behaved. Brokers are fenced and unfenced all the time, with holds at zero: the age of a
change when its alert is in the file of a jsonl sink, beside a webhook. `--real N` measures N clusters of the farm, and
then N names of one real quorum (`real_fleet`). Prints numbers and asserts nothing; `measure` returns them.
"""

import argparse
import json
import math
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import yaml
from rich.console import Console
from rich.table import Table

from connectors.journal.reader import JournalReader
from streaming.demo.job_process import JobProcess
from tests.bench.batch_durations import BatchDurations
from tests.bench.fleet_bench import FarmProcess, faults_of, poll_times, running_farm
from tests.bench.fleet_changes import AlertArrivals, Change, accepting_webhook, make_changes
from tests.bench.idle_bench import cpu_s, process_role
from tests.bench.real_fleet import MOST_NAMES, RealFleet, real_fleet

SNAPSHOT = Path(__file__).parents[1] / "data" / "metadata" / "tiny.checkpoint.xz"
_MANY = 100
"""From so many clusters on, some are faulty."""
_FLAPPING = 10
_WARM_UP_S = 10.0
_WARM_UP_S_PER_CLUSTER = 0.045
_CATCH_UP_S = 60.0
"""How much longer the warm-up lasts at most: until the job has processed the rows of its start."""
_DELIVERY_S = 15.0
_REAL_CHANGE_S = 5.0
"""Between two changes of a real quorum, which change all names at once. Shorter than a broker's session."""
_SCAN_EVERY_S = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description="The cost of the whole job by fleet size.")
    parser.add_argument("--clusters", default="1,10,100,1000")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--partitions", type=int, default=1, help="pipeline.partitions")
    parser.add_argument("--snapshot", default=str(SNAPSHOT), help="a .checkpoint, which may be .xz")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--real", type=int, metavar="N", help="N clusters of the farm, and N names of a real quorum")
    options = parser.parse_args(arguments)
    if options.real is not None and options.real > MOST_NAMES:
        parser.error(f"--real {options.real}: one real quorum answers at most {MOST_NAMES} names")
    console = Console(highlight=False, width=150)
    sizes = [(int(each), False) for each in options.clusters.split(",")]
    if options.real is not None:
        sizes = [(options.real, False), (options.real, True)]
    measured = [
        measure(
            size,
            options.seconds,
            pipeline={"partitions": options.partitions},
            snapshot=options.snapshot,
            real=real,
        )
        for size, real in sizes
    ]
    if options.json:
        sys.stdout.write(json.dumps(measured, indent=2) + "\n")
        return 0
    console.print(f"{platform.machine()}, {psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f}")
    console.print(_table(measured))
    for each in measured:
        costs = ", ".join(f"{role} {core:.1%}" for role, core in each["core"].items())
        answering = "the controllers" if each["real"] else "the farm"
        console.print(f"{each['clusters']} clusters, of one core: {costs}; {answering} {each['farm_core']:.1%}")
        if each["others"]:
            found = ", ".join(f"{rule} {count}" for rule, count in each["others"].items())
            console.print(f"  firing in well-behaved clusters, which should be healthy: {found}")
    return 0


def measure(
    size: int,
    seconds: float,
    *,
    pipeline: Mapping[str, int] | None = None,
    snapshot: str | None = str(SNAPSHOT),
    real: bool = False,
) -> dict[str, Any]:
    """Runs farm, or a real quorum, and job; returns figures of the seconds after a warm-up.

    Keys: clusters, real, faulty, core and farm_core (shares of one core, by process; of a real quorum the controllers),
    memory_mb (proportional), batch_ms, poll_late_ms, age_ms (each p50, p99, max; of well-behaved clusters), changes,
    missing (without an alert), others (alerts of other rules that are firing in well-behaved clusters, by rule),
    backlog_rows (published and not processed at the end), load.
    """
    many = size >= _MANY
    faulty_options = argparse.Namespace(hang=many, lie=many, flap=_FLAPPING if many else 0, snapshot=many)
    faults = faults_of(size, faulty_options)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kraftwatch-fleet-")))
        farm: FarmProcess | RealFleet
        if real:
            farm = stack.enter_context(real_fleet(size))
        else:
            farm = stack.enter_context(running_farm(size, snapshot if many else None))
        arrivals = stack.enter_context(AlertArrivals(folder / "alerts.jsonl"))
        url = stack.enter_context(accepting_webhook())
        config = _write_config(folder, size, farm, url, pipeline or {})
        job = stack.enter_context(FleetJob(folder=folder / "watch", bootstrap=(), arguments=("--config", str(config))))
        for number, fault in faults.items():
            farm.command(f"{fault} {number}")
        healthy = [number for number in range(1 if many else 0, size) if number not in faults]
        time.sleep(_WARM_UP_S + _WARM_UP_S_PER_CLUSTER * size)
        journal = JournalReader(job.checkpoint / "journal")
        _wait_until(lambda: _backlog(journal) < 8 * size + 50, _CATCH_UP_S)
        before, farm_before, began = _cpu_by_role(job.pid), farm.stats(), time.monotonic()
        if real:
            # It was registered fenced.
            farm.command("unfence 0")
            time.sleep(_REAL_CHANGE_S)
        # An alert's identity has the cluster id, which the names of one quorum share: one of them may send it for all.
        names = [_name(number) for number in healthy] if real else []

        def age_s(change: Change) -> float | None:
            ages = [arrivals.age_s(replace(change, cluster=name)) for name in names or [change.cluster]]
            return min((age for age in ages if age is not None), default=None)

        started_ms = time.time_ns() // 1_000_000
        with BatchDurations(job.checkpoint) as durations:
            interval_s = _REAL_CHANGE_S if real else 1 / 3 if many else 1.0
            changed = healthy[:1] if real else healthy
            changes = make_changes(changed, farm.command, _name, seconds=seconds, interval_s=interval_s)
            passed = time.monotonic() - began
            after, farm_after = _cpu_by_role(job.pid), farm.stats()
            memory_mb = _memory_mb(job.pid)
            ended_ms, backlog = time.time_ns() // 1_000_000, _backlog(journal)
            _wait_until(lambda: all(age_s(change) is not None for change in changes), _DELIVERY_S)
        late_ms, _ = poll_times(job.checkpoint / "journal", set(faults), started_ms, ended_ms)
    ages = [age_s(change) for change in changes]
    return {
        "clusters": size,
        "real": real,
        "faulty": len(faults),
        "core": {role: (cpu - before.get(role, 0.0)) / passed for role, cpu in sorted(after.items())},
        "farm_core": (farm_after["cpu_s"] - farm_before["cpu_s"]) / passed,
        "memory_mb": memory_mb,
        "batch_ms": _spread(durations.milliseconds()),
        "poll_late_ms": _spread(late_ms),
        "age_ms": _spread([1_000 * age for age in ages if age is not None]),
        "changes": len(changes),
        "missing": sum(age is None for age in ages),
        "others": dict(arrivals.other_alerts({_name(number) for number in healthy})),
        "backlog_rows": backlog,
        "load": psutil.getloadavg()[0],
    }


class FleetJob(JobProcess):
    """A job that only its configuration file configures."""

    def command(self) -> list[str]:
        """Returns the command line."""
        return [sys.executable, "-m", "streaming", "run", *self.arguments, "--listen", self.address]


def _write_config(
    folder: Path, size: int, fleet: FarmProcess | RealFleet, url: str, pipeline: Mapping[str, int]
) -> Path:
    hosts = {} if fleet.hosts_file is None else {"hosts_file": str(fleet.hosts_file)}
    clusters = [
        {"name": _name(number), "bootstrap": [f"{host}:{port}" for host, port in fleet.bootstrap(number)], **hosts}
        for number in range(size)
    ]
    (folder / "url").write_text(url)
    config = {
        "clusters": clusters,
        "checkpoint": str(folder / "watch" / "checkpoint"),
        "sinks": [{"jsonl": {"path": str(folder / "alerts.jsonl")}}, {"webhook": {"url_file": str(folder / "url")}}],
        "thresholds": {"broker-fenced": {"hold": 0, "clear": 0}},
        "pipeline": dict(pipeline),
    }
    path = folder / "kraftwatch.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def _name(number: int) -> str:
    return f"farm-{number:04d}"


def _backlog(journal: JournalReader) -> int:
    return journal.published_end() - journal.committed_end()


def _wait_until(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(_SCAN_EVERY_S)


def _cpu_by_role(pid: int) -> dict[str, float]:
    job = psutil.Process(pid)
    spent: dict[str, float] = {}
    for process in (job, *job.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            role = process_role(process, job)
            spent[role] = spent.get(role, 0.0) + cpu_s(process)
    return spent


def _memory_mb(pid: int) -> float:
    job = psutil.Process(pid)
    total = 0.0
    for process in (job, *job.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss / 1e6
    return total


def _spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values) or [math.nan]
    ranks = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: ordered[min(len(ordered) - 1, int(len(ordered) * rank))] for name, rank in ranks.items()}


def _table(measured: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="The whole job, by clusters: p50 / p99 / max", title_justify="left")
    for name in (
        "clusters",
        "faulty",
        "cores",
        "memory",
        "batch",
        "polls late",
        "age of a change at its alert",
        "missing",
    ):
        table.add_column(name, justify="right")
    for each in measured:
        spreads = [
            " / ".join(f"{value / 1_000:.2f}" for value in each[key].values()) + " s"
            for key in ("batch_ms", "poll_late_ms", "age_ms")
        ]
        table.add_row(
            f"{each['clusters']} of a real quorum" if each["real"] else str(each["clusters"]),
            str(each["faulty"]),
            f"{sum(each['core'].values()):.2f} + {each['farm_core']:.2f}",
            f"{each['memory_mb'] / 1_000:.2f} GB",
            *spreads,
            f"{each['missing']} of {each['changes']}",
            str(each["backlog_rows"]),
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
