"""Partition records read by hand give what the reader made from Kafka's layout gives, for any bytes."""

from struct import error as StructError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import UndecodableError
from connectors.event_columns import event_row
from connectors.log_event import PartitionChanged, RecordPosition
from connectors.metadata.decoder import decode
from connectors.metadata.field_readers import field_reader, read_body
from connectors.metadata.partition_fast_path import PARTITION_READERS, UnusualShape
from connectors.metadata.record_schemas import record_schemas
from connectors.metadata.record_to_event import CONVERTERS
from rules.model.identifiers import Epoch, Millis, Offset
from tests.unit.connectors.metadata.metadata_bytes import batch, data
from tests.unit.connectors.metadata.metadata_record_schemas import values, written

AT = RecordPosition(offset=Offset(5), leader_epoch=Epoch(2), timestamp_ms=Millis(1000))
BY_HAND = sorted(PARTITION_READERS)
PADDING = b"\1\2\3" * 9


def by_layout(api_key: int, version: int, body: bytes) -> tuple[object, ...] | None:
    """What the slow way gives, as a row; None where it refuses."""
    layout = record_schemas().records[api_key]
    try:
        return event_row(CONVERTERS[layout.name](AT, read_body(field_reader(layout.versions[version]), body)))
    except UndecodableError:
        return None


def by_hand(api_key: int, version: int, body: bytes) -> tuple[object, ...] | None:
    """What the fast way gives in the middle of a chunk; None where it leaves it to the slow way."""
    type_, reader = PARTITION_READERS[api_key, version]
    try:
        tail = reader(PADDING + body + PADDING, len(PADDING), len(PADDING) + len(body))
    except (IndexError, StructError, UnusualShape):
        return None
    return (type_, AT.offset, AT.leader_epoch, AT.timestamp_ms, AT.snapshot, *tail)


def test_every_version_that_the_layouts_know_is_read_by_hand() -> None:
    assert [(key, version) for key in (3, 5) for version in sorted(record_schemas().records[key].versions)] == BY_HAND


@pytest.mark.parametrize(("api_key", "version"), BY_HAND)
@given(st.data())
def test_records_that_kafka_could_write_give_the_same_or_are_left_to_the_slow_way(
    api_key: int, version: int, data: st.DataObject
) -> None:
    fields = record_schemas().records[api_key].versions[version]
    value = data.draw(values(fields))

    body = written(fields, value)

    fast, slow = by_hand(api_key, version, body), by_layout(api_key, version, body)
    assert fast in (None, slow)
    meaningless = value.get("leader_recovery_state", 0) not in (0, 1)
    null_directories = value.get("directories", []) is None
    assert fast == slow or value.get("extra") or meaningless or null_directories, "the usual shape is read fast"


@pytest.mark.parametrize(("api_key", "version"), BY_HAND)
@given(st.data(), st.integers(0, 500), st.integers(0, 7), st.integers(0, 30))
def test_damaged_records_are_never_read_by_hand_as_something_else(
    api_key: int, version: int, data: st.DataObject, at: int, bit: int, cut: int
) -> None:
    fields = record_schemas().records[api_key].versions[version]
    body = bytearray(written(fields, data.draw(values(fields))))
    body[at % len(body)] ^= 1 << bit
    damaged = bytes(body)[: len(body) - min(cut, 20) // 4]

    assert by_hand(api_key, version, damaged) in (None, by_layout(api_key, version, damaged))


@pytest.mark.parametrize("replicas", [0, 31, 32, 126, 127, 200])
def test_lists_of_any_length_come_out_whichever_way_reads_them(replicas: int) -> None:
    fields = record_schemas().records[5].versions[2]
    value = {"partition_id": 1, "topic_id": bytes(range(16)), "isr": list(range(replicas))}
    record = data(5, 2, written(fields, value))

    table = decode(batch([record]), kind="records", base_offset=0, last_offset=0, leader_epoch=1, high_watermark=1)

    changed, _ = table.events()
    assert isinstance(changed, PartitionChanged)
    assert changed.isr == tuple(range(replicas))
