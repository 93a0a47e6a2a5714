"""Fields that are rendered by column have the text of the fields that `dump_records` yields, for any bytes."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.metadata.dump_log import DumpedRecord, DumpEntry, DumpProgress, RecordText, dump_records
from connectors.metadata.dump_text import dump_texts
from connectors.metadata.partition_text import FieldStyle
from connectors.metadata.record_schemas import record_schemas
from tests.hostile.hostile_log import hostile_log, hostile_snapshot
from tests.unit.connectors.metadata.metadata_bytes import (
    batch,
    batch_of,
    control,
    data,
    noop,
    tagged,
    text,
    tinylog,
    tinysnapshot,
    uvarint,
)
from tests.unit.connectors.metadata.metadata_record_schemas import kafka_values, written
from tests.unit.connectors.metadata.unusual_records import UNUSUAL, UNUSUAL_FRAMING, USUAL, mutated_batches, partition

STYLES: tuple[FieldStyle, ...] = ("json", "text")
OTHERS = {
    "noop": noop(),
    "noop with a tag": data(20, 0, tagged(t3=b"a")),
    "config of a long name": data(4, 0, b"\2" + text("a" * 300) + text("b" * 130) + text("c") + b"\0"),
    "config of a topic whose length looks like a name": data(
        4, 0, b"\2" + text("a" * 6_149) + text("b") + text("c") + b"\0"
    ),
    "config of a name whose length looks like a name": data(
        4, 0, b"\2" + text("a") + text("b" * 6_149) + text("c") + b"\0"
    ),
    "config of a topic with a quote": data(4, 0, b"\2" + text('"') + text("b") + text("c") + b"\0"),
    "config with an empty value": data(4, 0, b"\xfe" + text("a") + text("b") + text("") + b"\0"),
    "config with an empty name": data(4, 0, b"\2" + text("") + text("b") + text("c") + b"\0"),
    "topic of a length in two bytes": data(2, 0, b"\x82\0a" + bytes(range(16)) + b"\0"),
    "config of a topic's length in two bytes": data(4, 0, b"\2" + b"\x82\0a" + text("b") + text("c") + b"\0"),
    "config of a name's length in two bytes": data(4, 0, b"\2" + text("a") + b"\x82\0b" + text("c") + b"\0"),
    "config of a value's length in two bytes": data(4, 0, b"\2" + text("a") + text("b") + b"\x82\0c" + b"\0"),
    "config of an empty value in two bytes": data(4, 0, b"\2" + text("a") + text("b") + b"\x81\0" + b"\0"),
    "config of a null value in two bytes": data(4, 0, b"\2" + text("a") + text("b") + b"\x80\0" + b"\0"),
    "partition with tags that equal their defaults": partition(tags=tagged(t0=b"\0", t1=b"\0", t2=b"\0")),
    "partition with an empty elr": partition(tags=tagged(t1=b"\1")),
    "directories that are zero": partition(directories=uvarint(4) + bytes(48)),
}

WITH_DEFAULTS = {"recovering, elr", "null elr"}
"""PartitionRecords with tagged fields, which are printed only if they differ from their defaults."""


def rendered(entry: DumpEntry | RecordText, style: FieldStyle) -> object:
    """Returns a record with its fields as text; other entries as they are."""
    if not isinstance(entry, DumpedRecord) or entry.data is None:
        return entry
    if style == "json":
        fields = json.dumps(entry.data, separators=(",", ":"))
    else:
        fields = " ".join(f"{name}={json.dumps(value)}" for name, value in entry.data.items() if name != "version")
    return (entry.offset, entry.epoch, entry.timestamp, entry.type, entry.version, fields)


def assert_same_text(segment: bytes) -> int:
    """Checks that both ways give the same entries in both styles; returns how many were rendered by column."""
    by_column = 0
    for style in STYLES:
        for secrets in (False, True):
            entries = [each for each in dump_texts(segment, style=style, secrets=secrets) if _is_record(each)]
            expected = [each for each in dump_records(segment, secrets=secrets) if _is_record(each)]

            assert [rendered(each, style) for each in entries] == [rendered(each, style) for each in expected]
            by_column = sum(isinstance(each, RecordText) for each in entries)
    return by_column


def _is_record(entry: DumpEntry | RecordText) -> bool:
    return not isinstance(entry, DumpProgress)


@pytest.mark.parametrize("name", [*USUAL, *UNUSUAL, *OTHERS])
def test_one_record_among_others_is_rendered_alike(name: str) -> None:
    record = (USUAL | UNUSUAL | OTHERS)[name]
    usual = [*USUAL.values()]
    for values in ([record], [record] * 3, [*usual, record, *usual], [*usual, record]):
        assert_same_text(batch(values, base_offset=30))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", sorted({*USUAL, "noop", "config", "config with a null value"} - WITH_DEFAULTS))
def test_a_usual_record_is_rendered_by_column(name: str, style: FieldStyle) -> None:
    header = batch([control(3, b"\0\0" + bytes(8) + b"\0")])
    segment = header + batch([(USUAL | UNUSUAL | OTHERS)[name]] * 3, base_offset=1)

    (_, *texts, end) = dump_texts(segment, style=style, secrets=False)

    assert [type(text) for text in texts] == [RecordText] * 3
    assert end == DumpProgress(position=len(segment))


def test_all_records_in_one_batch_keep_their_order() -> None:
    mixed = [*USUAL.values(), *UNUSUAL.values(), *OTHERS.values()]
    Random(3).shuffle(mixed)
    footer = batch([control(4, b"\0\0\0")], base_offset=len(mixed))

    assert assert_same_text(batch(mixed) + footer + batch(mixed, base_offset=900)) > 2 * len(USUAL) - 8


@pytest.mark.parametrize("name", UNUSUAL_FRAMING)
def test_a_batch_of_unusual_framing_is_rendered_in_its_place(name: str) -> None:
    usual = batch([*USUAL.values()], base_offset=30)
    odd = batch_of(UNUSUAL_FRAMING[name], 1, base_offset=30 + len(USUAL))
    damaged = bytearray(batch([noop()], base_offset=31 + len(USUAL)))
    damaged[-1] ^= 1

    for segment in (odd, usual + odd, odd + usual, usual + odd + bytes(damaged) + usual, usual + odd + odd[:70]):
        assert_same_text(segment)


def test_timestamps_are_those_of_the_batch() -> None:
    log_append_time = 0x08
    segment = batch([partition()], timestamp=5) + batch([partition()], base_offset=1, attributes=log_append_time)

    assert assert_same_text(segment) == 2


@pytest.mark.parametrize("file", [tinylog, tinysnapshot])
def test_files_that_kafka_wrote_are_rendered_alike(file: Any) -> None:
    expected = file()[1]
    assert assert_same_text(file()[0]) > 0.9 * expected["data_records"]
    for segment in mutated_batches(file()[0], count=15):
        assert_same_text(segment)


def test_hostile_logs_and_snapshots_are_rendered_alike() -> None:
    for seed in range(700):
        rng = Random(seed)
        make = hostile_snapshot(rng, secret="s") if seed % 5 == 0 else hostile_log(rng, base_offset=5, secret="s")
        assert_same_text(make.payload)


@pytest.mark.parametrize(("api_key", "version"), [(key, version) for key in (3, 5) for version in (0, 1, 2)])
@settings(max_examples=40)
@given(st.data())
def test_any_partition_record_is_rendered_alike(api_key: int, version: int, data: st.DataObject) -> None:
    fields = record_schemas().records[api_key].versions[version]
    drawn = data.draw(st.lists(kafka_values(fields), min_size=1, max_size=4))

    head = uvarint(1) + uvarint(api_key) + uvarint(version)
    assert_same_text(batch([head + written(fields, value) for value in drawn]))
