"""The rows of `kraft-metadata`: any bytes give rows that fit the schema."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.logdir.log_byte_ranges import LogByteRange
from connectors.metadata.record_schemas import FieldType
from streaming.dataframes.metadata_log_source import RECORD, record_batches
from streaming.pipeline.arrow_schema import arrow_schema
from tests.kips.kip_records import CHANGE, PARTITION
from tests.unit.connectors.metadata.metadata_bytes import batch, control, data, tagged, tinylog, uvarint
from tests.unit.connectors.metadata.metadata_record_schemas import EVERY_RECORD, values, written

LOG = tinylog()[0][:30_000]


def rows(content: bytes) -> list[dict[str, object]]:
    part = LogByteRange(path=Path("/log/0.log"), start=0, end=len(content))
    batches = list(record_batches(content, part, arrow_schema(RECORD), topics={}))
    found: list[dict[str, object]] = pa.Table.from_batches(batches).to_pylist() if batches else []
    return found


@settings(deadline=None, max_examples=200)
@given(type_=st.integers(0, 2**35 - 1), version=st.integers(0, 2**35 - 1), body=st.binary(max_size=40))
def test_any_type_and_version_is_a_row(type_: int, version: int, body: bytes) -> None:
    value = b"\x01" + uvarint(type_) + uvarint(version) + body

    assert len(rows(batch([value]))) == 1


@pytest.mark.parametrize(("name", "api_key", "version", "fields"), EVERY_RECORD)
@settings(deadline=None, max_examples=10)
@given(drawn=st.data())
def test_any_record_that_kafka_could_write_is_a_row(
    name: str, api_key: int, version: int, fields: FieldType, drawn: st.DataObject
) -> None:
    (row,) = rows(batch([data(api_key, version, written(fields, drawn.draw(values(fields))))]))

    assert row["reason"] is None
    assert row["version"] == version


@pytest.mark.parametrize(
    ("api_key", "body", "state"),
    [
        (3, PARTITION + tagged(), 0),
        (3, PARTITION + tagged(t0=b"\1"), 1),
        (5, CHANGE + tagged(), None),
        (5, CHANGE + tagged(t5=b"\0"), 0),
        (5, CHANGE + tagged(t5=b"\1"), 1),
    ],
)
def test_an_absent_recovery_state_is_0_in_a_partition_and_null_in_a_change(
    api_key: int, body: bytes, state: int | None
) -> None:
    (row,) = rows(batch([data(api_key, 0, body)]))

    assert row["leader_recovery_state"] == state


@settings(deadline=None, max_examples=100)
@given(kind=st.integers(0, 2**15 - 1), body=st.binary(max_size=40))
def test_any_control_record_is_a_row(kind: int, body: bytes) -> None:
    assert len(rows(batch([control(kind, body)]))) == 1


@settings(deadline=None, max_examples=150)
@given(edits=st.lists(st.tuples(st.integers(61, 29_999), st.integers(0, 255)), max_size=4))
def test_any_bytes_are_rows(edits: list[tuple[int, int]]) -> None:
    content = bytearray(LOG)
    for position, value in edits:
        content[position] = value

    assert rows(bytes(content))


def test_zeros_at_the_end_are_no_row_and_zeros_before_other_bytes_are_one() -> None:
    record = batch([b"\x01\x14\x00"])

    assert len(rows(record)) == 1
    assert len(rows(record + bytes(5_000))) == 1
    assert [row["type"] for row in rows(record + bytes(5_000) + b"\x01")] == ["NO_OP_RECORD", None]
