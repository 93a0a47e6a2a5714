"""The fast readers of partition records give what the readers built from the schema give, for any bytes."""

from struct import error as StructError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import UndecodableError
from connectors.event_columns import event_row
from connectors.log_event import PartitionChanged, RecordPosition
from connectors.metadata.decoder import decode_records
from connectors.metadata.field_readers import field_reader, read_body
from connectors.metadata.partition_fast_path import PARTITION_READERS, UnusualShape
from connectors.metadata.record_schemas import record_schemas
from connectors.metadata.record_to_event import CONVERTERS
from rules.model.identifiers import Epoch, Millis, Offset
from tests.unit.connectors.metadata.metadata_bytes import batch, data
from tests.unit.connectors.metadata.metadata_record_schemas import kafka_values, values, written
from tests.unit.connectors.metadata.unusual_records import PARTITIONS, USUAL

AT = RecordPosition(offset=Offset(5), leader_epoch=Epoch(2), timestamp_ms=Millis(1000))
FAST_VERSIONS = sorted(PARTITION_READERS)
PADDING = b"\1\2\3" * 9


def slow(api_key: int, version: int, body: bytes) -> tuple[object, ...] | None:
    """Returns the row from the schema's reader; None if it rejects the record."""
    schema = record_schemas().records[api_key]
    try:
        return event_row(CONVERTERS[schema.name](AT, read_body(field_reader(schema.versions[version]), body)))
    except UndecodableError:
        return None


def fast(api_key: int, version: int, body: bytes) -> tuple[object, ...] | None:
    """Returns the row from the fast reader, in the middle of a chunk; None if it leaves the record to the slow one."""
    type_, reader = PARTITION_READERS[api_key, version]
    try:
        columns = reader(PADDING + body + PADDING, len(PADDING), len(PADDING) + len(body))
    except (IndexError, StructError, UnusualShape):
        return None
    return (type_, AT.offset, AT.leader_epoch, AT.timestamp_ms, AT.snapshot, *columns)


def test_every_version_that_the_layouts_know_is_read_fast() -> None:
    assert [
        (key, version) for key in (3, 5) for version in sorted(record_schemas().records[key].versions)
    ] == FAST_VERSIONS


@pytest.mark.parametrize("name", PARTITIONS)
def test_fast_and_slow_readers_agree_on_usual_and_unusual_records(name: str) -> None:
    by_fast, by_slow = fast(*PARTITIONS[name]), slow(*PARTITIONS[name])

    assert by_fast in (None, by_slow)
    if name in USUAL:
        assert by_fast is not None


@pytest.mark.parametrize(("api_key", "version"), FAST_VERSIONS)
@given(st.data())
def test_fast_and_slow_readers_agree_on_records_that_kafka_could_write(
    api_key: int, version: int, data: st.DataObject
) -> None:
    fields = record_schemas().records[api_key].versions[version]
    value = data.draw(kafka_values(fields))

    body = written(fields, value)

    by_fast, by_slow = fast(api_key, version, body), slow(api_key, version, body)
    assert by_fast in (None, by_slow)
    undefined_state = value.get("leader_recovery_state", 0) not in (0, 1)
    null_directories = value.get("directories", []) is None
    assert by_fast == by_slow or value.get("extra") or undefined_state or null_directories, "the fast reader reads it"


@pytest.mark.parametrize(("api_key", "version"), FAST_VERSIONS)
@given(st.data(), st.integers(0, 500), st.integers(0, 7), st.integers(0, 30))
def test_fast_readers_never_misread_a_damaged_record(
    api_key: int, version: int, data: st.DataObject, at: int, bit: int, cut: int
) -> None:
    fields = record_schemas().records[api_key].versions[version]
    body = bytearray(written(fields, data.draw(values(fields) | kafka_values(fields))))
    body[at % len(body)] ^= 1 << bit
    damaged = bytes(body)[: len(body) - min(cut, 20) // 4]

    assert fast(api_key, version, damaged) in (None, slow(api_key, version, damaged))


@pytest.mark.parametrize("replicas", [0, 31, 32, 126, 127, 200])
def test_lists_of_any_length_are_decoded_by_either_reader(replicas: int) -> None:
    fields = record_schemas().records[5].versions[2]
    value = {"partition_id": 1, "topic_id": bytes(range(16)), "isr": list(range(replicas))}
    record = data(5, 2, written(fields, value))

    table = decode_records(batch([record]), base_offset=0, last_offset=0, leader_epoch=1, high_watermark=1)

    changed, _ = table.events()
    assert isinstance(changed, PartitionChanged)
    assert changed.isr == tuple(range(replicas))
