"""Events become the same Arrow columns from blocks and from rows, and the same events again."""

from random import Random

import pyarrow as pa
import pytest

from connectors.event_block import EventBlock
from connectors.event_columns import EventColumns
from connectors.log_event import Undecodable
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from streaming.pipeline.decode import EVENT_ARROW
from streaming.pipeline.event_arrow import event_arrays, observed_events
from streaming.replay.observed_events import ObservedEvent, each_event, event_count, undecodable_events
from tests.hostile.hostile_log import hostile_log
from tests.unit.connectors.metadata.metadata_bytes import tinylog, tinysnapshot

TYPES = {field.name: field.type for field in EVENT_ARROW}


def assert_same_columns(events: EventColumns) -> None:
    arrays = event_arrays(events, TYPES)

    for name, column in events.columns().items():
        arrays[name].validate(full=True)
        assert arrays[name].equals(pa.array(column, type=TYPES[name])), name


def log() -> EventColumns:
    return decode_records(tinylog()[0], base_offset=0, last_offset=9, leader_epoch=1, high_watermark=9)


def test_a_log_and_a_snapshot_have_the_columns_of_their_events() -> None:
    snapshot = decode_snapshot_piece(tinysnapshot()[0], end_offset=9, epoch=1)
    for table in (log(), snapshot):
        assert any(isinstance(part, EventBlock) and part.others for part in table.parts())
        assert_same_columns(table)


def test_hostile_logs_have_the_columns_of_their_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.metadata.decoder.FEWEST_RECORDS", 1)
    for seed in range(300):
        payload = hostile_log(Random(seed), base_offset=5, secret="s3cret").payload
        assert_same_columns(decode_records(payload, base_offset=5, last_offset=9, leader_epoch=1, high_watermark=9))


def test_no_events_are_empty_columns() -> None:
    assert_same_columns(EventColumns())


def test_single_events_follow_a_block() -> None:
    table = log()
    for event in [*log().events()][-3:]:
        table.append(event)

    assert_same_columns(table)
    assert [*table.events()][-3:] == [*log().events()][-3:]


def assert_same_events(events: EventColumns) -> list[ObservedEvent]:
    """Checks that the Arrow columns give the same events; returns them, with many together as a block."""
    arrays = event_arrays(events, TYPES)
    whole = pa.RecordBatch.from_arrays([*arrays.values()], names=[*arrays])
    for batch in (whole, whole.slice(1)):
        found = [*observed_events(batch)]
        expected = [*events.events()][-batch.num_rows :] if batch.num_rows else []
        assert [*each_event(found)] == expected
        assert event_count(found) == len(expected)
        assert [*undecodable_events(found)] == [
            (ordinal, event) for ordinal, event in enumerate(expected) if isinstance(event, Undecodable)
        ]
    return [*observed_events(whole)]


def test_a_log_and_a_snapshot_become_blocks_again() -> None:
    snapshot = decode_snapshot_piece(tinysnapshot()[0], end_offset=9, epoch=1)
    for table in (log(), snapshot):
        found = assert_same_events(table)
        blocks = [one for one in found if isinstance(one, EventBlock)]
        assert sum(len(one.partitions) for one in blocks) > 0.9 * len(table) - 1_000
        assert len(found) < 100


def test_hostile_logs_become_events_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.metadata.decoder.FEWEST_RECORDS", 1)
    monkeypatch.setattr("streaming.pipeline.event_arrow.FEWEST_EVENTS", 1)
    for seed in range(300):
        payload = hostile_log(Random(seed), base_offset=5, secret="s3cret").payload
        assert_same_events(decode_records(payload, base_offset=5, last_offset=9, leader_epoch=1, high_watermark=9))
