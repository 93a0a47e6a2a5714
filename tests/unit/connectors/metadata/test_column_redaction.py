"""Redaction by column overwrites the same bytes as redaction record by record, for any bytes."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.metadata import column_redaction, partition_layout, redaction
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import FramedRecord
from connectors.metadata.record_schemas import record_schemas
from connectors.metadata.redaction import redact
from tests.hostile.hostile_log import hostile_log, hostile_snapshot
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, data, text, tinylog, tinysnapshot, uvarint
from tests.unit.connectors.metadata.metadata_record_schemas import kafka_values, values, written
from tests.unit.connectors.metadata.unusual_records import UNUSUAL, UNUSUAL_FRAMING, USUAL, mutated_batches

SECRET = "hunter2"
CONFIGS = {
    "value": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET) + b"\0"),
    "null value": data(4, 0, b"\2" + text("a") + text("b") + text(None) + b"\0"),
    "empty value": data(4, 0, b"\2" + text("") + text("") + text("") + b"\0"),
    "already redacted": data(4, 0, b"\2" + text("a") + text("b") + text("*" * 9) + b"\0"),
    "long value": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET * 2000) + b"\0"),
    "longer than Kafka's strings": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET * 5000) + b"\0"),
    "long value, partly redacted": data(4, 0, b"\2" + text("a") + text("b") + text("*" * 300 + SECRET) + b"\0"),
    "longest value by column": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET * 18) + b"\0"),
    "shortest other value": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET * 18 + "a") + b"\0"),
    "long value, then UTF-8": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET * 50 + "é") + b"\0"),
    "value in UTF-8": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET + "é") + b"\0"),
    "a tag": data(4, 0, b"\2" + text("a") + text("b") + text("c") + b"\1\7\x07" + SECRET.encode()),
    "bytes after it": data(4, 0, b"\2" + text("a") + text("b") + text("c") + b"\0" + SECRET.encode()),
    "another version": data(4, 1, b"\2" + text("a") + text("b") + text(SECRET) + b"\0"),
    "scram": data(11, 0, text("alice") + b"\1" + text(SECRET) * 3 + (4096).to_bytes(4, "big") + b"\0"),
}


def assert_same_bytes(payload: bytes) -> bytes:
    """Checks that both ways write the same bytes; returns them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "FEWEST_RECORDS", 1 << 60)
        by_record = redact(payload)
        patch.setattr(redaction, "FEWEST_RECORDS", 1)
        by_column = redact(payload)
        patch.setattr(partition_layout, "FEWEST_ROWS", 1)
        by_layout = redact(payload)

    assert by_layout == by_column == by_record
    assert (by_column is payload) == (by_record is payload), "the same object only if nothing changed"
    return by_column


@pytest.mark.parametrize("name", USUAL)
def test_a_usual_record_is_found_complete_by_column(name: str) -> None:
    payload = batch([USUAL[name]] * 3)

    def fail(record: FramedRecord) -> tuple[tuple[int, int, bytes], ...]:
        raise AssertionError(f"record {record.delta} was left to the plain way")

    assert not column_redaction.run_edits(payload, _batches(payload), fail).by_batch
    assert assert_same_bytes(payload) is payload


def _batches(payload: bytes) -> list[RecordBatch]:
    return [item for item in scan(payload) if isinstance(item, RecordBatch)]


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_record_is_redacted_as_by_the_plain_way(name: str) -> None:
    usual = [*USUAL.values()]
    for values_ in ([UNUSUAL[name]], [*usual, UNUSUAL[name], *usual], [*usual, UNUSUAL[name]]):
        assert_same_bytes(batch(values_, base_offset=30))


@pytest.mark.parametrize("name", CONFIGS)
def test_credentials_are_redacted_as_by_the_plain_way(name: str) -> None:
    usual = [*USUAL.values()]
    for values_ in ([CONFIGS[name]], [*usual, CONFIGS[name], *usual], [CONFIGS[name]] * 3):
        after = assert_same_bytes(batch(values_) + batch(values_, base_offset=len(values_)))

        assert SECRET.encode() not in after
        assert len(_batches(after)) == 2, "each CRC is valid"
        assert assert_same_bytes(after) is after


@pytest.mark.parametrize("name", UNUSUAL_FRAMING)
def test_a_batch_of_unusual_framing_is_redacted_in_its_place(name: str) -> None:
    usual = batch([*USUAL.values(), *CONFIGS.values()], base_offset=30)
    count = len(USUAL) + len(CONFIGS)
    odd = batch_of(UNUSUAL_FRAMING[name], 1, base_offset=30 + count)
    damaged = bytearray(batch([*CONFIGS.values()], base_offset=31 + count))
    damaged[-1] ^= 1
    more = batch([*CONFIGS.values()], base_offset=31 + count + len(CONFIGS))

    for payload in (odd, usual + odd, usual + odd + damaged + more, odd + odd):
        assert SECRET.encode() not in assert_same_bytes(payload)


@pytest.mark.parametrize("file", [tinylog, tinysnapshot])
def test_files_that_kafka_wrote_are_redacted_alike(file: Any) -> None:
    assert_same_bytes(assert_same_bytes(file()[0]))
    for payload in mutated_batches(file()[0], count=40):
        assert_same_bytes(payload)


@pytest.mark.parametrize("first", range(0, 3000, 500))
def test_hostile_logs_and_snapshots_are_redacted_alike(first: int) -> None:
    for seed in range(first, first + 500):
        rng = Random(seed)
        assert_same_bytes(hostile_log(rng, base_offset=5, secret=SECRET).payload)
        if seed % 4 == 0:
            assert_same_bytes(hostile_snapshot(rng, secret=SECRET).payload)


@pytest.mark.parametrize(
    ("api_key", "version"), [*((key, version) for key in (3, 5) for version in (0, 1, 2)), (2, 0), (4, 0)]
)
@settings(max_examples=30)
@given(st.data())
def test_any_frequent_records_are_redacted_alike(api_key: int, version: int, data: st.DataObject) -> None:
    fields = record_schemas().records[api_key].versions[version]
    drawn = data.draw(st.lists(kafka_values(fields) | values(fields), min_size=1, max_size=6))

    head = uvarint(1) + uvarint(api_key) + uvarint(version)
    assert_same_bytes(batch([head + written(fields, value) for value in drawn]))
