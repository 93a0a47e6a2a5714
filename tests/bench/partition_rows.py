"""Rows of one healthy cluster with many partitions: its snapshot, and then seconds with changes of partitions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from connectors.observation import Observation, ObservationKind
from rules.model.identifiers import Offset
from tests.bench.cluster_second_bench import NODES, START_MS, endpoint, event_row, log_row, poll, uuid
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, data, noop, record, text
from tests.unit.connectors.metadata.test_refused_values import UUID, metadata, raft, voters

CHANGES_PER_SECOND = 10
_PARTITIONS_PER_TOPIC = 10
_TOPICS_PER_PIECE = 1_000
_END = 3
"""The snapshot's end offset."""
_ZERO = bytes(4)
_RANDOM = Random(1)
_REPLICAS = tuple(tuple(_RANDOM.sample(range(100, 160), 3)) for _ in range(2_000))
"""By the number of the partition: 60 brokers, as in a large cluster. Equal assignments would compress too well."""
_PARTITIONS = tuple(
    metadata(
        3,
        2,
        {
            "partition_id": 0,
            "topic_id": UUID,
            "replicas": list(replicas),
            "isr": list(replicas),
            "removing_replicas": [],
            "adding_replicas": [],
            "leader": replicas[0],
            "leader_epoch": _RANDOM.randrange(40),
            "partition_epoch": _RANDOM.randrange(200),
            "directories": [UUID[::-1]] * 3,
            "leader_recovery_state": 0,
        },
    )
    for replicas in _REPLICAS
)


def snapshot_rows(cluster: str, partitions: int) -> Iterator[Observation]:
    """Yields the pieces of a `.checkpoint` with this many partitions, 10 of each topic."""
    listed = [
        {
            "voter_id": node,
            "voter_directory_id": uuid(node),
            "endpoints": [{"name": "CONTROLLER", "host": endpoint(node).host, "port": 9093, "security_protocol": 0}],
        }
        for node in NODES
    ]
    first = [raft(3, last_contained_log_timestamp=START_MS), raft(5, kraft_version=1), voters(*listed)]
    yield _piece(cluster, 0, batch(first, timestamp=START_MS))
    offset, number = len(first), 1
    topics = partitions // _PARTITIONS_PER_TOPIC
    for start in range(0, topics, _TOPICS_PER_PIECE):
        values = [value for topic in range(start, min(topics, start + _TOPICS_PER_PIECE)) for value in _topic(topic)]
        records = b"".join(record(value, delta) for delta, value in enumerate(values))
        yield _piece(cluster, number, batch_of(records, len(values), base_offset=offset, timestamp=START_MS))
        offset, number = offset + len(values), number + 1
    yield _piece(cluster, number, batch([raft(4)], base_offset=offset, timestamp=START_MS))


def second_rows(cluster: str, partitions: int, second: int) -> Sequence[Observation]:
    """Returns the rows of one second: 10 changes of partitions, a NoOp and a poll."""
    now_ms = START_MS + 1_000 * second
    offset = _END + (CHANGES_PER_SECOND + 1) * second
    values = [_change(partitions, CHANGES_PER_SECOND * second + number) for number in range(CHANGES_PER_SECOND)]
    content = batch([*values, noop()], base_offset=offset, timestamp=now_ms)
    end = Offset(offset + len(values) + 1)
    polled = poll(cluster, second, now_ms + 600)
    moved = replace(
        polled,
        high_watermark=end,
        voters=tuple(replace(each, log_end_offset=end) for each in polled.voters),
        observers=tuple(replace(each, log_end_offset=end) for each in polled.observers),
    )
    return (
        log_row(cluster, offset, content, now_ms, records=len(values) + 1),
        event_row(cluster, ObservationKind.QUORUM, moved, now_ms + 600),
    )


def _piece(cluster: str, number: int, payload: bytes) -> Observation:
    return Observation(
        cluster=cluster,
        kind=ObservationKind.SNAPSHOT,
        observed_at_ms=START_MS,
        base_offset=_END,
        last_offset=number,
        leader_epoch=1,
        payload=payload,
    )


def _topic(number: int) -> Iterator[bytes]:
    id_ = _topic_id(number)
    yield data(2, 0, text(f"topic-{number}") + id_ + b"\0")
    for partition in range(_PARTITIONS_PER_TOPIC):
        yield _of(_PARTITIONS[(_PARTITIONS_PER_TOPIC * number + partition) % len(_PARTITIONS)], id_, partition)


def _change(partitions: int, number: int) -> bytes:
    """Returns a change of the ISR; a prime spreads the changes over the whole table."""
    which, turn = number * 7_919 % partitions, number // partitions
    replicas = _REPLICAS[which % len(_REPLICAS)]
    isr = replicas if turn % 2 else replicas[:2]
    value = metadata(5, 2, {"partition_id": 0, "topic_id": UUID}, isr=list(isr), leader=isr[0])
    return _of(value, _topic_id(which // _PARTITIONS_PER_TOPIC), which % _PARTITIONS_PER_TOPIC)


def _of(value: bytes, topic: bytes, partition: int) -> bytes:
    """Returns the record's value for another partition: its number is in front of the topic's id."""
    return value.replace(_ZERO + UUID, partition.to_bytes(4, "big") + topic, 1)


def _topic_id(number: int) -> bytes:
    return b"kraftwatch bench"[:8] + number.to_bytes(8, "big")
