"""Measures the real gatherer against a farm of clusters (`fleet_farm`): CPU, requests and lateness by fleet size.

`python -m tests.bench.fleet_bench [--clusters 1,10,100,1000] [--seconds 20] [--processes 1] [--hang] [--flap 10]
[--lie] [--snapshot FILE] [--real N]`. Prints numbers and asserts nothing. `--real N` measures N clusters of the farm,
and then N names of one real quorum (`real_fleet`).

A cluster-second is one second of one cluster. Lateness: by how much the time between two polls of a cluster exceeds
the poll interval. Delay: from the time in a record batch to the time of the row that holds it, in whole milliseconds.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from connectors.cluster_connection import ClusterConnection
from connectors.gather.gatherer_settings import GathererSettings, to_line
from connectors.journal.reader import JournalReader
from connectors.metadata.batches import RecordBatch, scan
from connectors.observation import ObservationKind
from tests.bench.fleet_answers import NODES
from tests.bench.fleet_farm import address
from tests.bench.real_fleet import MOST_NAMES, RealFleet, real_fleet, requests_sent

_WARM_UP_S = 8.0
_WARM_UP_S_PER_CLUSTER = 0.04
_POLL_INTERVAL_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCost:
    """The measurement of one fleet size."""

    clusters: int
    cpu_ms: float
    """CPU milliseconds a cluster-second, all processes of the gatherer."""
    core: float
    """Share of one core."""
    requests_s: float
    rss_mb: float
    farm_core: float
    lateness_ms: Sequence[float]
    """50th and 99th percentile and the largest."""
    delay_ms: Sequence[float]
    affected: int
    """Clusters that were asked to misbehave; they count in the cost, not in lateness and delay."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description="The cost of gathering by fleet size.")
    parser.add_argument("--clusters", default="1,10,100,1000")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--hang", action="store_true", help="one cluster accepts connections and does not answer")
    parser.add_argument("--flap", type=int, default=0, help="this many clusters elect a leader every 5 s")
    parser.add_argument("--lie", action="store_true", help="one cluster answers with random bytes")
    parser.add_argument("--snapshot", help="one cluster starts at this .checkpoint, which may be .xz")
    parser.add_argument("--real", type=int, metavar="N", help="N clusters of the farm, and N names of a real quorum")
    options = parser.parse_args(arguments)
    if options.real is not None and options.real > MOST_NAMES:
        parser.error(f"--real {options.real}: one real quorum answers at most {MOST_NAMES} names")
    console = Console(highlight=False, width=150)
    console.print(f"{platform.machine()}, {psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f}")
    table = Table(title="Gathering, by clusters", title_justify="left")
    for name in ("clusters", "ms a cluster-second", "of a core", "requests/s", "RSS", "lateness p50/p99/max", "delay"):
        table.add_column(name, justify="right")
    sizes = [(int(size), False) for size in options.clusters.split(",")]
    if options.real is not None:
        sizes = [(options.real, False), (options.real, True)]
    for size, real in sizes:
        with console.status(f"{size} clusters"):
            cost = measure(size, options, real=real)
        names = f"{size} of a real quorum" if real else str(size)
        table.add_row(
            names if not cost.affected else f"{names}, {cost.affected} faulty",
            f"{cost.cpu_ms:.2f}",
            f"{cost.core:.1%} ({'controllers' if real else 'farm'} {cost.farm_core:.1%})",
            f"{cost.requests_s:.0f}",
            f"{cost.rss_mb:.0f} MB",
            " / ".join(f"{one:.0f} ms" for one in cost.lateness_ms),
            " / ".join(f"{one:.0f} ms" for one in cost.delay_ms),
        )
    console.print(table)
    return 0


def measure(size: int, options: argparse.Namespace, *, real: bool = False) -> FleetCost:
    """Runs farm, or a real quorum, and gatherer; returns what the gatherer cost after a warm-up."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-fleet-") as name:
        folder = Path(name)
        faults = {} if real else faults_of(size, options)
        fleet = real_fleet(size) if real else running_farm(size, options.snapshot)
        with fleet as farm:
            for number, fault in faults.items():
                farm.command(f"{fault} {number}")
            with _gatherer(folder, size, farm) as process:
                time.sleep(_WARM_UP_S + _WARM_UP_S_PER_CLUSTER * size)
                before, farm_before, sent_before = _usage(process), farm.stats(), requests_sent(folder / "stats.json")
                started_ms = time.time_ns() // 1_000_000
                began = time.monotonic()
                time.sleep(options.seconds)
                seconds = time.monotonic() - began
                after, farm_after, sent = _usage(process), farm.stats(), requests_sent(folder / "stats.json")
                ended_ms = time.time_ns() // 1_000_000
                rss = sum(one.memory_info().rss for one in _family(process))
        assert sent, "the gatherer has written no statistics"
        lateness, delays = poll_times(folder / "journal", set(faults), started_ms, ended_ms)
        return FleetCost(
            clusters=size,
            cpu_ms=(after - before) / seconds / size * 1000,
            core=(after - before) / seconds,
            requests_s=(sent - sent_before) / seconds,
            rss_mb=rss / 1e6,
            farm_core=(farm_after["cpu_s"] - farm_before["cpu_s"]) / seconds,
            lateness_ms=_percentiles(lateness),
            delay_ms=_percentiles(delays),
            affected=len(faults),
        )


def faults_of(size: int, options: argparse.Namespace) -> dict[int, str]:
    wanted = [*(["hang"] if options.hang else []), *(["lie"] if options.lie else []), *["flap"] * options.flap]
    first = 1 if options.snapshot else 0
    return dict(zip(range(first, size), wanted, strict=False))


class FarmProcess:
    """The farm in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.port: int = self._line()["port"]
        self.hosts_file: Path | None = None

    def bootstrap(self, number: int) -> list[tuple[str, int]]:
        """Returns the addresses of a cluster's controllers."""
        return [(address(number, node), self.port) for node in NODES]

    def command(self, line: str) -> None:
        """Sends a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def stats(self) -> dict[str, Any]:
        """Returns the farm's CPU seconds and requests."""
        self.command("stats")
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def running_farm(size: int, snapshot: str | None) -> Iterator[FarmProcess]:
    command = [sys.executable, "-m", "tests.bench.fleet_farm", "--clusters", str(size)]
    if snapshot is not None:
        command += ["--snapshot", f"0={snapshot}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield FarmProcess(process)
        assert process.stdin is not None
        process.stdin.close()


@contextmanager
def _gatherer(folder: Path, size: int, fleet: FarmProcess | RealFleet) -> Iterator[psutil.Process]:
    hosts_file = None if fleet.hosts_file is None else str(fleet.hosts_file)
    clusters = tuple(
        ClusterConnection(name=f"farm-{number:04d}", bootstrap=tuple(fleet.bootstrap(number)), hosts_file=hosts_file)
        for number in range(size)
    )
    settings = GathererSettings(clusters=clusters, journal=str(folder / "journal"), stats=str(folder / "stats.json"))
    command = [sys.executable, "-m", "connectors.gather"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(to_line(settings))
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        yield psutil.Process(process.pid)
        process.stdin.close()


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _usage(process: psutil.Process) -> float:
    times = [one.cpu_times() for one in _family(process)]
    return float(sum(one.user + one.system for one in times))


def poll_times(journal: Path, faulty: set[int], started_ms: int, ended_ms: int) -> tuple[list[float], list[float]]:
    """Returns how late each poll was, and how old the records of each row were, of the healthy clusters."""
    reader = JournalReader(journal)
    left_out = {f"farm-{number:04d}" for number in faulty}
    polled: dict[str, int] = {}
    lateness: list[float] = []
    delays: list[float] = []
    for row in reader.read(reader.first_sequence(), reader.published_end()):
        if row.cluster in left_out or not started_ms <= row.observed_at_ms <= ended_ms:
            continue
        if row.kind is ObservationKind.QUORUM:
            if row.cluster in polled:
                lateness.append(max(0, row.observed_at_ms - polled[row.cluster] - _POLL_INTERVAL_MS))
            polled[row.cluster] = row.observed_at_ms
        elif row.kind is ObservationKind.RECORDS:
            batches = [one for one in scan(row.payload) if isinstance(one, RecordBatch)]
            delays += [row.observed_at_ms - one.max_timestamp for one in batches]
    return lateness, delays


def _percentiles(values: list[float]) -> Sequence[float]:
    ordered = sorted(values) or [float("nan")]
    return [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99)] + [ordered[-1]]


if __name__ == "__main__":
    sys.exit(main())
