"""Measures a quiet cluster-second: one second of one healthy cluster. Prints milliseconds of CPU and asserts nothing.

`python -m tests.bench.cluster_second_bench [--clusters 100] [--seconds 60] [--no-spark]`. A journal of quiet clusters
is written beforehand: each second two NoOps and a poll, every 5 s three probes, every 10 s three views. First the
stages are measured in this process, then Spark reads the journal: the CPU time of all its processes.
"""

import argparse
import base64
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.event import Event, to_json
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import EndpointProbed, LeaderViewPolled, NodeEndpoints, QuorumPolled
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import Answer, Connection, Resolution, Vantage
from rules.model.poll import Replica
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.packed_observations import pack
from streaming.pipeline.query import Query
from streaming.pipeline.spark_session import start_spark
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.status_store import StatusStore
from tests.bench.idle_bench import cpu_s, process_role
from tests.unit.connectors.metadata.metadata_bytes import batch, noop
from tests.unit.connectors.metadata.test_refused_values import raft, voters

START_MS = 1_795_000_000_000
NODES = (1, 2, 3)
BROKERS = (101, 102, 103)
WARM_UP_S = 20
"""Seconds of the journal that are not measured."""
_FIRST_OFFSET = 3
_STAGE_CLUSTERS = 20
"""How many clusters the stages are measured with; the job has `--clusters` of them."""


def endpoint(node: int) -> Endpoint:
    return Endpoint(listener="CONTROLLER", host=f"c{node}.kafka.example", port=9093)


def uuid(node: int) -> bytes:
    return bytes([*range(1, 15), node // 256, node % 256])


def key(node: int) -> ReplicaKey:
    text = base64.urlsafe_b64encode(uuid(node)).decode().rstrip("=")
    return ReplicaKey(id=NodeId(node), directory_id=DirectoryId(text))


def beginning(cluster: str) -> Observation:
    """Returns the first records: an election and the voters."""
    members = [{"voter_id": node} for node in NODES]
    listed = [
        {
            "voter_id": node,
            "voter_directory_id": uuid(node),
            "endpoints": [{"name": "CONTROLLER", "host": endpoint(node).host, "port": 9093, "security_protocol": 0}],
        }
        for node in NODES
    ]
    values = [
        raft(2, leader_id=1, voters=members, granting_voters=members),
        raft(5, kraft_version=1),
        voters(*listed),
    ]
    return log_row(cluster, 0, batch(values, base_offset=0, timestamp=START_MS), START_MS, records=_FIRST_OFFSET)


def log_row(cluster: str, offset: int, payload: bytes, now_ms: int, *, records: int = 1) -> Observation:
    return Observation(
        cluster=cluster,
        kind=ObservationKind.RECORDS,
        observed_at_ms=now_ms,
        base_offset=offset,
        last_offset=offset + records - 1,
        leader_epoch=1,
        high_watermark=offset + records,
        payload=payload,
    )


def event_row(cluster: str, kind: ObservationKind, event: Event, now_ms: int) -> Observation:
    return Observation(cluster=cluster, kind=kind, observed_at_ms=now_ms, payload=to_json(event))


def poll(cluster: str, second: int, now_ms: int) -> QuorumPolled:
    end = Offset(_FIRST_OFFSET + 2 * (second + 1))

    def row(node: int) -> Replica:
        ago = 0 if node == 1 else 200 + 37 * (node + second) % 300
        return Replica(
            key=key(node),
            log_end_offset=end,
            last_fetch_ms=Millis(now_ms - ago),
            last_caught_up_ms=Millis(now_ms - ago),
        )

    return QuorumPolled(
        cluster_id=f"id-of-{cluster}",
        endpoint=str(endpoint(1)),
        leader_id=NodeId(1),
        leader_epoch=Epoch(1),
        high_watermark=end,
        voters=tuple(map(row, NODES)),
        observers=tuple(map(row, BROKERS)),
        nodes=tuple(NodeEndpoints(id=NodeId(node), endpoints=(endpoint(node),)) for node in NODES),
    )


def probe(node: int) -> EndpointProbed:
    return EndpointProbed(
        node=NodeId(node),
        endpoint=endpoint(node),
        resolution=Resolution.RESOLVED,
        addresses=(f"10.0.0.{node}",),
        connection=Connection.ACCEPTED,
        answer=Answer.THIS_CLUSTER,
        answered_by=NodeId(node),
        detail="",
    )


def view(node: int) -> LeaderViewPolled:
    return LeaderViewPolled(
        endpoint=f"c{node}.kafka.example:9093",
        node=NodeId(node),
        this_cluster=True,
        leader_id=NodeId(1),
        leader_epoch=Epoch(1),
        log=None,
    )


def quiet_second(cluster: str, second: int) -> Iterator[Observation]:
    now_ms = START_MS + 1_000 * second
    offset = _FIRST_OFFSET + 2 * second
    payloads = [batch([noop()], base_offset=offset + half, timestamp=now_ms + 500 * half) for half in (0, 1)]
    for half, payload in enumerate(payloads):
        yield log_row(cluster, offset + half, payload, now_ms + 500 * half)
    at_ms = now_ms + 600
    yield event_row(cluster, ObservationKind.QUORUM, poll(cluster, second, at_ms), at_ms)
    for node in NODES:
        if second % 5 == node:
            yield event_row(cluster, ObservationKind.PROBE, probe(node), at_ms + node)
        if second % 10 == 2 * node:
            yield event_row(cluster, ObservationKind.VIEW, view(node), at_ms + 10 + node)


def cluster_names(clusters: int) -> list[str]:
    return [f"cluster-{number:04d}" for number in range(clusters)]


def settings_of(cluster: str) -> ClusterSettings:
    return ClusterSettings(
        name=cluster,
        cluster_id=f"id-of-{cluster}",
        bootstrap=tuple(f"c{node}.kafka.example:9093" for node in NODES),
        vantage=Vantage.INSIDE,
    )


class OneState:
    """Holds one cluster's blob, as Spark's GroupState does."""

    blob: bytes | None = None
    written = 0

    @property
    def exists(self) -> bool:
        return self.blob is not None

    @property
    def get(self) -> tuple[bytes | None]:
        return (self.blob,)

    def update(self, value: tuple[bytes]) -> None:
        (self.blob,) = value
        self.written += 1


def measure_stages(clusters: int, seconds: int) -> None:
    """Prints the CPU time of the step, with one micro-batch a second for each cluster."""
    names = cluster_names(clusters)
    step = Step({name: settings_of(name) for name in names})
    names = names[:_STAGE_CLUSTERS]
    states = {name: OneState() for name in names}
    sequence, stepped_s, status_bytes = 0, 0.0, 0
    for second in range(seconds + WARM_UP_S):
        rows: list[Observation] = []
        for name in names:
            first = [beginning(name)] if second == 0 else []
            for row in (*first, *quiet_second(name, second)):
                rows.append(
                    Observation(
                        **{field: getattr(row, field) for field in row.__dataclass_fields__} | {"sequence": sequence}
                    )
                )
                sequence += 1
        frames = dict(list(pack(rows).to_pandas().groupby("cluster", sort=False)))
        grouped = time.process_time()
        for name, frame in frames.items():
            state: Any = states[str(name)]
            for output in step((str(name), 0), iter([frame]), state):
                status_bytes += sum(map(len, output["body"]))
        stepped = time.process_time()
        if second >= WARM_UP_S:
            stepped_s += stepped - grouped
    measured = len(names) * seconds
    blob = states[names[0]].blob or b""
    print_cost("step", stepped_s / measured)
    written = sum(state.written for state in states.values()) / (len(names) * (seconds + WARM_UP_S))
    print(f"state {len(blob)} bytes, written {written:.2f} times a cluster-second")
    print(f"output {status_bytes / (len(names) * (seconds + WARM_UP_S)):.0f} bytes a cluster-second")


def measure_spark(clusters: int, seconds: int) -> None:
    """Prints the CPU time of all of Spark's processes, from a journal that is written beforehand."""
    names = cluster_names(clusters)
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(temporary))
        checkpoint = Checkpoint(folder=folder)
        journal = stack.enter_context(JournalWriter(checkpoint.journal))
        warm = write_journal(journal, names, seconds)
        spark = start_spark(master="local[2]", logs=folder / "log", settings={})
        deliver = Deliver(
            Dispatcher(Ledger(checkpoint.ledger), []),
            quarantine_of(job_database(checkpoint.folder)),
            store=StatusStore(names),
            request_poll=lambda _cluster, _due: None,
        )
        query = Query(spark, checkpoint, deliver)
        query.start(Step({name: settings_of(name) for name in names}))
        try:
            _, batches = wait_for(checkpoint, warm)
            before, began = cpu_by_process(), time.monotonic()
            # Not before: Spark would read a part of it, or all, before its CPU time so far is known.
            journal.publish()
            ended, more = wait_for(checkpoint, journal.published_end)
            spent = {name: cpu - before.get(name, 0) for name, cpu in cpu_by_process().items()}
        finally:
            query.stop()
            spark.stop()
        measured = clusters * seconds
        for role, cpu in sorted(spent.items(), key=lambda pair: -pair[1]):
            print_cost(f"  {role}", cpu / measured)
        print_cost("Spark, all processes", sum(spent.values()) / measured)
        print(
            f"{measured / (ended - began):.0f} cluster-seconds a second, "
            f"{(ended - began) / max(1, more - batches):.2f} s a micro-batch, {clusters} clusters"
        )


def write_journal(journal: JournalWriter, names: list[str], seconds: int) -> int:
    """Writes all rows and publishes those of the warm-up; returns the sequence at which the measured part begins."""
    warm = 0
    journal.append([beginning(name) for name in names])
    for second in range(seconds + WARM_UP_S):
        if second == WARM_UP_S:
            journal.publish()
            warm = journal.published_end
        journal.append([row for name in names for row in quiet_second(name, second)])
    return warm


def wait_for(checkpoint: Checkpoint, sequence: int) -> tuple[float, int]:
    """Waits until the query has committed this sequence; returns the time and the batch."""
    while True:
        commits = [int(path.name) for path in (checkpoint.spark / "commits").glob("[0-9]*") if path.name.isdigit()]
        if commits:
            offsets = (checkpoint.spark / "offsets" / str(max(commits))).read_text().splitlines()
            reached = int(json.loads(offsets[2])["sequence"])
            if reached >= sequence:
                return time.monotonic(), max(commits)
        time.sleep(0.1)


def cpu_by_process() -> dict[str, float]:
    """Returns the CPU seconds of this process and its children, by role; Python workers by their number."""
    own = psutil.Process()
    spent: dict[str, float] = {}
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            # An ended child counts with its parent.
            role = process_role(process, own)
            spent[role] = spent.get(role, 0) + cpu_s(process)
    return spent


def print_cost(what: str, seconds: float) -> None:
    print(f"{what:30} {1_000 * seconds:8.3f} ms a cluster-second")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--no-spark", action="store_true")
    options = parser.parse_args(arguments)
    pd.options.mode.copy_on_write = True
    measure_stages(options.clusters, options.seconds)
    if not options.no_spark:
        measure_spark(options.clusters, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
