"""Features in the log: the finalized levels, and what each node supports since when."""

import pytest

from connectors.observations.log_event import LogEvent
from rules.model.identifiers import NodeId
from rules.model.membership import FeatureRange
from tests.unit.rules.situation import present
from tests.unit.streaming.replay.log_script import (
    LogScript,
    again,
    apply,
    begun,
    machine,
)

OLD = (FeatureRange(name="metadata.version", lowest=7, highest=29),)
NEW = (FeatureRange(name="metadata.version", lowest=7, highest=30),)


@pytest.mark.parametrize("role", ["controller", "broker"])
def test_supported_features_keep_the_time_of_their_first_registration(role: str) -> None:
    """A restart with the same version registers the same features, and changes nothing."""
    script, replay = LogScript(), machine()
    register = script.controller if role == "controller" else script.broker
    script.leader(1)
    register(5, features=OLD)
    first = script.now_ms
    rows = [script.read()]
    register(5, features=OLD)
    quorum = apply(replay, [*rows, script.read()])
    known = quorum.controllers if role == "controller" else quorum.brokers
    assert (known[NodeId(5)].features, known[NodeId(5)].features_since_timestamp_ms) == (OLD, first)

    register(5, features=NEW)
    upgraded = script.now_ms
    quorum = apply(again(replay.to_bytes()), [script.read()])
    known = quorum.controllers if role == "controller" else quorum.brokers
    assert (known[NodeId(5)].features, known[NodeId(5)].features_since_timestamp_ms) == (NEW, upgraded)


def test_a_snapshot_keeps_since_when_features_are_supported() -> None:
    script, replay = begun()
    records: list[LogEvent] = [
        script.controller(1, features=OLD),
        script.broker(5, features=OLD),
        script.broker(6, features=OLD),
    ]
    first = script.now_ms
    apply(replay, [script.read()])
    script.noops(50)
    records[2] = script.broker(6, features=NEW)
    script.events.clear()
    quorum = apply(replay, script.snapshot(records))

    assert quorum.controllers[NodeId(1)].features_since_timestamp_ms == first
    assert quorum.brokers[NodeId(5)].features_since_timestamp_ms == first
    assert quorum.brokers[NodeId(6)].features == NEW
    upgraded = present(quorum.brokers[NodeId(6)].features_since_timestamp_ms)
    assert upgraded > first, "at least since the snapshot"
