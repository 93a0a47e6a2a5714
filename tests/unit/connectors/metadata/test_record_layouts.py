"""Records that have a layout are decoded, redacted and printed as by their schema's reader, for any bytes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.metadata import record_layouts, run_rows
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.dump_log import DumpedRecord, LogSummary, RecordText, dump_texts
from connectors.metadata.record_layouts import read_records
from connectors.metadata.record_rendering import FieldStyle
from connectors.metadata.record_schemas import record_schemas
from connectors.metadata.redaction import redact
from connectors.observations.log_event import LogAdvanced, PartitionChanged, PartitionSet
from connectors.observations.observation import Event, event_type
from connectors.observations.partition_run import DecodedEvents, PartitionRun
from tests.conftest import examples
from tests.hostile.hostile_log import hostile_log, hostile_snapshot
from tests.unit.connectors.metadata.metadata_bytes import (
    batch,
    batch_of,
    control,
    data,
    ints,
    noop,
    text,
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
    numbers,
    partition,
)

SECRET = "hunter2"
CONFIGS = {
    "value": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET) + b"\0"),
    "null value": data(4, 0, b"\2" + text("a") + text("b") + text(None) + b"\0"),
    "empty value": data(4, 0, b"\2" + text("") + text("") + text("") + b"\0"),
    "already redacted": data(4, 0, b"\2" + text("a") + text("b") + text("*" * 9) + b"\0"),
    "long value": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET * 2000) + b"\0"),
    "longer than Kafka's strings": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET * 5000) + b"\0"),
    "longest value of a layout": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET * 18) + b"\0"),
    "shortest other value": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET * 18 + "a") + b"\0"),
    "value in UTF-8": data(4, 0, b"\2" + text("a") + text("b") + text(SECRET + "é") + b"\0"),
    "name in UTF-8": data(4, 0, b"\2" + text("é") + text('"\n') + text(SECRET) + b"\0"),
    "a name that is no text": data(4, 0, b"\2\2\xff" + text("b") + text(SECRET) + b"\0"),
    "a tag": data(4, 0, b"\2" + text("a") + text("b") + text("c") + b"\1\7\x07" + SECRET.encode()),
    "bytes after it": data(4, 0, b"\2" + text("a") + text("b") + text("c") + b"\0" + SECRET.encode()),
    "another version": data(4, 1, b"\2" + text("a") + text("b") + text(SECRET) + b"\0"),
    "scram": data(11, 0, text("alice") + b"\1" + text(SECRET) * 3 + (4096).to_bytes(4, "big") + b"\0"),
}
"""Configurations and a credential, of which a few have no layout."""


@contextmanager
def without_layouts() -> Iterator[None]:
    """Every record is left to its schema's reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_layouts, "_layouts", {})
        patch.setattr(record_layouts, "_learn", lambda *_: None)
        patch.setattr(run_rows, "_known", {})
        yield


def forget_layouts() -> None:
    """Forgets every layout and every known record."""
    record_layouts._layouts.clear()
    run_rows._known.clear()


def redacted(payload: bytes) -> bytes:
    """Redacts, decodes and prints the payload in both ways; returns it redacted."""
    found = []
    for each in (_events, _redacted_and_printed):
        forget_layouts()
        # Once to find the layouts, once with them.
        found.append([each(payload), each(payload)])
    with without_layouts():
        by_schema = [_events(payload), _redacted_and_printed(payload)]
    assert found == [[each] * 2 for each in by_schema]
    return redact(payload)


def _events(payload: bytes) -> list[list[Event]]:
    return [
        [*decoded.events()]
        for content in (payload, redact(payload))
        for decoded in (
            decode_records(content, base_offset=None, last_offset=9, leader_epoch=1, high_watermark=9),
            decode_snapshot_piece(content, end_offset=90, epoch=4),
        )
    ]


def _redacted_and_printed(payload: bytes) -> list[object]:
    after = redact(payload)
    assert redact(after) is after
    printed = [
        [_line(each) for each in dump_texts(content, secrets=secrets, style="json") if _is_record(each)]
        for content in (payload, after)
        for secrets in (True, False)
    ]
    return [after, printed, _counted(payload)]


def _counted(payload: bytes) -> LogSummary:
    summary = LogSummary()
    for _ in summary.count(payload):
        pass
    return summary


def _is_record(entry: object) -> bool:
    return isinstance(entry, RecordText | DumpedRecord)


def _line(entry: Any) -> tuple[object, ...]:
    fields = json.loads(entry.data) if isinstance(entry, RecordText) else entry.data
    reason = None if isinstance(entry, RecordText) else entry.reason
    return entry.offset, entry.epoch, entry.timestamp, entry.type, entry.version, fields, reason


def _batches(payload: bytes) -> list[RecordBatch]:
    return [item for item in scan(payload) if isinstance(item, RecordBatch)]


def decode(payload: bytes) -> DecodedEvents:
    return decode_records(payload, base_offset=None, last_offset=9, leader_epoch=1, high_watermark=9)


def in_runs(events: DecodedEvents) -> int:
    return sum(len(item) for item in events if isinstance(item, PartitionRun))


@pytest.mark.parametrize("name", sorted(USUAL.keys() - {"null elr", "reassignment"}))
def test_a_usual_record_has_a_layout_from_its_second_occurrence_on(name: str) -> None:
    forget_layouts()
    (one,) = _batches(payload := batch([USUAL[name]] * 3))

    assert [layout is None for _, _, layout, _ in read_records(payload, one)] == [True, False, False]
    assert redacted(payload) is payload
    assert in_runs(decode(payload)) == 3
    with without_layouts():
        assert in_runs(decode(payload)) == 0


def test_usual_and_unusual_records_keep_their_order() -> None:
    mixed = [*USUAL.values(), *UNUSUAL.values()]
    Random(1).shuffle(mixed)

    redacted(batch(mixed) + batch([control(0, b"\0\0")], base_offset=len(mixed)) + batch(mixed, base_offset=500))


@pytest.mark.parametrize("count", [3, 8, 9, 30])
def test_a_refused_list_refuses_no_other_of_its_length(count: int) -> None:
    good, bad = ([*range(count)], [*range(count - 1), 0])
    payload = batch([partition(replicas=ints(nodes)) for nodes in (good, bad, good)])
    redacted(payload)

    types = ["partition-set", "undecodable", "partition-set", "log-advanced"]
    assert [*map(event_type, decode(payload).events())] == types


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_record_is_read_as_by_the_reader(name: str) -> None:
    usual = [*USUAL.values()]
    for values_ in ([UNUSUAL[name]], [*usual, UNUSUAL[name], *usual], [*usual, UNUSUAL[name]]):
        redacted(batch(values_, base_offset=30))


@pytest.mark.parametrize("name", CONFIGS)
def test_credentials_are_redacted(name: str) -> None:
    usual = [*USUAL.values()]
    for values_ in ([CONFIGS[name]], [*usual, CONFIGS[name], *usual], [CONFIGS[name]] * 3):
        after = redacted(batch(values_) + batch(values_, base_offset=len(values_)))

        assert SECRET.encode() not in after
        assert len(_batches(after)) == 2, "each CRC is valid"


@pytest.mark.parametrize("name", UNUSUAL_FRAMING)
def test_a_batch_of_unusual_framing_is_read_in_its_place(name: str) -> None:
    usual = batch([*USUAL.values(), *CONFIGS.values()], base_offset=30)
    count = len(USUAL) + len(CONFIGS)
    odd = batch_of(UNUSUAL_FRAMING[name], 1, base_offset=30 + count)
    damaged = bytearray(batch([*CONFIGS.values()], base_offset=31 + count))
    damaged[-1] ^= 1
    more = batch([*CONFIGS.values()], base_offset=31 + count + len(CONFIGS))

    for payload in (odd, usual + odd, usual + odd + bytes(damaged) + more, odd + odd, usual + odd + odd[:70]):
        assert SECRET.encode() not in redacted(payload)


@pytest.mark.parametrize(("style", "first"), [("json", '{"partitionId":'), ("text", "partitionId=")])
def test_usual_records_are_printed_as_text(style: FieldStyle, first: str) -> None:
    header = batch([control(3, b"\0\0" + bytes(8) + b"\0")])
    segment = header + batch([noop(), USUAL["partition v2"]] * 2, base_offset=1)
    # From now on the layouts are known.
    list(dump_texts(segment, style=style))

    of_control, empty, record, *_ = dump_texts(segment, style=style)

    assert isinstance(of_control, DumpedRecord)
    assert of_control.type == "SnapshotHeader"
    assert isinstance(empty, RecordText)
    assert isinstance(record, RecordText)
    assert record.data.startswith(first)


@pytest.mark.parametrize("file", [tinylog, tinysnapshot])
def test_files_that_kafka_wrote_are_read_alike_and_nearly_all_partitions_in_runs(file: Any) -> None:
    content, made = file()
    redacted(content)
    names = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "TOPIC_RECORD")
    assert in_runs(decode(content)) > 0.95 * sum(made["by_type"].get(name, 0) for name in names)
    for payload in mutated_batches(content, count=examples(8)):
        redacted(payload)


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(100, 1_200, 100))]
)
def test_hostile_logs_and_snapshots_are_read_alike(first: int) -> None:
    for seed in range(first, first + (300 if first else 100)):
        rng = Random(seed)
        redacted(hostile_log(rng, base_offset=5, secret=SECRET))
        if seed % 4 == 0:
            redacted(hostile_snapshot(rng, secret=SECRET))


@pytest.mark.parametrize(
    ("api_key", "version"), [*((key, version) for key in (3, 5) for version in (0, 1, 2)), (2, 0), (4, 0), (14, 0)]
)
@settings(max_examples=30)
@given(st.data())
def test_any_frequent_records_are_read_alike(api_key: int, version: int, data: st.DataObject) -> None:
    fields = record_schemas().records[api_key].versions[version][0]
    drawn = data.draw(st.lists(kafka_values(fields) | values(fields), min_size=1, max_size=6))

    head = uvarint(1) + uvarint(api_key) + uvarint(version)
    redacted(batch([head + written(fields, value) for value in drawn]))


def test_a_log_of_odd_records_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_layouts, "_MOST_BEGINNINGS", 3)
    forget_layouts()

    for size in range(1, 20):
        redact(batch([data(4, 0, b"\2" + text("a") + text("b") + text("c" * size) + b"\0")]))

    assert len(record_layouts._layouts) <= 3


def test_few_layouts_are_tried_for_a_record_however_many_records_begin_alike() -> None:
    forget_layouts()

    for size in range(1, 60):
        redact(batch([data(4, 0, b"\2" + text("a" * size) + text("b" * (60 - size)) + text("c") + b"\0")]))

    assert [len(layouts) for layouts in record_layouts._layouts.values()] == [record_layouts._MOST_ALIKE]


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
    assert isinstance(advanced, LogAdvanced)


def test_odd_partition_records_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rows, "_MOST_BEGINNINGS", 3)
    monkeypatch.setattr(run_rows, "_MOST_KNOWN", 3)
    forget_layouts()

    for size in range(1, 10):
        redacted(batch([partition(replicas=ints([*range(at, at + size)])) for at in range(10)] * 2))

    known = [each for of_head in run_rows._known.values() for each in of_head]
    assert len(run_rows._known) <= 3
    assert all(len(each.values) <= 3 for each in known)
