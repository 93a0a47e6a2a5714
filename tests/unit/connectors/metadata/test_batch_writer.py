"""Written batches and control records: what Kafka wrote is written again byte by byte."""

import pytest

from connectors.metadata.batch_writer import (
    ControlRecordType,
    RecordContent,
    control_record,
    unsigned_varint,
    write_batch,
)
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.field_readers import field_reader, read_body
from connectors.metadata.record_framing import control_type, framed_records
from connectors.metadata.record_schemas import record_schemas
from tests.unit.connectors.metadata.metadata_bytes import batch, control, data, noop, tinylog, tinysnapshot


def batches(content: bytes) -> list[RecordBatch]:
    found = [each for each in scan(content) if isinstance(each, RecordBatch)]
    assert found
    return found


def contents(content: bytes, of: RecordBatch) -> list[RecordContent]:
    return [
        RecordContent(
            None if record.key is None else content[slice(*record.key)],
            b"" if record.value is None else content[slice(*record.value)],
        )
        for record in framed_records(content, of)
    ]


def test_batches_of_kafka_are_written_again_with_the_same_records() -> None:
    for content, _ in (tinylog(), tinysnapshot()):
        for one in batches(content)[:200]:
            records = contents(content, one)
            written = write_batch(
                records,
                base_offset=one.base_offset,
                leader_epoch=one.leader_epoch,
                timestamp_ms=one.max_timestamp,
                control=one.is_control,
            )
            (again,) = scan(written, expected=one.base_offset)
            assert isinstance(again, RecordBatch)
            assert (again.leader_epoch, again.is_control) == (one.leader_epoch, one.is_control)
            assert contents(written, again) == records


def test_control_records_of_kafka_are_written_again_byte_by_byte() -> None:
    content, _ = tinysnapshot()
    seen = set()
    for one in batches(content):
        for record in framed_records(content, one) if one.is_control else ():
            assert record.key is not None
            assert record.value is not None
            type_ = ControlRecordType(control_type(content, record.key))
            value = content[slice(*record.value)]
            values = read_body(field_reader(record_schemas().control[type_].versions[0][0]), value)
            assert control_record(type_, values) == (content[slice(*record.key)], value)
            seen.add(type_)
    assert seen >= {ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER}


@pytest.mark.parametrize(("value", "expected"), [(0x7F, b"\x7f"), (0x80, b"\x80\1"), (0x3FFF, b"\xff\x7f")])
def test_an_unsigned_varint_is_as_short_as_its_value_allows(value: int, expected: bytes) -> None:
    assert unsigned_varint(value) == expected


def test_large_batch_and_key_are_framed_as_kafka_does() -> None:
    values = [noop(), data(20, 0, b"\0" * 300)] * 100
    expected = batch(values, base_offset=1, epoch=2, timestamp=77)
    keyed = batch([control(3, b"x" * 200)], base_offset=1, epoch=2, timestamp=77)

    at = {"base_offset": 1, "leader_epoch": 2, "timestamp_ms": 77}
    assert write_batch([RecordContent(None, value) for value in values], **at, control=False) == expected
    assert write_batch([RecordContent(*control(3, b"x" * 200))], **at, control=True) == keyed
