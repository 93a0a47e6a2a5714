"""Registrations: controllers and brokers as the log knows them, and the brokers' liveness."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from connectors.event import At, BrokerChanged, BrokerRegistered, ControllerRegistered, FeatureLevelSet
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.registration import BrokerRegistration, ControllerRegistration, FeatureRange
from streaming.replay.partitions import Origin

_Registration = TypeVar("_Registration", BrokerRegistration, ControllerRegistration)


def with_feature(known: Mapping[str, int], event: FeatureLevelSet) -> dict[str, int]:
    """FeatureLevelRecord: level 0 takes the feature away."""
    others = {name: level for name, level in known.items() if name != event.name}
    return {**others, event.name: event.level} if event.level else others


def with_controller(
    known: Mapping[NodeId, ControllerRegistration], event: ControllerRegistered, origin: At | Origin
) -> dict[NodeId, ControllerRegistration]:
    """RegisterControllerRecord: written at every controller start; no record takes one away."""
    held = known.get(event.id)
    registration = ControllerRegistration(
        id=event.id,
        incarnation_id=event.incarnation_id,
        endpoints=event.endpoints,
        offset=Offset(origin.offset),
        timestamp_ms=Millis(origin.timestamp_ms),
        features=event.features,
        features_since_timestamp_ms=_features_since(held, event.features, origin),
    )
    return {**known, event.id: registration}


def with_broker(
    known: Mapping[NodeId, BrokerRegistration], event: BrokerRegistered, origin: At | Origin
) -> dict[NodeId, BrokerRegistration]:
    """RegisterBrokerRecord: replaces the former registration whole."""
    held = known.get(event.id)
    registration = BrokerRegistration(
        id=event.id,
        incarnation_id=event.incarnation_id,
        endpoints=event.endpoints,
        fenced=event.fenced,
        in_controlled_shutdown=event.in_controlled_shutdown,
        offset=Offset(origin.offset),
        alive_since_timestamp_ms=_alive_since(held, origin, fenced=event.fenced),
        features=event.features,
        features_since_timestamp_ms=_features_since(held, event.features, origin),
    )
    return {**known, event.id: registration}


def with_change(
    known: Mapping[NodeId, BrokerRegistration], event: BrokerChanged, origin: At | Origin
) -> Mapping[NodeId, BrokerRegistration]:
    """BrokerRegistrationChangeRecord: what it leaves out is unchanged; of an unknown broker it says nothing."""
    held = known.get(event.id)
    if held is None:
        return known
    fenced = held.fenced if event.fenced is None else event.fenced
    changed = replace(
        held,
        fenced=fenced,
        alive_since_timestamp_ms=_alive_since(held, origin, fenced=fenced),
        in_controlled_shutdown=(
            held.in_controlled_shutdown if event.in_controlled_shutdown is None else event.in_controlled_shutdown
        ),
    )
    return {**known, event.id: changed}


def with_lives(
    read: Mapping[NodeId, BrokerRegistration], known: Mapping[NodeId, BrokerRegistration]
) -> dict[NodeId, BrokerRegistration]:
    """Registrations of a snapshot, with what was known before it of since when the same incarnations live.

    A snapshot tells that a broker lives, not since when: who was alive and is, has not come back just now.
    """
    lived = {
        node: replace(one, alive_since_timestamp_ms=known[node].alive_since_timestamp_ms)
        if one.alive and node in known and known[node].alive and known[node].incarnation_id == one.incarnation_id
        else one
        for node, one in read.items()
    }
    return with_features(lived, known)


def with_features(
    read: Mapping[NodeId, _Registration], known: Mapping[NodeId, _Registration]
) -> dict[NodeId, _Registration]:
    """Registrations of a snapshot, with what was known before it of since when they support what they do."""
    return {
        node: replace(one, features_since_timestamp_ms=known[node].features_since_timestamp_ms)
        if node in known and known[node].features == one.features
        else one
        for node, one in read.items()
    }


def _features_since(
    held: BrokerRegistration | ControllerRegistration | None,
    features: tuple[FeatureRange, ...] | None,
    origin: At | Origin,
) -> Millis | None:
    """The log's time of the registration that first told these features; None where it tells none."""
    if features is None:
        return None
    since = held.features_since_timestamp_ms if held is not None and held.features == features else None
    return Millis(origin.timestamp_ms) if since is None else since


def _alive_since(held: BrokerRegistration | None, origin: At | Origin, *, fenced: bool) -> Millis | None:
    """The log's time of the record that last unfenced this broker."""
    if fenced:
        return None
    return held.alive_since_timestamp_ms if held is not None and held.alive else Millis(origin.timestamp_ms)
