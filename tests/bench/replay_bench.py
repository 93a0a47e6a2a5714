"""Measures replay: `python tests/bench/replay_bench.py [PARTITIONS]`. Prints numbers and asserts nothing.

Each number is the CPU time of this process for one run on new state, with the garbage collector enabled.
"""

import resource
import sys
import time
from collections.abc import Callable

from connectors.log_event import (
    LogAdvanced,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    RecordPosition,
    SnapshotBegan,
    SnapshotEnded,
    TopicCreated,
)
from connectors.observation_event import QuorumPolled
from rules.model.identifiers import DirectoryId, Epoch, Millis, NodeId, Offset, ReplicaKey, TopicId
from rules.model.poll import Replica
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine

PARTITIONS_PER_TOPIC = 10
BROKERS = 60


def at(offset: int, *, snapshot: bool = False) -> RecordPosition:
    return RecordPosition(offset=Offset(offset), leader_epoch=Epoch(1), timestamp_ms=Millis(offset), snapshot=snapshot)


def replicas(number: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(100 + (number + step) % BROKERS) for step in (1, 7, 31))


def snapshot(partitions: int) -> list[LogEvent]:
    began = SnapshotBegan(
        at=at(0, snapshot=True), end_offset=Offset(1), epoch=Epoch(1), last_contained_timestamp_ms=Millis(0)
    )
    events: list[LogEvent] = [began]
    for number in range(partitions):
        topic = TopicId(f"topic-id-{number // PARTITIONS_PER_TOPIC:013d}")
        if number % PARTITIONS_PER_TOPIC == 0:
            events.append(TopicCreated(at=at(len(events), snapshot=True), topic_id=topic, name=f"topic-{number}"))
        nodes = replicas(number)
        events.append(
            PartitionSet(
                at=at(len(events), snapshot=True),
                topic_id=topic,
                partition=number % PARTITIONS_PER_TOPIC,
                replicas=nodes,
                isr=nodes,
                elr=(),
                leader=nodes[0],
                partition_leader_epoch=0,
                partition_epoch=0,
                recovering=False,
            )
        )
    footer = SnapshotEnded(at=at(len(events), snapshot=True), end_offset=Offset(1), epoch=Epoch(1))
    return [*events, footer]


def changes(partitions: int, count: int) -> list[LogEvent]:
    events: list[LogEvent] = []
    for number in range(count):
        which = number * 7919 % partitions
        nodes = replicas(which)
        shrunk = number % 2 == 0
        events.append(
            PartitionChanged(
                at=at(1 + number),
                topic_id=TopicId(f"topic-id-{which // PARTITIONS_PER_TOPIC:013d}"),
                partition=which % PARTITIONS_PER_TOPIC,
                replicas=None,
                isr=nodes[:2] if shrunk else nodes,
                elr=None,
                leader=nodes[0],
                leader_set=True,
                recovering=None,
            )
        )
    return [*events, advanced(count)]


def advanced(offset: int) -> LogAdvanced:
    return LogAdvanced(
        last_offset=Offset(offset),
        leader_epoch=Epoch(1),
        high_watermark=Offset(offset + 1),
        newest_timestamp_ms=Millis(offset),
    )


def poll(now: int) -> QuorumPolled:
    rows = tuple(
        Replica(
            key=ReplicaKey(id=NodeId(node), directory_id=DirectoryId(f"directory-id-{node:09d}")),
            log_end_offset=Offset(now),
            last_fetch_ms=Millis(now),
            last_caught_up_ms=Millis(now),
        )
        for node in (1, 2, 3, *range(100, 100 + BROKERS))
    )
    return QuorumPolled(
        cluster_id="cluster",
        endpoint="c1:9093",
        leader_id=NodeId(1),
        leader_epoch=Epoch(1),
        high_watermark=Offset(now),
        voters=rows[:3],
        observers=rows[3:],
        nodes=(),
    )


def machine() -> Machine:
    return Machine(ClusterSettings(name="bench", bootstrap=("c1:9093",)))


def load_machine(blob: bytes) -> Machine:
    return Machine.from_bytes(blob, ClusterSettings(name="bench", bootstrap=("c1:9093",)))


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def print_result(what: str, seconds: float, count: int = 0) -> None:
    rate = f"  {count / seconds:12,.0f} events/s" if count else ""
    print(f"{what:58} {seconds * 1000:10.2f} ms{rate}")


def main() -> None:
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    replay = machine()
    events = snapshot(partitions)
    took = cpu_seconds(lambda: replay.apply(events, sequence=1, observed_at_ms=Millis(1)))
    print_result(f"a snapshot of {partitions:,} partitions", took, len(events))
    tail = changes(partitions, 200_000)
    print_result(
        "200,000 partition changes",
        cpu_seconds(lambda: replay.apply(tail, sequence=2, observed_at_ms=Millis(2))),
        len(tail),
    )
    blob = b""

    def store() -> None:
        nonlocal blob
        blob = replay.to_bytes()

    print_result("to_bytes, all partitions new", cpu_seconds(store))
    print(f"{'state blob':58} {len(blob) / 1e6:10.2f} MB")
    changed = changes(partitions, 200_100)[-101:]
    print_result(
        "100 partition changes", cpu_seconds(lambda: replay.apply(changed, sequence=3, observed_at_ms=Millis(3))), 100
    )
    print_result("to_bytes, 100 partitions changed", cpu_seconds(store))
    print(f"{'state blob':58} {len(blob) / 1e6:10.2f} MB")
    restored = load_machine(blob)
    print_result("restoring the partitions", cpu_seconds(lambda: restored.log.partitions.table))
    for second in range(120):
        restored.apply([poll(200_101 + second)], sequence=4 + second, observed_at_ms=Millis(1_000 * second))
    idle = restored.to_bytes()

    def micro_batch() -> None:
        for number in range(100):
            one = load_machine(idle)
            one.apply([advanced(200_001)], sequence=1_000 + number, observed_at_ms=Millis(200_000))
            one.apply([poll(200_200)], sequence=2_000 + number, observed_at_ms=Millis(200_001))
            one.quorum()
            one.to_bytes()

    print_result(f"an idle micro-batch (read, 2 rows, write; {3 + BROKERS} replicas)", cpu_seconds(micro_batch) / 100)
    print(f"{'peak memory':58} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:10.0f} MiB")


if __name__ == "__main__":
    main()
