"""Decoding with layouts gives the same events as decoding by schema, for any bytes."""

from random import Random
from typing import Any

import pytest

from connectors.metadata import run_rows
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.observations.log_event import LogAdvanced, PartitionChanged, PartitionSet, TopicCreated, Undecodable
from connectors.observations.partition_run import DecodedEvents, PartitionRun
from tests.unit.connectors.metadata.metadata_bytes import (
    batch,
    control,
    ints,
    noop,
    tinylog,
    tinysnapshot,
)
from tests.unit.connectors.metadata.test_record_layouts import forget_layouts, without_layouts
from tests.unit.connectors.metadata.unusual_records import (
    UNUSUAL,
    USUAL,
    change,
    numbers,
    partition,
)


def decode(payload: bytes, *, snapshot: bool = False) -> DecodedEvents:
    if snapshot:
        return decode_snapshot_piece(payload, end_offset=90, epoch=4)
    return decode_records(payload, base_offset=None, last_offset=9, leader_epoch=1, high_watermark=9)


def runs(events: DecodedEvents) -> list[PartitionRun]:
    return [item for item in events if isinstance(item, PartitionRun)]


def assert_equal_events(payload: bytes, *, snapshot: bool = False) -> DecodedEvents:
    """Checks that both ways give the same events, also while layouts are found; returns those with layouts.

    The second time with layouts, the values of nearly all partition records are known.
    """
    with without_layouts():
        by_schema = decode(payload, snapshot=snapshot)
    forget_layouts()
    first, second = decode(payload, snapshot=snapshot), decode(payload, snapshot=snapshot)

    assert not runs(by_schema)
    assert [*first.events()] == [*second.events()] == [*by_schema]
    return second


@pytest.mark.parametrize("name", sorted(USUAL.keys() - {"126 replicas", "null elr"}))
def test_a_usual_record_is_in_a_run(name: str) -> None:
    for values_ in ([USUAL[name]], [USUAL[name]] * 3, [noop(), USUAL[name], USUAL["partition v2"]]):
        events = assert_equal_events(batch(values_, base_offset=30))

        assert not any(isinstance(event, Undecodable) for event in events.events())


def test_usual_and_unusual_records_keep_their_order() -> None:
    mixed = [*USUAL.values(), *UNUSUAL.values()]
    Random(1).shuffle(mixed)
    payload = batch(mixed) + batch([control(0, b"\0\0")], base_offset=len(mixed)) + batch(mixed, base_offset=500)

    table = assert_equal_events(payload)

    types = {type(event) for event in table.events()}
    assert types == {PartitionSet, PartitionChanged, TopicCreated, Undecodable, LogAdvanced}


@pytest.mark.parametrize("count", [3, 8, 9, 30])
def test_a_refused_list_refuses_no_other_of_its_length(count: int) -> None:
    good, bad = ([*range(count)], [*range(count - 1), 0])
    events = assert_equal_events(batch([partition(replicas=ints(nodes)) for nodes in (good, bad, good)]))

    assert [event.type for event in events.events()] == [
        "partition-set",
        "undecodable",
        "partition-set",
        "log-advanced",
    ]


def test_epochs_and_timestamps_are_those_of_each_batch() -> None:
    payload = b"".join(
        batch([partition()] * 3, base_offset=3 * at, epoch=9 - at, timestamp=1_790_000_000_000 + at) for at in range(4)
    )

    *events, advanced = assert_equal_events(payload).events()

    assert [event.at.leader_epoch for event in events if isinstance(event, PartitionSet)] == [9] * 3 + [8] * 3 + [
        7
    ] * 3 + [6] * 3
    assert isinstance(advanced, LogAdvanced)
    assert (advanced.first_epoch, advanced.last_epoch, advanced.newest_timestamp_ms) == (9, 6, 1_790_000_000_003)
    assert advanced.epoch_drop is not None
    assert advanced.epoch_drop.offset == 3


@pytest.mark.parametrize(("file", "snapshot"), [(tinylog, False), (tinysnapshot, True)])
def test_files_that_kafka_wrote_are_decoded_alike(file: Any, snapshot: bool) -> None:
    events = assert_equal_events(file()[0], snapshot=snapshot)

    in_runs = sum(map(len, runs(events)))
    expected = file()[1]["by_type"]
    names = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "TOPIC_RECORD")
    assert 0.95 * sum(expected.get(name, 0) for name in names) < in_runs


def test_records_of_known_values_are_read_by_their_ids_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_layouts()
    decode(batch([partition(), change(t0=ints([1, 2]))] * 3))
    monkeypatch.setattr(run_rows, "_nodes", pytest.fail)
    key = (8).to_bytes(4, "big") + bytes(range(9, 25))

    first, second, advanced = decode(
        batch([partition(key=key, leadership=numbers(1, 40, 90)), change(key=key, t0=ints([1, 2]))])
    ).events()

    assert isinstance(first, PartitionSet)
    assert (first.partition, first.partition_leader_epoch, first.partition_epoch, first.leader) == (8, 40, 90, 1)
    assert isinstance(second, PartitionChanged)
    assert (second.partition, second.topic_id, second.isr) == (8, first.topic_id, (1, 2))
    assert advanced.type == "log-advanced"


def test_odd_partition_records_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rows, "_MOST_LAYOUTS", 3)
    monkeypatch.setattr(run_rows, "_MOST_KNOWN", 3)
    forget_layouts()

    for size in range(1, 10):
        assert_equal_events(batch([partition(replicas=ints([*range(at, at + size)])) for at in range(10)] * 2))

    known = [each for of_head in run_rows._known.values() for each in of_head]
    assert len(known) <= 3
    assert all(len(each.values) <= 3 for each in known)
