"""A job that begins on an hour of observations of 20 quiet clusters in a topic: how soon it has caught up.

The job is the real one with its defaults, and a partition of the state for each core.
"""

import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from connectors.observations.observation import Observation
from connectors.process.wall_clock import wall_ms
from connectors.relay.relay_message import Baseline, RelayMessage
from connectors.relay.topic_client import open_producer
from connectors.settings.sections import TopicSection
from deploy.lab.lab import Lab
from tests.bench.job_cost import JobCost
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob
from tests.job.job_state import get_json
from tests.unit.streaming.pipeline.quiet_cluster import quiet_second

CLUSTERS = 20
PARTITIONS = 2
"""Of the state: as many as `master` has cores."""
HOUR_MS = 3_600_000
TOPIC = "backlog"


def figures(clusters: int = CLUSTERS) -> dict[str, Any]:
    """Returns the rows, the seconds from the job's start to its first and its last batch, and what that cost."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Lab(folder / "lab", controllers=0, combined=1, brokers=0) as lab:
            begin_ms = wall_ms() - HOUR_MS
            rows = [row for second in range(HOUR_MS // 1_000) for row in quiet_second(_name(0), second, begin_ms)]
            _write(lab, rows, clusters)
            job = ConfiguredJob(folder=folder / "job", bootstrap=(), name=_name(0))
            job.write_config(
                clusters=[{"name": _name(one), "bootstrap": [f"127.0.1.{one + 1}:9093"]} for one in range(clusters)],
                source="kafka",
                relay={"bootstrap": list(lab.broker_bootstrap), "topic": TOPIC},
                pipeline={"partitions": PARTITIONS},
            )
            began = time.monotonic()
            with job:
                first_s = eventually(lambda: _reached(job, rows[0], clusters, began), within_s=180)
                cost = JobCost(job)
                last_s = eventually(lambda: _reached(job, rows[-1], clusters, began), within_s=900)
                spent, alerts = cost.end(), len(job.alerts())
    backlog_s = last_s - first_s
    return {
        "clusters": clusters,
        "rows": clusters * len(rows),
        "first_batch_s": round(first_s, 1),
        "caught_up_s": round(last_s, 1),
        "backlog_s": round(backlog_s, 1),
        "times_real_time": round(HOUR_MS / 1000 / backlog_s),
        "cpu_s": round(spent["cpu_percent"] * backlog_s / 100, 1),
        "alert_transitions": alerts,
        **spent,
    }


def _write(lab: Lab, rows: list[Observation], clusters: int) -> None:
    """Writes the rows of all clusters in the order of their times, as relays do."""
    topic = TopicSection(bootstrap=tuple(lab.broker_bootstrap), topic=TOPIC, create=True)
    producer = open_producer(topic, on_error=lambda _: None, within_s=60)
    first = rows[0].observed_at_ms * 1_000
    baseline = Baseline(sequence=first, at_ms=rows[0].observed_at_ms)
    for number, row in enumerate(rows):
        for cluster in range(clusters):
            message = RelayMessage(
                observation=replace(row, cluster=_name(cluster), sequence=first + number),
                cluster_id=f"cluster-{cluster}",
                baseline=baseline,
                relay="bench",
            )
            while True:
                with suppress(BufferError):
                    producer.produce(TOPIC, message.value(), message.key, headers=[*message.headers])
                    break
                producer.poll(1)
    assert producer.flush(300) == 0


def _reached(job: ConfiguredJob, row: Observation, clusters: int, began: float) -> float:
    """Returns the seconds since the start, once the status of each cluster has this row."""
    found = get_json(job, "/api/clusters")["clusters"]
    assert len(found) == clusters
    for one in found:
        assert one["observed_at"] is not None
        assert datetime.fromisoformat(one["observed_at"]).timestamp() * 1_000 >= row.observed_at_ms
    return time.monotonic() - began


def _name(cluster: int) -> str:
    return f"c{cluster:02}"
