"""Floods: for each record type, records that one lying controller can repeat as often as it likes.

Each is the worst that was found for its type: it grows what the replay keeps, or takes the slowest path.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count, islice
from typing import Any, Final, TypeAlias

from tests.unit.connectors.metadata.metadata_bytes import batch, data
from tests.unit.connectors.metadata.metadata_record_schemas import metadata_value, raft_value

Value: TypeAlias = bytes | tuple[bytes, bytes]
"""The value of a metadata record, or key and value of a control record."""
Records: TypeAlias = Callable[[int], Iterator[Value]]
"""Yields records from a number on; it never ends."""
_NODES: Final = [1, 2, 3]
_RECORD_BYTES: Final = 12
"""What a record takes beside its value."""
FLOOD_BYTES: Final = 7 * 1024 * 1024
"""Of an answer to a Fetch: nearly as large as the gatherer accepts."""


def uuid(number: int) -> bytes:
    """Returns a UUID that is not zero."""
    return (number + 1).to_bytes(16, "big")


def endpoints(listeners: int, *, protocol: bool = True) -> list[dict[str, Any]]:
    """Returns as many listeners of a node."""
    known: dict[str, Any] = {"security_protocol": 0} if protocol else {}
    return [{"name": f"L{at}", "host": "h", "port": 9093, **known} for at in range(listeners)]


def features(names: int) -> list[dict[str, Any]]:
    """Returns as many supported features."""
    return [{"name": f"f{at}", "min_supported_version": 0, "max_supported_version": 1} for at in range(names)]


def broker(number: int, incarnation: int, **given: Any) -> bytes:
    """Returns a RegisterBrokerRecord."""
    fields: dict[str, Any] = {"broker_id": number, "incarnation_id": uuid(incarnation), "end_points": endpoints(1)}
    return metadata_value(0, 3, **{**fields, **given})


def controller(number: int, incarnation: int, **given: Any) -> bytes:
    """Returns a RegisterControllerRecord."""
    fields = {"controller_id": number, "incarnation_id": uuid(incarnation), "end_points": endpoints(1)}
    return metadata_value(27, 0, **{**fields, **given})


def partition(topic: int, number: int, **given: Any) -> bytes:
    """Returns a PartitionRecord."""
    fields: dict[str, Any] = {"topic_id": uuid(topic), "partition_id": number, "replicas": _NODES, "isr": _NODES}
    return metadata_value(3, 1, **{**fields, "leader": 1, "directories": [uuid(0)] * 3, **given})


def _changed(topic: int, number: int, **given: Any) -> bytes:
    return metadata_value(5, 1, topic_id=uuid(topic), partition_id=number, **given)


def _topic(number: int, name: str) -> bytes:
    return metadata_value(2, 0, name=name, topic_id=uuid(number))


def _voters(number: int, voters: int, listeners: int) -> Value:
    each = [
        {
            "voter_id": at,
            "voter_directory_id": uuid(number),
            "endpoints": endpoints(listeners, protocol=False),
            "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
        }
        for at in range(voters)
    ]
    return raft_value(6, 0, voters=each)


def _leader_change(number: int, voters: int) -> Value:
    each = [{"voter_id": at, "voter_directory_id": uuid(at)} for at in range(voters)]
    return raft_value(2, 1, leader_id=number % 3, voters=each, granting_voters=each)


def _unclean(number: int) -> bytes:
    """Returns an unclean election of its own partition, of which the replicas in sync are not known."""
    return _changed(number, 0, isr=[1 + number % 3], leader=1 + number % 3, leader_recovery_state=1)


def _interrupted(number: int) -> bytes:
    """Returns a record that ends or begins an interruption of one of 1,000 brokers."""
    return metadata_value(17, 1, broker_id=number % 1_000, fenced=1 if number // 1_000 % 2 else -1)


def _odd_replicas(number: int) -> bytes:
    """Returns a partition whose lists have other lengths than those of the record before, in as many bytes."""
    isr = number % 60
    return partition(1, number, replicas=[*range(1, 62 - isr)], isr=[*range(1, 1 + isr)])


def _odd_texts(number: int) -> bytes:
    """Returns a record without an event whose strings have other lengths than before, in as many bytes."""
    name = number % 100
    value = number // 100 % 100
    return metadata_value(4, 0, resource_name="r" * value, name="n" * name, value="v" * (200 - name - value))


def _every(make: Callable[[int], Value]) -> Records:
    return lambda first: map(make, count(first))


def _in_turn(*makes: Callable[[int], Value]) -> Records:
    return lambda first: (makes[at % len(makes)](at // len(makes)) for at in count(first))


def _after(begin: Sequence[Value], make: Callable[[int], Value]) -> Records:
    """Yields some records once, before the others."""

    def records(first: int) -> Iterator[Value]:
        if not first:
            yield from begin
        yield from map(make, count(first))

    return records


RECORD_FLOODS: Final[Mapping[str, Records]] = {
    "features": _every(lambda at: metadata_value(12, 0, name=f"feature-{at}", feature_level=1)),
    "a feature": _every(lambda at: metadata_value(12, 0, name="metadata.version", feature_level=1 + at % 20)),
    "controllers": _every(lambda at: controller(1_000 + at, at)),
    "restarts of a controller": _every(lambda at: controller(1, at)),
    "restarts of controllers": _every(lambda at: controller(at % 1_000, at)),
    "controllers with 100 listeners": _every(lambda at: controller(at, at, end_points=endpoints(100))),
    "controllers with 100 features": _every(lambda at: controller(at, at, features=features(100))),
    "brokers": _every(lambda at: broker(1_000 + at, at)),
    "restarts of a broker": _every(lambda at: broker(1, at)),
    "restarts of brokers": _every(lambda at: broker(at % 1_000, at, fenced=True)),
    "brokers with 100 listeners": _every(lambda at: broker(at, at, end_points=endpoints(100))),
    "brokers with 100 features": _every(lambda at: broker(at, at, features=features(100))),
    "brokers with 1,000 log directories": _every(
        lambda at: broker(at, at, log_dirs=[uuid(each) for each in range(1_000)])
    ),
    "broker unregistered": _in_turn(lambda at: broker(at, at), lambda at: metadata_value(1, 0, broker_id=at)),
    "interruptions": _after([broker(each, each) for each in range(1_000)], _interrupted),
    "fenced, unfenced": _after([broker(1, 1)], lambda at: metadata_value(7 + at % 2, 0, id=1)),
    "topics": _every(lambda at: _topic(at, f"topic-{at}")),
    "topics with one name": _every(lambda at: _topic(at, "topic")),
    "names of a topic": _every(lambda at: _topic(1, f"topic-{at}")),
    "topics removed": _in_turn(lambda at: _topic(at, f"t{at}"), lambda at: metadata_value(9, 0, topic_id=uuid(at))),
    "partitions": _every(lambda at: partition(at // 10, at % 10)),
    "topics with a partition": _every(lambda at: partition(at, 0)),
    "partition changes": _every(lambda at: _changed(at % 1_000, 0, isr=[1, 2], leader=1 + at % 2)),
    "partitions with odd lists": _every(_odd_replicas),
    "partitions with 10,000 replicas": _every(lambda at: partition(at, 0, replicas=[*range(at, at + 10_000)])),
    "unclean elections": _every(_unclean),
    "unclean elections of a partition": _after(
        [partition(1, 0)], lambda at: _changed(1, 0, isr=[1 + at % 3], leader=1 + at % 3, leader_recovery_state=1)
    ),
    "unclean elections and registrations": _in_turn(_unclean, lambda at: broker(1, at)),
    "recoveries that an election ends": _in_turn(
        lambda at: _changed(at, 0, isr=[1], leader=1, leader_recovery_state=1),
        lambda at: _changed(at, 0, isr=[2], leader=2, leader_recovery_state=0),
    ),
    "recoveries of a topic, named": _in_turn(
        lambda at: _changed(1, at, isr=[1], leader=1, leader_recovery_state=1), lambda at: _topic(1, f"topic-{at}")
    ),
    "ELRs cleared": _in_turn(
        lambda at: metadata_value(3, 2, topic_id=uuid(at), replicas=_NODES, isr=[1], eligible_leader_replicas=[2]),
        lambda at: metadata_value(28, 0),
    ),
    "configurations": _every(lambda at: metadata_value(4, 0, resource_name="r", name="n", value=f"value-{at}")),
    "configurations with odd names": _every(_odd_texts),
    "access control entries": _every(lambda at: metadata_value(18, 0, id=uuid(at), principal="User:a", host="*")),
    "client quotas": _every(
        lambda at: metadata_value(14, 0, entity=[{"entity_type": "user", "entity_name": f"u{at}"}])
    ),
    "producer ids": _every(lambda at: metadata_value(15, 0, next_producer_id=at)),
    "transactions": _in_turn(lambda at: metadata_value(23, 0), lambda at: metadata_value(24, 0)),
    "a transaction of partitions": _after([metadata_value(23, 0)], lambda at: partition(at // 10, at % 10)),
    "a transaction of brokers": _after([metadata_value(23, 0)], lambda at: broker(at, at)),
    "elections": _every(lambda at: _leader_change(at, 3)),
    "elections by 1,000 voters": _every(lambda at: _leader_change(at, 1_000)),
    "voters": _every(lambda at: _voters(at, 3, 1)),
    "100 voters with 100 listeners": _every(lambda at: _voters(at, 100, 100)),
    "kraft.version": _every(lambda at: raft_value(5, 0, kraft_version=at % 2)),
    "unknown records": _every(lambda at: data(100, 0, struct.pack(">i", at))),
    "refused brokers": _every(lambda at: broker(-2, at)),
    "refused partitions": _every(lambda at: partition(1, at, isr=[1, 1])),
}


def flood(name: str, first: int, number: int) -> list[Value]:
    """Returns so many records of a flood, from the given number on."""
    return list(islice(RECORD_FLOODS[name](first), number))


@cache
def flood_batch(name: str, size: int) -> tuple[bytes, int]:
    """Returns a batch at offset 0 with about so many bytes of a flood's records, and their number."""
    values: list[Value] = []
    for value in islice(RECORD_FLOODS[name](0), size // _RECORD_BYTES):
        size -= _RECORD_BYTES + (len(value) if isinstance(value, bytes) else sum(map(len, value)))
        if size < 0:
            break
        values.append(value)
    return batch(values), len(values)
