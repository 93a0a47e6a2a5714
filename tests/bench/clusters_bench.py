"""250 clusters in one job: gatherer, Spark and sinks against a farm of clusters (`farm`).

Brokers are fenced and unfenced, three times a second in one cluster after the other, with holds at zero: the age of a
change is from the command to write its record until its alert is in the file of a jsonl sink.
"""

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

from streaming.demo.job_process import AlertLine
from tests.bench.farm import address
from tests.bench.farm_answers import NODES
from tests.bench.job_cost import JobCost, cpu_s, percentiles
from tests.job.configured_job import ConfiguredJob
from tests.sinks.server import serving

CLUSTERS = 250
SECONDS = 60.0
CHANGES_PER_S = 3.0
_WARM_UP_S, _WARM_UP_S_PER_CLUSTER = 20.0, 0.2
_DELIVERY_S = 15.0
_RULE = "broker-fenced"


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
        job = ConfiguredJob(folder=folder / "watch", bootstrap=())
        job.write_config(
            clusters=[
                {"name": _name(number), "bootstrap": [f"{address(number, node)}:{farm.port}" for node in NODES]}
                for number in range(clusters)
            ],
            sinks=[f"jsonl:{job.jsonl}", {"webhook": {"url": url}}],
            thresholds={_RULE: {"hold": 0, "clear": 0}},
        )
        stack.enter_context(job)
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
        ages, others = ages_ms(changes, job.alerts())
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


def ages_ms(changes: Sequence[tuple[str, str, float]], alerts: Sequence[AlertLine]) -> tuple[list[float], int]:
    """Returns the age of each change when its alert was sent, and the number of alerts of other rules."""
    sent: dict[tuple[str, str], list[float]] = {}
    for alert in alerts:
        if alert.rule == _RULE:
            sent.setdefault((alert.line["cluster"], alert.state), []).append(alert.sent_at)
    first = [next((at for at in sent.get((name, state), ()) if at >= began), None) for name, state, began in changes]
    ages = [1_000 * (at - began) for at, (_, _, began) in zip(first, changes, strict=True) if at is not None]
    return ages, sum(alert.rule != _RULE for alert in alerts)


def _name(number: int) -> str:
    return f"farm-{number:04d}"
