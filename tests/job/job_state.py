"""What a running job says of its cluster by HTTP, and whether it has judged what is now."""

import json
import time
import urllib.request
from typing import Any

from streaming.demo.job_process import Watcher
from tests.eventually import eventually
from tests.unit.streaming.metrics.exposition import Samples, samples

PATIENCE_S = 60
"""How long an answer may take: a machine may stand still for seconds."""


def portrait(watcher: Watcher) -> dict[str, Any]:
    """The cluster as the job judged it last: the fields of `streaming.status.cluster_status`."""
    shown: dict[str, Any] = json.loads(_get(watcher, f"/api/clusters/{watcher.name}"))["portrait"] or {}
    return shown


def scraped(watcher: Watcher) -> Samples:
    """Its metrics now."""
    return samples(_get(watcher, "/metrics"))


def of_cluster(told: Samples) -> dict[str, float]:
    """What has no label but the cluster's."""
    return {name: value for (name, labels), value in told.items() if labels == (("cluster", "test"),)}


def told_until_now(watcher: Watcher, *, after_s: float = 0) -> None:
    """Wait until the job has told all that was to be told of what is up to now, or to so many seconds from now."""
    due_ms = (time.time() + after_s) * 1000

    def judged() -> None:
        assert portrait(watcher).get("now_ms", 0) >= due_ms

    def told() -> None:
        # The batch that was judged is shown before it is told; the one after it is shown when it was told.
        shown = json.loads(_get(watcher, "/api/clusters"))
        assert (shown["delivered_at_ms"] or 0) > judged_ms
        # A batch waits for a slow disk for a second; what is not written by then is written with a later one.
        assert [sink for sink in shown["sinks"] if sink["pending"]] == []

    eventually(judged, within_s=after_s + 30, every_s=0.5)
    judged_ms = time.time() * 1000
    eventually(told, within_s=30)


def _get(watcher: Watcher, path: str) -> str:
    with urllib.request.urlopen(f"http://{watcher.address}{path}", timeout=PATIENCE_S) as page:
        text: str = page.read().decode()
        return text
