"""One row, one schema: what crosses Spark has the fields of what it carries."""

import dataclasses

from pyspark.sql.pandas.types import to_arrow_schema

from connectors.observations.observation import Observation, ObservationKind
from streaming.dataframes.journal_dataframe import EVENT, arrow_rows
from streaming.pipeline.schema import OBSERVATION
from streaming.pipeline.source import OBSERVATION_ARROW, observations_to_arrow


def test_an_observation_row_is_an_observation() -> None:
    assert set(OBSERVATION.fieldNames()) == {field.name for field in dataclasses.fields(Observation)}


def test_rows_cross_arrow_as_they_are() -> None:
    row = Observation(cluster="a", kind=ObservationKind.QUORUM, observed_at_ms=5, payload=b"{", sequence=7)

    batch = observations_to_arrow([row])
    events = arrow_rows([row, row], to_arrow_schema(EVENT, timezone="UTC"), events=True)

    assert batch.schema == OBSERVATION_ARROW
    assert batch.to_pylist()[0]["payload"] == b"{"
    assert [(each["cluster"], each["sequence"], each["type"]) for each in events.to_pylist()] == [
        ("a", 7, "undecodable")
    ] * 2
