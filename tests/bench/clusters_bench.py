"""250 clusters in one job: gatherer, Spark and sinks against a farm of clusters (`farm`).

Brokers are fenced and unfenced, three times a second in one cluster after the other, with holds at zero: the age of a
change is from the command to write its record until its alert is in the file of a jsonl sink.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from streaming.demo.job_process import AlertLine, JobProcess
from tests.bench.farm import address
from tests.bench.farm_answers import NODES
from tests.bench.job_cost import JobCost, cpu_s, percentiles
from tests.sinks.server import serving

CLUSTERS = 250
SECONDS = 60.0
CHANGES_PER_S = 3.0
_WARM_UP_S, _WARM_UP_S_PER_CLUSTER = 20.0, 0.2
_DELIVERY_S = 15.0
_RULE = "broker-fenced"


class FleetJob(JobProcess):
    """A job that only its configuration file configures."""

    def command(self) -> list[str]:
        """Returns the command line."""
        return [sys.executable, "-m", "streaming", "run", *self.arguments, "--listen", self.address]


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmProcess:
    """The farm in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    fenced: set[int] = field(default_factory=set)

    def change(self, number: int) -> tuple[str, str, float]:
        """Fences or unfences the broker of a cluster; returns the cluster, the state of its alert, and when."""
        assert self.process.stdin is not None
        self.fenced.symmetric_difference_update({number})
        firing, at = number in self.fenced, time.time()
        self.process.stdin.write(f"{'fence' if firing else 'unfence'} {number}\n")
        self.process.stdin.flush()
        return _name(number), "firing" if firing else "resolved", at


def figures(clusters: int = CLUSTERS) -> dict[str, Any]:
    """Returns the age of changes at their alert in ms, the cost of the job, and of the farm in percent of a core."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kraftwatch-fleet-")))
        farm = stack.enter_context(running_farm(clusters))
        url = stack.enter_context(serving()).url
        config = write_config(folder, clusters, farm.port, url)
        job = stack.enter_context(FleetJob(folder=folder / "watch", bootstrap=(), arguments=("--config", str(config))))
        time.sleep(_WARM_UP_S + _WARM_UP_S_PER_CLUSTER * clusters)
        farm_process = psutil.Process(farm.process.pid)
        cost, farm_s, began = JobCost(job), cpu_s(farm_process), time.monotonic()
        changes: list[tuple[str, str, float]] = []
        while (due := began + len(changes) / CHANGES_PER_S) < began + SECONDS:
            time.sleep(max(0.0, due - time.monotonic()))
            changes.append(farm.change(len(changes) % clusters))
        measured = cost.end()
        farm_s = cpu_s(farm_process) - farm_s
        time.sleep(_DELIVERY_S)
        ages, others = ages_ms(changes, folder / "alerts.jsonl")
    return {
        "clusters": clusters,
        "changes": len(changes),
        "without_alert": len(changes) - len(ages),
        "age_ms": percentiles(ages),
        **measured,
        "farm_cpu_percent": round(100 * farm_s / SECONDS, 1),
        "other_alerts": others,
    }


@contextmanager
def running_farm(clusters: int) -> Iterator[FarmProcess]:
    """Starts the farm."""
    command = [sys.executable, "-m", "tests.bench.farm", str(clusters)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield FarmProcess(process=process, port=int(process.stdout.readline()))
        process.stdin.close()


def write_config(folder: Path, clusters: int, port: int, url: str) -> Path:
    """Writes the job's configuration and returns its path."""
    (folder / "url").write_text(url)
    config = {
        "clusters": [
            {"name": _name(number), "bootstrap": [f"{address(number, node)}:{port}" for node in NODES]}
            for number in range(clusters)
        ],
        "checkpoint": str(folder / "watch" / "checkpoint"),
        "sinks": [{"jsonl": {"path": str(folder / "alerts.jsonl")}}, {"webhook": {"url_file": str(folder / "url")}}],
        "thresholds": {_RULE: {"hold": 0, "clear": 0}},
    }
    path = folder / "kraftwatch.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def ages_ms(changes: Sequence[tuple[str, str, float]], alerts: Path) -> tuple[list[float], int]:
    """Returns the age of each change when its alert was sent, and the number of alerts of other rules."""
    sent: dict[tuple[str, str], list[float]] = {}
    others = 0
    for alert in map(json.loads, alerts.read_text().splitlines()):
        if alert["rule"] == _RULE:
            sent.setdefault((alert["cluster"], alert["state"]), []).append(AlertLine.of(alert, 0).sent_at)
        else:
            others += 1
    first = [next((at for at in sent.get((name, state), ()) if at >= began), None) for name, state, began in changes]
    return [1_000 * (at - began) for at, (_, _, began) in zip(first, changes, strict=True) if at is not None], others


def _name(number: int) -> str:
    return f"farm-{number:04d}"
