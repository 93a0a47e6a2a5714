"""Reads the state and the files of a running job, and waits until the job has evaluated all present observations."""

import json
import os
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from streaming.demo.job_process import JobProcess
from tests.eventually import eventually
from tests.unit.streaming.metrics.exposition import Samples, samples

RESPONSE_S = 60
"""Time limit of a response: a busy machine may stall for seconds."""


def cluster_status(job: JobProcess) -> dict[str, Any]:
    """Returns the cluster's newest status as JSON (`streaming.status.cluster_status`); empty before the first one."""
    return get_json(job, f"/api/clusters/{job.name}")["status"] or {}


def scrape(job: JobProcess) -> Samples:
    """Returns the samples of the job's /metrics."""
    return samples(_get(job, "/metrics"))


def cluster_metrics(metrics: Samples) -> dict[str, float]:
    """Returns the metrics of cluster `test` that have no other label."""
    return {name: value for (name, labels), value in metrics.items() if labels == (("cluster", "test"),)}


def wait_until_evaluated(job: JobProcess, *, after_s: float = 0) -> None:
    """Waits until the job has evaluated an observation of now, or of `after_s` from now."""
    due_ms = (time.time() + after_s) * 1000

    def evaluated() -> None:
        assert cluster_status(job).get("now_ms", 0) >= due_ms

    eventually(evaluated, within_s=after_s + 30, every_s=0.5)


def wait_until_delivered(job: JobProcess, *, after_s: float = 0) -> None:
    """Waits until the job has delivered all alerts of the observations until now, or until `after_s` from now."""

    def delivered() -> None:
        # The API has the status of a batch before the alerts of that batch are delivered; the next batch comes later.
        overview = get_json(job, "/api/clusters")
        assert (overview["delivered_at_ms"] or 0) > evaluated_ms
        # A batch waits one second for a slow disk; the rest is written with a later batch.
        assert [sink for sink in overview["sinks"] if sink["pending"]] == []

    wait_until_evaluated(job, after_s=after_s)
    evaluated_ms = time.time() * 1000
    eventually(delivered, within_s=30)


def wait_until_resolved(job: JobProcess, *, within_s: float = 180, rules: Iterable[str] = ()) -> None:
    """Waits until no alert is firing, of these rules or at all."""
    wanted = set(rules)

    def resolved() -> None:
        assert [alert for alert in job.firing() if not wanted or alert.rule in wanted] == []

    eventually(resolved, within_s=within_s)


def files_in(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yields each file in a folder and its content, while a job writes; deleted ones and sockets are left out."""
    for parent, _, names in os.walk(folder):
        for path in sorted(Path(parent) / name for name in names):
            with suppress(FileNotFoundError):
                if not path.is_socket():
                    yield path, path.read_bytes()


def get_json(job: JobProcess, path: str) -> dict[str, Any]:
    """Returns a JSON document of the job's server."""
    document: dict[str, Any] = json.loads(_get(job, path))
    return document


def _get(job: JobProcess, path: str) -> str:
    with urllib.request.urlopen(f"http://{job.address}{path}", timeout=RESPONSE_S) as page:
        text: str = page.read().decode()
        return text
