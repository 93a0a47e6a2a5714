"""What the log tells of features: the levels in force, and what each node supports since when."""

import pytest

from connectors.log_event import LogEvent
from rules.model.identifiers import NodeId
from rules.model.registration import FeatureRange
from tests.unit.streaming.replay.ledger import Ledger, again, apply, machine

OLD = (FeatureRange(name="metadata.version", lowest=7, highest=29),)
NEW = (FeatureRange(name="metadata.version", lowest=7, highest=30),)


def test_a_level_is_set_raised_and_taken_away() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.feature("metadata.version", 29)
    ledger.feature("group.version", 1)
    assert apply(replay, [ledger.read()]).features == {"metadata.version": 29, "group.version": 1}

    ledger.feature("metadata.version", 30)
    ledger.feature("group.version", 0)
    quorum = apply(again(replay.to_bytes()), [ledger.read()])
    assert quorum.features == {"metadata.version": 30}
    assert quorum.metadata_version == 30


@pytest.mark.parametrize("role", ["controller", "broker"])
def test_what_a_node_supports_stands_since_it_first_said_so(role: str) -> None:
    """A restart with the same version says it again, and changes nothing."""
    ledger, replay = Ledger(), machine()
    register = ledger.controller if role == "controller" else ledger.broker
    ledger.leader(1)
    register(5, features=OLD)
    first = ledger.now_ms
    rows = [ledger.read()]
    register(5, features=OLD)
    quorum = apply(replay, [*rows, ledger.read()])
    known = quorum.controllers if role == "controller" else quorum.brokers
    assert (known[NodeId(5)].features, known[NodeId(5)].features_since_timestamp_ms) == (OLD, first)

    register(5, features=NEW)
    upgraded = ledger.now_ms
    quorum = apply(again(replay.to_bytes()), [ledger.read()])
    known = quorum.controllers if role == "controller" else quorum.brokers
    assert (known[NodeId(5)].features, known[NodeId(5)].features_since_timestamp_ms) == (NEW, upgraded)


def test_a_snapshot_does_not_begin_it_anew() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    records: list[LogEvent] = [
        ledger.controller(1, features=OLD),
        ledger.broker(5, features=OLD),
        ledger.broker(6, features=OLD),
    ]
    first = ledger.now_ms
    apply(replay, [ledger.read()])
    ledger.noops(50)
    records[2] = ledger.broker(6, features=NEW)
    ledger.events.clear()
    quorum = apply(replay, ledger.snapshot(records))

    assert quorum.controllers[NodeId(1)].features_since_timestamp_ms == first
    assert quorum.brokers[NodeId(5)].features_since_timestamp_ms == first
    assert quorum.brokers[NodeId(6)].features == NEW
    upgraded = quorum.brokers[NodeId(6)].features_since_timestamp_ms
    assert upgraded is not None
    assert upgraded > first, "at least since the snapshot"
