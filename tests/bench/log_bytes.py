"""Record batches of the events of a scripted quorum, as Kafka 4.3 writes them."""

import base64
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from connectors.observations.log_event import (
    BrokerChanged,
    FeatureLevelSet,
    KRaftVersionSet,
    LeaderChanged,
    LogAdvanced,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    SnapshotBegan,
    SnapshotEnded,
    TopicCreated,
    TopicRemoved,
    Undecodable,
    VotersReplaced,
)
from rules.model.identifiers import Endpoint, NodeId, Offset
from rules.model.membership import BrokerRegistration, ControllerRegistration, FeatureRange, RecordPosition
from tests.unit.connectors.metadata.metadata_bytes import batch, noop
from tests.unit.connectors.metadata.metadata_record_schemas import metadata_value, raft_value

_NOOP = noop()
_FENCED = {None: 0, True: 1, False: -1}
Value = bytes | tuple[bytes, bytes]


@cache
def uuid_bytes(name: str) -> bytes:
    """Returns the UUID of a name of the script, of a topic, a directory or a process."""
    return uuid5(NAMESPACE_OID, name).bytes


@cache
def uuid_text(name: str) -> str:
    """Returns the same as Kafka prints it."""
    return base64.urlsafe_b64encode(uuid_bytes(name)).decode().rstrip("=")


def batches(events: Sequence[LogEvent], *, first: int, last: int, epoch: int, now_ms: int) -> bytes:
    """Returns the batches of the offsets from `first` to `last`: these records, and NoOps at all other offsets.

    `epoch` is that of the record before `first`, `now_ms` the leader's clock.
    """
    by_offset = {position(event).offset: event for event in events}
    found: list[tuple[int, int, list[Value]]] = []
    control = True
    for at in range(first, last + 1):
        event = by_offset.get(Offset(at))
        value = _NOOP if event is None else value_of(event)
        # A control record is in a batch of its own, and a new epoch begins with one.
        if control or isinstance(value, tuple):
            epoch = epoch if event is None else position(event).leader_epoch
            found.append((at, epoch, []))
        control = isinstance(value, tuple)
        found[-1][2].append(value)
    return b"".join(batch(values, base_offset=at, epoch=epoch, timestamp=now_ms) for at, epoch, values in found)


def position(event: LogEvent) -> RecordPosition:
    """Returns the position of an event that is a record."""
    assert not isinstance(event, LogAdvanced | Undecodable)
    return event.at


def value_of(event: LogEvent) -> Value:
    """Returns the value of a data record; key and value of a control record."""
    match event:
        case LeaderChanged() | KRaftVersionSet() | VotersReplaced() | SnapshotBegan() | SnapshotEnded():
            return _control(event)
        case FeatureLevelSet():
            return metadata_value(12, 0, name=event.name, feature_level=event.level)
        case ControllerRegistration() | BrokerRegistration():
            return _registration(event)
        case BrokerChanged():
            # No rule reads the epoch.
            return metadata_value(17, 1, broker_id=event.id, fenced=_FENCED[event.fenced])
        case TopicCreated():
            return metadata_value(2, 0, name=event.name, topic_id=uuid_bytes(event.topic_id))
        case TopicRemoved():
            return metadata_value(9, 0, topic_id=uuid_bytes(event.topic_id))
        case PartitionSet() | PartitionChanged():
            return _partition(event)
        case _:
            raise TypeError(f"the script of a day writes no {type(event).__name__}")


def _partition(event: PartitionSet | PartitionChanged) -> bytes:
    values: dict[str, Any] = {"partition_id": event.partition, "topic_id": uuid_bytes(event.topic_id)}
    if isinstance(event, PartitionSet):
        values |= {"replicas": [*event.replicas], "isr": [*event.isr]}
        values |= {"leader": _leader(event.leader), "leader_epoch": event.partition_leader_epoch}
        return metadata_value(3, 1, directories=[uuid_bytes(f"log-{node}") for node in event.replicas], **values)
    if event.isr is not None:
        values["isr"] = [*event.isr]
    if event.leader_set:
        values["leader"] = _leader(event.leader)
    if event.recovering is not None:
        values["leader_recovery_state"] = int(event.recovering)
    return metadata_value(5, 1, **values)


def _registration(event: ControllerRegistration | BrokerRegistration) -> bytes:
    values: dict[str, Any] = {
        "incarnation_id": uuid_bytes(event.incarnation_id),
        "end_points": _endpoints(event.endpoints),
        "features": [_feature(each) | {"name": each.name} for each in event.features or ()],
    }
    if isinstance(event, ControllerRegistration):
        return metadata_value(27, 0, controller_id=event.id, **values)
    values |= {"fenced": event.fenced, "in_controlled_shutdown": event.in_controlled_shutdown}
    return metadata_value(0, 3, broker_id=event.id, broker_epoch=event.at.offset, **values)


def _control(
    event: LeaderChanged | KRaftVersionSet | VotersReplaced | SnapshotBegan | SnapshotEnded,
) -> tuple[bytes, bytes]:
    match event:
        case SnapshotBegan():
            return raft_value(3, last_contained_log_timestamp=event.last_contained_timestamp_ms)
        case SnapshotEnded():
            return raft_value(4)
        case LeaderChanged():
            return raft_value(2, leader_id=event.leader_id)
        case KRaftVersionSet():
            return raft_value(5, kraft_version=event.version)
        case VotersReplaced():
            return raft_value(6, voters=[*_voters(event)])


def _voters(event: VotersReplaced) -> Iterator[dict[str, Any]]:
    for voter in event.voters:
        yield {
            "voter_id": voter.key.id,
            "voter_directory_id": uuid_bytes(voter.key.directory_id or ""),
            "endpoints": _endpoints(voter.endpoints),
            "kraft_version_feature": _feature(FeatureRange(name="kraft.version", lowest=0, highest=1)),
        }


def _feature(feature: FeatureRange) -> dict[str, Any]:
    return {"min_supported_version": feature.lowest, "max_supported_version": feature.highest}


def _endpoints(endpoints: Sequence[Endpoint]) -> list[dict[str, Any]]:
    return [{"name": at.listener, "host": at.host, "port": at.port, "security_protocol": 0} for at in endpoints]


def _leader(node: NodeId | None) -> int:
    return -1 if node is None else node
