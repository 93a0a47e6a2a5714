"""A job that begins on an hour of observations of 20 clusters in the relays' topic: how soon it has caught up.

The rows are those that a relay wrote of a real quorum in a minute, sixty times one after the other with shifted offsets
and times, for each cluster. The job is the real one with its defaults, and a partition of the state for each core.
"""

import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

from connectors.observations.observation import Observation, ObservationKind
from connectors.relay.relay_message import Baseline, RelayEpoch, RelayMessage
from connectors.relay.topic_client import open_producer
from connectors.settings import TopicSection
from connectors.wall_clock import wall_ms
from deploy.lab.lab import Lab
from tests.bench.job_cost import JobCost
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.relay_process import RelayProcess, counted

CLUSTERS = 20
PARTITIONS = 2
"""Of the state: as many as `master` has cores."""
HOUR_MS = 3_600_000
START_MS = 15_000
"""After this time a relay's rows are those of a quiet cluster."""
MINUTE_S = 60.0 + START_MS / 1000
TOPIC = "backlog"
_POLL_S: Final = 0.1


def figures(clusters: int = CLUSTERS) -> dict[str, Any]:
    """Returns the rows, the seconds from the job's start to its first and its last batch, and what that cost."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Lab(folder / "lab") as lab:
            minute = _recorded_minute(folder, lab)
            end_ms = wall_ms()
            rows = [*_hour(minute, end_ms - HOUR_MS, end_ms)]
            _write(lab, rows, clusters)
            job = _job(folder / "job", lab, clusters)
            began = time.monotonic()
            with job:
                first_s = eventually(lambda: _reached(job, rows[0], clusters, began), within_s=180, every_s=_POLL_S)
                cost = JobCost(job)
                last_s = eventually(lambda: _reached(job, rows[-1], clusters, began), within_s=900, every_s=_POLL_S)
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


def _recorded_minute(folder: Path, lab: Lab) -> Sequence[Observation]:
    """Returns the rows of the lab's own cluster from its log's beginning to a minute later, as a relay wrote them."""
    relay = RelayProcess(folder / "relay", lab, topic="recorded", clusters=[section("test", lab)])
    relay.start()
    relay.wait_for_rows(1)
    time.sleep(MINUTE_S)
    assert relay.stop() == 0
    return [one.observation for one in counted(relay.messages())]


def _hour(minute: Sequence[Observation], begin_ms: int, end_ms: int) -> Iterator[Observation]:
    """Yields the rows of one cluster in this time: the minute again and again."""
    first, last = minute[0].observed_at_ms, minute[-1].observed_at_ms
    # The log's beginning is not repeated, nor the topic that the relay creates.
    again = [row for row in minute if row.observed_at_ms > first + START_MS]
    ends = [row.last_offset for row in minute if row.kind is ObservationKind.RECORDS and row.last_offset is not None]
    begins = [row.base_offset for row in again if row.kind is ObservationKind.RECORDS and row.base_offset is not None]
    every_ms = last - again[0].observed_at_ms + 200
    for number in count():
        shift_ms = begin_ms - first + number * every_ms
        for row in again if number else minute:
            if row.observed_at_ms + shift_ms > end_ms:
                return
            yield _shifted(row, shift_ms, number * (max(ends) + 1 - min(begins)))


def _shifted(row: Observation, shift_ms: int, shift: int) -> Observation:
    payload = row.payload
    if row.kind is ObservationKind.RECORDS:
        # The base offset of a batch is not covered by its checksum.
        payload = b"" if not payload else _with_offset(payload, shift)
    elif row.kind is ObservationKind.QUORUM:
        payload = json.dumps(_moved(json.loads(payload), shift_ms, shift)).encode()

    def moved(offset: int | None) -> int | None:
        return None if offset is None else offset + shift

    return replace(
        row,
        observed_at_ms=row.observed_at_ms + shift_ms,
        payload=payload,
        base_offset=moved(row.base_offset),
        last_offset=moved(row.last_offset),
        high_watermark=moved(row.high_watermark),
    )


def _with_offset(payload: bytes, shift: int) -> bytes:
    """Returns record batches with shifted base offsets: 8 bytes of offset, 4 bytes of length, then the batch."""
    shifted = bytearray(payload)
    at = 0
    while at < len(payload):
        shifted[at : at + 8] = (int.from_bytes(payload[at : at + 8]) + shift).to_bytes(8)
        at += 12 + int.from_bytes(payload[at + 8 : at + 12])
    return bytes(shifted)


def _moved(value: Any, shift_ms: int, shift: int) -> Any:
    if isinstance(value, list):
        return [_moved(each, shift_ms, shift) for each in value]
    if not isinstance(value, Mapping):
        return value
    moved = {name: _moved(each, shift_ms, shift) for name, each in value.items()}
    for name, each in moved.items():
        if isinstance(each, int) and name.endswith("_ms"):
            moved[name] = each + shift_ms
        elif isinstance(each, int) and name in ("high_watermark", "log_end_offset"):
            moved[name] = each + shift
    return moved


def _write(lab: Lab, rows: list[Observation], clusters: int) -> None:
    """Writes the rows of all clusters in the order of their times, as relays do."""
    topic = TopicSection(bootstrap=tuple(lab.broker_bootstrap), topic=TOPIC, create=True)
    producer = open_producer(topic, on_error=lambda _: None, within_s=60)
    first = rows[0].observed_at_ms * 1_000
    baseline = Baseline(sequence=first, at_ms=rows[0].observed_at_ms)
    epoch = RelayEpoch(sequence=first, relay="bench")
    for number, row in enumerate(rows):
        for cluster in range(clusters):
            message = RelayMessage(
                observation=replace(row, cluster=_name(cluster), sequence=first + number),
                cluster_id=f"cluster-{cluster}",
                baseline=baseline,
                epoch=epoch,
            )
            while True:
                with suppress(BufferError):
                    producer.produce(TOPIC, message.value(), message.key, headers=[*message.headers])
                    break
                producer.poll(1)
    assert producer.flush(300) == 0


def _job(folder: Path, lab: Lab, clusters: int) -> ConfiguredJob:
    job = ConfiguredJob(folder=folder, bootstrap=(), name=_name(0))
    job.write_config(
        clusters=[{"name": _name(one), "bootstrap": [f"127.0.1.{one + 1}:9093"]} for one in range(clusters)],
        source="kafka",
        relay={"bootstrap": list(lab.broker_bootstrap), "topic": TOPIC},
        pipeline={"partitions": PARTITIONS},
    )
    return job


def _reached(job: ConfiguredJob, row: Observation, clusters: int, began: float) -> float:
    """Returns the seconds since the start, once the status of each cluster has this row."""
    with urllib.request.urlopen(f"http://{job.address}/api/clusters", timeout=10) as page:
        found = json.load(page)["clusters"]
    assert len(found) == clusters
    for one in found:
        assert one["observed_at"] is not None
        assert datetime.fromisoformat(one["observed_at"]).timestamp() * 1_000 >= row.observed_at_ms
    return time.monotonic() - began


def _name(cluster: int) -> str:
    return f"c{cluster:02}"
