"""What crosses Spark: frames of packed observations become those that were packed, and output rows are texts."""

import dataclasses
import json
from random import Random

import pandas as pd
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.observations.observation import Observation, ObservationKind
from rules.model.identifiers import Millis
from streaming.dataframes.journal_dataframe import EVENT, arrow_rows
from streaming.pipeline.arrow_schema import arrow_schema
from streaming.pipeline.output_rows import (
    MOST_OF_A_ROW,
    OutputKind,
    OutputRow,
    observations,
    output_frame,
    quarantined_rows,
)
from streaming.pipeline.schema import OBSERVATION, OUTPUT, PACKED_ARROW, pack
from streaming.pipeline.source import OBSERVATION_ARROW, observations_to_arrow
from streaming.replay.cluster_monitor import RefusedRow

NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1)
ROWS = st.builds(
    Observation,
    cluster=st.sampled_from(["prod", "Kafka/küche"]),
    kind=st.sampled_from(ObservationKind),
    observed_at_ms=st.integers(0, 2**62),
    base_offset=NUMBERS,
    last_offset=NUMBERS,
    leader_epoch=NUMBERS,
    high_watermark=NUMBERS,
    payload=st.binary(),
    sequence=st.integers(0, 2**62),
)


@given(
    st.lists(ROWS, min_size=1, max_size=6, unique_by=lambda row: row.sequence), st.integers(0, 1_000), st.integers(1, 4)
)
def test_rows_are_those_that_were_observed(rows: list[Observation], seed: int, pieces: int) -> None:
    packed = pack(rows)
    assert packed.schema == PACKED_ARROW
    frame = packed.to_pandas().sample(frac=1, random_state=Random(seed).randrange(1_000)).reset_index(drop=True)
    size = -(-len(frame) // pieces)
    frames = [frame.iloc[start : start + size] for start in range(0, len(frame), size)]

    found = observations(frames)
    assert found.keys() == {row.cluster for row in rows}
    for cluster, of_cluster in found.items():
        expected = sorted((row for row in rows if row.cluster == cluster), key=lambda row: row.sequence)
        assert of_cluster == expected


@given(st.lists(st.tuples(st.sampled_from(OutputKind), st.text(), st.text(), st.text(max_size=300)), min_size=1))
@example(
    [
        (OutputKind.EVALUATED, "alpha", "", "1800000000000"),
        (OutputKind.STATUS, "2026-11-20", "NaN", "2026-11-21T05:01:02Z"),
    ]
)
def test_output_rows_are_texts_of_a_frame(rows: list[OutputRow]) -> None:
    frame = output_frame(rows)

    assert frame.columns.tolist() == OUTPUT.fieldNames()
    assert [tuple(row) for row in frame.itertuples(index=False)] == rows
    assert pa.Table.from_pandas(frame, preserve_index=False).schema.types == [pa.string()] * 4
    pd.testing.assert_frame_equal(frame, pd.DataFrame(rows, columns=OUTPUT.fieldNames()))


def test_an_observation_row_is_an_observation() -> None:
    # How urgent a row is concerns those who pass it on only.
    assert {*OBSERVATION.fieldNames(), "urgency"} == {field.name for field in dataclasses.fields(Observation)}


def test_rows_cross_arrow_as_they_are() -> None:
    row = Observation(cluster="a", kind=ObservationKind.QUORUM, observed_at_ms=5, payload=b"{", sequence=7)

    batch = observations_to_arrow([row])
    events = arrow_rows([row, row], arrow_schema(EVENT), events=True)

    assert batch.schema == OBSERVATION_ARROW
    assert batch.to_pylist()[0]["payload"] == b"{"
    assert [(each["cluster"], each["sequence"], each["type"]) for each in events.to_pylist()] == [
        ("a", 7, "undecodable")
    ] * 2


def test_of_a_row_with_many_refused_records_only_the_first_are_described_one_by_one() -> None:
    refused = [
        RefusedRow(sequence=7, observed_at_ms=Millis(0), ordinal=at, offset=100 + at, reason="no record")
        for at in range(2_000)
    ]

    described = [*quarantined_rows("prod", refused)]

    assert [name for _, _, name, _ in described] == [f"7-{at}" for at in range(MOST_OF_A_ROW + 1)]
    *_, (*_, last) = described
    assert json.loads(last)["reason"] == (
        f"no record; this is one of {2_000 - MOST_OF_A_ROW} further parts of the row that are refused"
    )
    assert [*quarantined_rows("prod", refused[:MOST_OF_A_ROW])] == described[:-1]
