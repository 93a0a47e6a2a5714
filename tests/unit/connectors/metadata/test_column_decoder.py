"""Decoding by column gives the same events as decoding record by record, for any bytes."""

import subprocess
import sys
from dataclasses import fields
from random import Random
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.event_block import EventBlock
from connectors.event_columns import EventColumns
from connectors.log_event import LogAdvanced, PartitionChanged, PartitionSet, TopicCreated, Undecodable
from connectors.metadata import decoder, partition_layout
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.record_schemas import record_schemas
from tests.hostile.hostile_log import hostile_log, hostile_snapshot
from tests.unit.connectors.metadata.metadata_bytes import (
    batch,
    batch_of,
    control,
    ints,
    noop,
    tinylog,
    tinysnapshot,
    uvarint,
)
from tests.unit.connectors.metadata.metadata_record_schemas import kafka_values, values, written
from tests.unit.connectors.metadata.unusual_records import (
    UNUSUAL,
    UNUSUAL_FRAMING,
    USUAL,
    change,
    mutated_batches,
    partition,
)

NEVER = 1 << 60


def decode(
    payload: bytes, *, fewest: int, snapshot: bool = False, layout: int = partition_layout.FEWEST_ROWS
) -> EventColumns:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "FEWEST_RECORDS", fewest)
        patch.setattr(partition_layout, "FEWEST_ROWS", layout)
        if snapshot:
            return decode_snapshot_piece(payload, end_offset=90, epoch=4)
        return decode_records(payload, base_offset=None, last_offset=9, leader_epoch=1, high_watermark=9)


def blocks(table: EventColumns) -> list[EventBlock]:
    return [part for part in table.parts() if isinstance(part, EventBlock)]


def assert_equal_events(payload: bytes, *, snapshot: bool = False) -> EventColumns:
    """Checks that both ways give the same columns, with layouts of any record too; returns the latter."""
    by_record = decode(payload, fewest=NEVER, snapshot=snapshot)
    by_layout = decode(payload, fewest=1, snapshot=snapshot, layout=1)
    by_column = decode(payload, fewest=1, snapshot=snapshot)

    assert not any(isinstance(part, EventBlock) for part in by_record.parts())
    expected = by_record.columns()
    for table in (by_layout, by_column):
        assert len(table) == len(by_record)
        found = table.columns()
        for name, column in expected.items():
            assert found[name] == column, name
    return by_layout


@pytest.mark.parametrize("name", sorted(USUAL.keys() - {"126 replicas"}))
def test_a_usual_record_is_decoded_by_column(name: str) -> None:
    for values_ in ([USUAL[name]], [USUAL[name]] * 3, [noop(), USUAL[name], USUAL["partition v2"]]):
        payload = batch(values_, base_offset=30)
        table = assert_equal_events(payload)

        assert not any(isinstance(event, Undecodable) for event in table.events())
        (block,) = blocks(decode(payload, fewest=1, layout=1))
        assert not block.others, "no record went through the plain decoder"


def test_columns_have_the_types_that_a_block_declares() -> None:
    """Of another type, the same numbers would be packed as other bytes."""
    (block,) = blocks(decode(batch([*USUAL.values(), *UNUSUAL.values()]), fewest=1, layout=1))

    for columns in (block.partitions, block.topics, block.partitions.isr, block.partitions.elr):
        for each in fields(columns):
            if array := get_args(each.type):
                assert getattr(columns, each.name).dtype == get_args(array[1])[0], each.name
    assert block.partition_at.dtype == block.topic_at.dtype == block.other_at.dtype == np.int64


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_record_is_decoded_as_by_the_plain_decoder(name: str) -> None:
    """Between usual ones, so that its fields cannot shift theirs; and last, where nothing follows."""
    usual = [*USUAL.values()]
    for values_ in ([UNUSUAL[name]], [*usual, UNUSUAL[name], *usual], [*usual, UNUSUAL[name]]):
        for snapshot in (False, True):
            assert_equal_events(batch(values_, base_offset=30), snapshot=snapshot)


def test_usual_and_unusual_records_keep_their_order() -> None:
    mixed = [*USUAL.values(), *UNUSUAL.values()]
    Random(1).shuffle(mixed)
    payload = batch(mixed) + batch([control(0, b"\0\0")], base_offset=len(mixed)) + batch(mixed, base_offset=500)

    table = assert_equal_events(payload)

    types = {type(event) for event in table.events()}
    assert types == {PartitionSet, PartitionChanged, TopicCreated, Undecodable, LogAdvanced}


@pytest.mark.parametrize("name", UNUSUAL_FRAMING)
def test_a_batch_of_unusual_framing_is_decoded_in_its_place(name: str) -> None:
    records = UNUSUAL_FRAMING[name]
    usual = batch([*USUAL.values()], base_offset=30)
    count = len(USUAL)
    odd = batch_of(records, 1, base_offset=30 + count, epoch=2)
    noops = batch([noop()], base_offset=31 + count)
    more = batch([*USUAL.values()], base_offset=32 + count, epoch=1)
    last = batch_of(records, 1, base_offset=32 + 2 * count)

    for payload in (odd, usual + odd, usual + odd + noops + more, usual + odd + noops + more + last, odd + odd):
        assert_equal_events(payload)


@pytest.mark.parametrize("nodes", [[0, 1, 2, 3, 4, 5, 6, 3], [*range(20), 3]])
def test_the_nodes_of_a_refused_record_with_the_longest_list_are_in_no_event(nodes: list[int]) -> None:
    refused = (partition(replicas=ints(nodes)), partition(isr=ints(nodes)))
    table = assert_equal_events(batch([partition(), *refused, partition(isr=ints([3])), change()]))

    (block,) = blocks(table)
    assert block.partitions.isr.nodes.tolist() == [1, 2, 3]


@pytest.mark.parametrize("count", [3, 8, 9, 30])
def test_a_refused_list_refuses_no_other_of_its_length(count: int) -> None:
    good, bad = ([*range(count)], [*range(count - 1), 0])
    table = assert_equal_events(batch([partition(replicas=ints(nodes)) for nodes in (good, bad, good)]))

    (block,) = blocks(table)
    assert (len(block.partitions), len(block.others)) == (2, 1)


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
    table = assert_equal_events(file()[0], snapshot=snapshot)

    by_column = sum(len(block.partitions) for block in blocks(table))
    expected = file()[1]["by_type"]
    assert by_column == expected["PARTITION_RECORD"] + expected.get("PARTITION_CHANGE_RECORD", 0)


@pytest.mark.parametrize(("file", "snapshot"), [(tinylog, False), (tinysnapshot, True)])
def test_mutated_batches_that_kafka_wrote_are_decoded_alike(file: Any, snapshot: bool) -> None:
    for payload in mutated_batches(file()[0], count=60):
        assert_equal_events(payload, snapshot=snapshot)


@pytest.mark.parametrize("first", range(0, 3000, 500))
def test_hostile_logs_and_snapshots_are_decoded_alike(first: int) -> None:
    for seed in range(first, first + 500):
        rng = Random(seed)
        assert_equal_events(hostile_log(rng, base_offset=5, secret="s3cret").payload)
        if seed % 4 == 0:
            assert_equal_events(hostile_snapshot(rng, secret="s3cret").payload, snapshot=True)


@pytest.mark.parametrize(("api_key", "version"), [(key, version) for key in (3, 5) for version in (0, 1, 2)])
@settings(max_examples=40)
@given(st.data())
def test_any_partition_records_are_decoded_alike(api_key: int, version: int, data: st.DataObject) -> None:
    fields = record_schemas().records[api_key].versions[version]
    drawn = data.draw(st.lists(kafka_values(fields) | values(fields), min_size=1, max_size=6))

    head = uvarint(1) + uvarint(api_key) + uvarint(version)
    assert_equal_events(batch([head + written(fields, value) for value in drawn]))


def test_small_batches_are_decoded_together_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, each would cost numpy's fixed cost; all together, they would take memory without a bound."""
    one = batch([partition()])
    monkeypatch.setattr(decoder, "MOST_BYTES", 2 * len(one))

    table = decode(b"".join(batch([partition()], base_offset=at) for at in range(5)), fewest=2, layout=1)

    assert [len(block.partitions) for block in blocks(table)] == [2, 2]


def test_few_records_are_decoded_without_numpy() -> None:
    """An idle second is one NoOp: numpy's import and its fixed cost would be most of its work."""
    program = (
        "import sys\n"
        "from connectors.metadata.decoder import decode_records\n"
        "payload = bytes.fromhex(sys.argv[1])\n"
        "decode_records(payload, base_offset=0, last_offset=0, leader_epoch=1, high_watermark=1)\n"
        "print('numpy' in sys.modules)\n"
    )
    for count, imported in ((1, "False"), (decoder.FEWEST_RECORDS, "True")):
        payload = batch([partition()] * count).hex()
        done = subprocess.run([sys.executable, "-c", program, payload], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == imported
