"""What the job costs while nothing happens: CPU of a core and memory of each process, over a minute.

A real quorum of 3 controllers and 2 brokers, the real job with its defaults; prints numbers, asserts none.
"""

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from deploy.lab.lab import Lab
from streaming.demo.job_process import Watcher

WARM_S = 40.0
MEASURED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One process between two looks."""

    name: str
    cpu: float
    """Share of one core."""
    rss_mb: float


def main() -> int:
    """Measure and print."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Lab(folder / "lab") as lab, Watcher(folder=folder / "watch", bootstrap=lab.bootstrap) as watcher:
            with console.status(f"warming for {WARM_S:.0f} s"):
                time.sleep(WARM_S)
            stats = watcher.checkpoint / "log" / "gather-stats.json"
            asked = requests(stats)
            first = newest_batch(watcher)
            with console.status(f"measuring for {MEASURED_S:.0f} s"):
                costs = measured(watcher.pid)
            table = Table(title="The idle job", title_justify="left")
            table.add_column("process")
            table.add_column("CPU of a core", justify="right")
            table.add_column("memory", justify="right")
            for cost in costs:
                table.add_row(cost.name, f"{cost.cpu:.1%}", f"{cost.rss_mb:.0f} MB")
            table.add_section()
            table.add_row("all", f"{sum(c.cpu for c in costs):.1%}", f"{sum(c.rss_mb for c in costs):.0f} MB")
            console.print(table)
            console.print(f"{(newest_batch(watcher) - first) / MEASURED_S:.2f} micro-batches a second")
            console.print(f"{(requests(stats) - asked) / MEASURED_S:.1f} requests a second to the quorum")
    return 0


def measured(pid: int) -> list[Cost]:
    """Every process of the job, dearest first."""
    job = psutil.Process(pid)
    # Spark forks short-lived children all the time: what lives less than a second counts with its parent.
    before = {
        process: cpu_s(process)
        for process in (job, *job.children(recursive=True))
        if time.time() - process.create_time() > 1
    }
    time.sleep(MEASURED_S)
    costs = [
        Cost(
            name=called(process, job),
            cpu=(cpu_s(process) - spent) / MEASURED_S,
            rss_mb=process.memory_info().rss / 1e6,
        )
        for process, spent in before.items()
        if process.is_running()
    ]
    return sorted(costs, key=lambda cost: -cost.cpu)


def cpu_s(process: psutil.Process) -> float:
    """Seconds of CPU so far, its ended children included: Spark forks chmod for each file."""
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def called(process: psutil.Process, job: psutil.Process) -> str:
    """A process by what it does."""
    words = " ".join(process.cmdline())
    names = {
        "connectors.gather": "gatherer",
        "org.apache.spark.deploy": "Spark's JVM",
        "python_streaming_source_runner": "planner",
        "foreach_batch_worker": "foreachBatch worker",
        "pyspark.daemon": "Python worker",
    }
    found = next((name for part, name in names.items() if part in words), words[:40])
    return "driver" if process == job else found


def newest_batch(watcher: Watcher) -> int:
    """The number of the newest committed micro-batch."""
    commits = (watcher.checkpoint / "spark" / "commits").glob("[0-9]*")
    return max(int(path.name) for path in commits if path.name.isdigit())


def requests(stats: Path) -> int:
    """How many requests the gatherer has sent."""
    sent: int = json.loads(stats.read_text())["clusters"]["demo"]["requests_sent"]
    return sent


if __name__ == "__main__":
    sys.exit(main())
