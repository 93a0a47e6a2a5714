"""Measures the idle job: CPU share of one core and memory of each process, over one minute.

Runs a real quorum of 3 controllers and 2 brokers, and the real job with its defaults. Asserts nothing.
"""

import json
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess

WARM_UP_S = 40.0
MEASURED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCost:
    """CPU and memory of one process during the measurement."""

    name: str
    cpu: float
    """Share of one core."""
    memory_mb: float
    """Proportional set size: a page that n processes share counts 1/n for each, so that the sum is what they use."""


def figures() -> dict[str, Any]:
    """Returns CPU in percent of a core and memory in MB by process, micro-batches and requests a second."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Lab(folder / "lab") as lab, JobProcess(folder=folder / "watch", bootstrap=lab.bootstrap) as job:
            time.sleep(WARM_UP_S)
            stats = job.checkpoint / "log" / "gather-stats.json"
            first_requests = requests(stats)
            first_batch = newest_batch(job)
            costs = measure_processes(job.pid)
            batches, sent = newest_batch(job) - first_batch, requests(stats) - first_requests
    roles = dict.fromkeys(cost.name for cost in costs)
    return {
        "processes": {
            role: {
                "cpu_percent": round(100 * sum(cost.cpu for cost in costs if cost.name == role), 2),
                "memory_mb": round(sum(cost.memory_mb for cost in costs if cost.name == role), 1),
            }
            for role in roles
        },
        "cpu_percent": round(100 * sum(cost.cpu for cost in costs), 2),
        "memory_mb": round(sum(cost.memory_mb for cost in costs), 1),
        "batches_per_s": round(batches / MEASURED_S, 2),
        "requests_per_s": round(sent / MEASURED_S, 2),
    }


def main() -> int:
    """Measures and prints a table."""
    console = Console(highlight=False)
    with console.status(f"warming up for {WARM_UP_S:.0f} s and measuring for {MEASURED_S:.0f} s"):
        found = figures()
    table = Table(title="The idle job", title_justify="left")
    table.add_column("process")
    table.add_column("CPU of a core", justify="right")
    table.add_column("memory", justify="right")
    for role, cost in found["processes"].items():
        table.add_row(role, f"{cost['cpu_percent']:.1f}%", f"{cost['memory_mb']:.0f} MB")
    table.add_section()
    table.add_row("all", f"{found['cpu_percent']:.1f}%", f"{found['memory_mb']:.0f} MB")
    console.print(table)
    console.print(f"{found['batches_per_s']:.2f} micro-batches a second")
    console.print(f"{found['requests_per_s']:.1f} requests a second to the quorum")
    return 0


def measure_processes(pid: int) -> list[ProcessCost]:
    """Returns the cost of every process of the job, most CPU first."""
    job = psutil.Process(pid)
    # Spark forks short-lived children all the time: processes younger than a second count with their parent.
    before = {
        process: cpu_s(process)
        for process in (job, *job.children(recursive=True))
        if time.time() - process.create_time() > 1
    }
    time.sleep(MEASURED_S)
    costs = []
    for process, spent in before.items():
        with suppress(psutil.NoSuchProcess):
            cpu = (cpu_s(process) - spent) / MEASURED_S
            memory_mb = process.memory_full_info().pss / 1e6
            costs.append(ProcessCost(name=process_role(process, job), cpu=cpu, memory_mb=memory_mb))
    return sorted(costs, key=lambda cost: -cost.cpu)


def cpu_s(process: psutil.Process) -> float:
    """Returns the CPU seconds so far, including ended children: Spark forks chmod for each file."""
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def process_role(process: psutil.Process, job: psutil.Process) -> str:
    """Returns the role of a process, from its command line."""
    command_line = " ".join(process.cmdline())
    names = {
        "connectors.gather": "gatherer",
        "org.apache.spark.deploy": "Spark's JVM",
        "python_streaming_source_runner": "planner",
        "foreach_batch_worker": "foreachBatch worker",
        "pyspark.daemon": "Python worker",
    }
    found = next((name for part, name in names.items() if part in command_line), command_line[:40])
    return "driver" if process == job else found


def newest_batch(job: JobProcess) -> int:
    """Returns the number of the newest committed micro-batch."""
    commits = (job.checkpoint / "spark" / "commits").glob("[0-9]*")
    return max(int(path.name) for path in commits if path.name.isdigit())


def requests(stats: Path) -> int:
    """Returns the number of requests that the gatherer has sent."""
    sent: int = json.loads(stats.read_text())["clusters"]["demo"]["requests_sent"]
    return sent


if __name__ == "__main__":
    sys.exit(main())
