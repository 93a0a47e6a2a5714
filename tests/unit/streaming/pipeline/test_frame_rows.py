"""Frames of events become the observations that they came from, in whatever order and pieces Spark passes them."""

from random import Random

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from connectors.event import Event, to_json
from connectors.event_columns import EventColumns
from connectors.log_event import Undecodable
from connectors.observation import Observation, ObservationKind
from rules.model.monitoring import Reason
from streaming.pipeline import packed_events
from streaming.pipeline.decode import EVENT_ARROW, decode_batches, event_table
from streaming.pipeline.frame_rows import decoded_rows, output_frame
from streaming.pipeline.output_rows import OutputKind, OutputRow
from streaming.pipeline.packed_events import HEADER, PACKED_ARROW, EventPacker, PackedEvents, pack
from streaming.pipeline.schema import OUTPUT
from streaming.pipeline.source import observations_to_arrow
from streaming.replay.observed_events import each_event
from tests.unit.connectors.metadata.metadata_bytes import batch, noop
from tests.unit.streaming.replay.log_script import LogScript, failed, poll, replica

NOW = 1_800_000_000_000


def observed() -> list[tuple[Event, ...]]:
    """Returns the events of several observations: polls, failures, records with and without partitions."""
    script = LogScript()
    script.leader(1)
    script.voters("1-a", "2-b", "3-c")
    first = script.read()
    script.topic("orders")
    script.partition("orders", 0, 1, 2, 3, elr=(4,))
    script.change("orders", 0, isr=(1,), leader=2)
    script.change("orders", 0, replicas=(1, 2))
    records = script.read()
    script.noops(2)
    quiet = script.read()
    return [
        tuple(each_event(first.events)),
        (poll(*map(replica, ("1-a", "2-b", "3-c")), hw=90),),
        tuple(each_event(records.events)),
        (failed(Reason.NO_LEADER, "c1:9093"), failed(Reason.REFUSED, "c2:9093")),
        tuple(each_event(quiet.events)),
    ]


OBSERVED = observed()


def frame_of(observations: list[tuple[int, tuple[Event, ...]]]) -> pd.DataFrame:
    tables = [
        event_table({"cluster": "prod", "sequence": sequence, "observed_at_ms": NOW + sequence}, EventColumns(events))
        for sequence, events in observations
    ]
    return pack(pa.concat_batches(tables)).to_pandas()


@pytest.fixture(params=[1, 2, 4_096])
def events_per_value(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_events, "EVENTS_PER_VALUE", request.param)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1_000), pieces=st.integers(1, 4), which=st.lists(st.integers(0, 4), min_size=1, max_size=6))
@pytest.mark.usefixtures("events_per_value")
def test_rows_are_those_that_were_observed(seed: int, pieces: int, which: list[int]) -> None:
    observations = [(100 + number, OBSERVED[index]) for number, index in enumerate(which)]
    frame = frame_of(observations)
    order = list(range(len(frame)))
    Random(seed).shuffle(order)
    frame = frame.iloc[order].reset_index(drop=True)
    size = -(-len(frame) // pieces)
    frames = [frame.iloc[start : start + size] for start in range(0, len(frame), size)]

    rows = list(decoded_rows(frames))

    assert [(row.sequence, row.observed_at_ms, row.events) for row in rows] == [
        (sequence, NOW + sequence, events) for sequence, events in observations
    ]


@pytest.mark.parametrize("tail", [b"\0\0\0\1{", b"\0\0", b"\0\0\0\0"])
def test_events_that_cannot_be_read_spoil_no_other_observation(tail: bytes) -> None:
    frame = frame_of(list(enumerate(OBSERVED)))
    frame.loc[1, "events"] = frame.loc[1, "events"][:HEADER] + tail

    rows = list(decoded_rows([frame]))

    assert [row.sequence for row in rows] == [0, 1, 2, 3, 4]
    (event,) = rows[1].events
    assert isinstance(event, Undecodable)
    assert event.reason.startswith("its events cannot be read: ")
    assert [tuple(row.events) for row in rows if row.sequence != 1] == [*OBSERVED[:1], *OBSERVED[2:]]


def test_a_value_holds_the_events_of_one_observation_of_one_cluster() -> None:
    polled = to_json(poll(*map(replica, ("1-a", "2-b", "3-c")), hw=90))
    rows = [observation(sequence, polled) for sequence in (0, 1, 2, 5, 5)]

    (packed,) = EventPacker(decode_batches)(iter([observations_to_arrow(rows)]))

    assert packed.schema == PACKED_ARROW
    assert packed.column("cluster").to_pylist() == ["c0", "c1", "c2", "c2"], "the twice recorded row is one value"
    values = [PackedEvents.of(value) for value in packed.column("events").to_pylist()]
    assert [(one.sequence, one.observed_at_ms, len([*one.events()])) for one in values] == [
        (0, NOW, 1),
        (1, NOW + 1, 1),
        (2, NOW + 2, 1),
        (5, NOW + 5, 2),
    ]


def observation(sequence: int, payload: bytes, kind: ObservationKind = ObservationKind.QUORUM) -> Observation:
    records = kind is ObservationKind.RECORDS
    return Observation(
        cluster=f"c{sequence % 3}",
        kind=kind,
        observed_at_ms=NOW + sequence,
        base_offset=sequence if records else None,
        last_offset=sequence if records else None,
        payload=payload,
        sequence=sequence,
    )


def test_several_observations_become_the_same_table_as_one_by_one() -> None:
    """Most observations are put into one table; of those around it, one does not fit and one is a large block."""
    polled = to_json(poll(*map(replica, ("1-a", "2-b", "3-c")), hw=90))
    rows = [
        observation(0, polled),
        observation(1, b"{"),
        observation(2, batch([noop()], base_offset=2), ObservationKind.RECORDS),
        observation(3, polled),
        observation(4, batch([noop()] * 200, base_offset=4), ObservationKind.RECORDS),
        observation(5, polled),
    ]

    (together,) = decode_batches(iter([observations_to_arrow(rows)]))
    alone = [table for row in rows for table in decode_batches(iter([observations_to_arrow([row])]))]

    assert together.schema == EVENT_ARROW
    assert together.to_pylist() == pa.Table.from_batches(alone).to_pylist()


@given(st.lists(st.tuples(st.sampled_from(OutputKind), st.text(), st.text(), st.text(max_size=300)), min_size=1))
@example(
    [(OutputKind.DUE, "alpha", "", "1800000000000"), (OutputKind.STATUS, "2026-11-20", "NaN", "2026-11-21T05:01:02Z")]
)
def test_output_rows_are_texts_of_a_frame(rows: list[OutputRow]) -> None:
    frame = output_frame(rows)

    assert frame.columns.tolist() == OUTPUT.fieldNames()
    assert [tuple(row) for row in frame.itertuples(index=False)] == rows
    assert pa.Table.from_pandas(frame, preserve_index=False).schema.types == [pa.string()] * 4
    pd.testing.assert_frame_equal(frame, pd.DataFrame(rows, columns=OUTPUT.fieldNames()))
