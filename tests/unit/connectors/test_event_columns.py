"""EventColumns: every event is restored unchanged from the table, also through Arrow and pandas."""

import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.event import Event, to_json
from connectors.event_columns import COLUMNS, EventColumns, events_from_columns
from connectors.log_event import LogAdvanced, PartitionChanged, PartitionSet
from rules.model.identifiers import Epoch, Offset

# A column holds 64 bits; pandas keeps 53 of them if another value of the column is absent. Text is UTF-8.
st.register_type_strategy(int, st.integers(-(2**53), 2**53))
st.register_type_strategy(str, st.text(st.characters(codec="utf-8"), max_size=8))
EVENTS = st.lists(st.from_type(Event), max_size=8)  # type: ignore[arg-type]
SCHEMA = pa.schema(
    [
        ("ordinal", pa.int64()),
        ("type", pa.string()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("snapshot", pa.bool_()),
        ("topic_id", pa.string()),
        ("partition", pa.int64()),
        ("replicas", pa.list_(pa.int64())),
        ("isr", pa.list_(pa.int64())),
        ("elr", pa.list_(pa.int64())),
        ("last_known_elr", pa.list_(pa.int64())),
        ("leader", pa.int64()),
        ("leader_set", pa.bool_()),
        ("partition_leader_epoch", pa.int64()),
        ("partition_epoch", pa.int64()),
        ("recovering", pa.bool_()),
        ("body", pa.binary()),
    ]
)


@settings(max_examples=50)
@given(EVENTS)
def test_events_are_restored_from_columns(events: list[Event]) -> None:
    assert list(EventColumns(events).events()) == events


@settings(max_examples=50)
@given(EVENTS)
def test_events_are_restored_from_arrow(events: list[Event]) -> None:
    table = pa.table(EventColumns(events).columns(), schema=SCHEMA)

    assert list(events_from_columns(table.to_pydict())) == events


@settings(max_examples=50)
@given(EVENTS)
def test_events_are_restored_from_pandas_with_nan_and_arrays(events: list[Event]) -> None:
    frame: pd.DataFrame = pa.table(EventColumns(events).columns(), schema=SCHEMA).to_pandas()

    assert list(events_from_columns(frame)) == events


@settings(max_examples=50)
@given(EVENTS)
def test_columns_have_equal_lengths_and_ordinals_count_the_events(events: list[Event]) -> None:
    columns = EventColumns(events).columns()

    assert tuple(columns) == COLUMNS
    assert {len(column) for column in columns.values()} == {len(events)}
    assert columns["ordinal"] == list(range(len(events)))
    assert columns["type"] == [event.type for event in events]
    for event, body in zip(events, columns["body"], strict=True):
        assert body == (None if isinstance(event, PartitionSet | PartitionChanged) else to_json(event))


def test_log_advanced_fills_the_position_columns() -> None:
    end = LogAdvanced(last_offset=Offset(9), leader_epoch=Epoch(2), high_watermark=Offset(10), newest_timestamp_ms=None)

    columns = EventColumns([end]).columns()

    assert (columns["offset"], columns["leader_epoch"], columns["timestamp_ms"]) == ([9], [2], [None])
