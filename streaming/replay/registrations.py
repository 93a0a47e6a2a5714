"""Registrations of controllers and brokers in the log, and whether brokers are alive."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from connectors.observations.log_event import (
    BrokerChanged,
    BrokerRegistered,
    ControllerRegistered,
    FeatureLevelSet,
    RecordPosition,
)
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.registration import BrokerRegistration, ControllerRegistration, FeatureRange
from streaming.replay.snapshot_origin import SnapshotOrigin

_Registration = TypeVar("_Registration", BrokerRegistration, ControllerRegistration)


def with_feature(known: Mapping[str, int], event: FeatureLevelSet) -> dict[str, int]:
    """Applies a FeatureLevelRecord: level 0 removes the feature."""
    others = {name: level for name, level in known.items() if name != event.name}
    return {**others, event.name: event.level} if event.level else others


def with_controller(
    known: Mapping[NodeId, ControllerRegistration], event: ControllerRegistered, origin: RecordPosition | SnapshotOrigin
) -> dict[NodeId, ControllerRegistration]:
    """Applies a RegisterControllerRecord: written at every controller start; no record removes one."""
    previous = known.get(event.id)
    registration = ControllerRegistration(
        id=event.id,
        incarnation_id=event.incarnation_id,
        endpoints=event.endpoints,
        offset=Offset(origin.offset),
        timestamp_ms=Millis(origin.timestamp_ms),
        features=event.features,
        features_since_timestamp_ms=_features_since(previous, event.features, origin),
    )
    return {**known, event.id: registration}


def with_broker(
    known: Mapping[NodeId, BrokerRegistration], event: BrokerRegistered, origin: RecordPosition | SnapshotOrigin
) -> dict[NodeId, BrokerRegistration]:
    """Applies a RegisterBrokerRecord: it replaces the whole previous registration."""
    previous = known.get(event.id)
    registration = BrokerRegistration(
        id=event.id,
        incarnation_id=event.incarnation_id,
        endpoints=event.endpoints,
        fenced=event.fenced,
        in_controlled_shutdown=event.in_controlled_shutdown,
        offset=Offset(origin.offset),
        alive_since_timestamp_ms=_alive_since(previous, origin, fenced=event.fenced),
        features=event.features,
        features_since_timestamp_ms=_features_since(previous, event.features, origin),
    )
    return {**known, event.id: registration}


def with_change(
    known: Mapping[NodeId, BrokerRegistration], event: BrokerChanged, origin: RecordPosition | SnapshotOrigin
) -> Mapping[NodeId, BrokerRegistration]:
    """Applies a BrokerRegistrationChangeRecord: absent fields are unchanged; an unknown broker is ignored."""
    previous = known.get(event.id)
    if previous is None:
        return known
    fenced = previous.fenced if event.fenced is None else event.fenced
    changed = replace(
        previous,
        fenced=fenced,
        alive_since_timestamp_ms=_alive_since(previous, origin, fenced=fenced),
        in_controlled_shutdown=(
            previous.in_controlled_shutdown if event.in_controlled_shutdown is None else event.in_controlled_shutdown
        ),
    )
    return {**known, event.id: changed}


def keep_alive_since(
    read: Mapping[NodeId, BrokerRegistration], known: Mapping[NodeId, BrokerRegistration]
) -> dict[NodeId, BrokerRegistration]:
    """Returns the registrations of a snapshot, with the known times since when the same incarnations are alive.

    A snapshot holds whether a broker is alive, not since when. A broker that was alive before did not just restart.
    """
    alive = {
        node: replace(one, alive_since_timestamp_ms=known[node].alive_since_timestamp_ms)
        if one.alive and node in known and known[node].alive and known[node].incarnation_id == one.incarnation_id
        else one
        for node, one in read.items()
    }
    return keep_features_since(alive, known)


def keep_features_since(
    read: Mapping[NodeId, _Registration], known: Mapping[NodeId, _Registration]
) -> dict[NodeId, _Registration]:
    """Returns the registrations of a snapshot, with the known times since when they support the same features."""
    return {
        node: replace(one, features_since_timestamp_ms=known[node].features_since_timestamp_ms)
        if node in known and known[node].features == one.features
        else one
        for node, one in read.items()
    }


def _features_since(
    previous: BrokerRegistration | ControllerRegistration | None,
    features: tuple[FeatureRange, ...] | None,
    origin: RecordPosition | SnapshotOrigin,
) -> Millis | None:
    """Returns the log's time of the registration that first listed these features; None if it lists none."""
    if features is None:
        return None
    since = previous.features_since_timestamp_ms if previous is not None and previous.features == features else None
    return Millis(origin.timestamp_ms) if since is None else since


def _alive_since(
    previous: BrokerRegistration | None, origin: RecordPosition | SnapshotOrigin, *, fenced: bool
) -> Millis | None:
    """Returns the log's time of the record that last unfenced this broker; None while it is fenced."""
    if fenced:
        return None
    return previous.alive_since_timestamp_ms if previous is not None and previous.alive else Millis(origin.timestamp_ms)
