"""`kraftwatch-journal` on a real Spark: a journal as batch DataFrames, and a backlog read by a query that ends."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from streaming.dataframes import journal_dataframe
from streaming.dataframes.journal_dataframe import EVENT, JournalDataFrameReader, event_columns
from streaming.pipeline.schema import OBSERVATION
from streaming.pipeline.source import ROWS_PER_BATCH
from streaming.replay.decoded_row import decode_observation
from tests.recordings import recorded_checkpoint
from tests.spark.conftest import sentence_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> JournalReader:
    """Returns a recorded journal with rows of every kind."""
    return JournalReader(recorded_checkpoint(tmp_path_factory.mktemp("recorded")).journal)


def load(session: SparkSession, path: Path, **options: str) -> DataFrame:
    return session.read.format("kraftwatch-journal").options(**options).load(str(path))


def recorded(journal: JournalReader) -> list[Observation]:
    return list(journal.read(journal.beginning(), journal.published_end()))


def test_observations_are_the_rows_of_the_journal(session: SparkSession, journal: JournalReader) -> None:
    expected = [tuple(getattr(row, name) for name in OBSERVATION.names) for row in recorded(journal)]

    rows = load(session, journal.directory)

    assert rows.schema == OBSERVATION
    assert [tuple(row) for row in rows.collect()] == expected
    assert len(expected) == 665


def test_events_are_decoded_with_typed_columns(session: SparkSession, journal: JournalReader) -> None:
    expected = [
        (row.cluster, row.sequence, row.observed_at_ms, ordinal, known(event_columns(event)))
        for row in recorded(journal)
        for ordinal, event in enumerate(decode_observation(row).events())
    ]

    frame = load(session, journal.directory, events="true")
    rows = frame.collect()

    assert frame.schema == EVENT
    assert [(row.cluster, row.sequence, row.observed_at_ms, row.ordinal, event_of(row)) for row in rows] == expected
    assert len({row.type for row in rows}) > 15
    assert all(round(row.observed_at.timestamp() * 1000) == row.observed_at_ms for row in rows)
    assert all(round(row.timestamp.timestamp() * 1000) == row.timestamp_ms for row in rows if row.timestamp)


def event_of(row: Any) -> dict[str, object]:
    columns = row.asDict()
    return known({name: columns[name] for name in EVENT.names[EVENT.names.index("type") :] if name != "timestamp"})


def known(columns: Mapping[str, object]) -> dict[str, object]:
    """Returns the columns that are not null."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in columns.items() if value is not None
    }


def test_a_long_journal_is_read_by_several_tasks(journal: JournalReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_dataframe, "ROWS_PER_TASK", 100)
    reader = JournalDataFrameReader(journal, OBSERVATION, events=False)

    read = [row for part in reader.partitions() for batch in reader.read(part) for row in batch["sequence"].to_pylist()]

    assert len(reader.partitions()) == 7
    assert read == [row.sequence for row in recorded(journal)]


def test_a_wrong_path_or_option_is_one_sentence(session: SparkSession, journal: JournalReader, tmp_path: Path) -> None:
    assert "holds no journal: name the folder journal in the checkpoint" in sentence_of(lambda: load(session, tmp_path))
    assert "invalid value 'yes' for events: expected true or false" in sentence_of(
        lambda: load(session, journal.directory, events="yes")
    )


def backlog(folder: Path, rows: int, *, first: int = 0) -> None:
    """Writes and publishes rows whose payload is their number."""
    with JournalWriter(folder) as writer:
        numbers = range(first, first + rows)
        writer.append(
            [
                Observation(
                    cluster="a", kind=ObservationKind.SNAPSHOT, observed_at_ms=number, base_offset=9, last_offset=number
                )
                for number in numbers
            ]
        )
        writer.publish()


def drain(session: SparkSession, journal: Path, folder: Path) -> tuple[StreamingQuery, list[list[int]]]:
    """Runs a query with the trigger AvailableNow to its end; returns it and the sequences of each batch."""
    batches: list[list[int]] = []
    query = (
        session.readStream.format("kraftwatch-journal")
        .load(str(journal))
        .writeStream.foreachBatch(lambda frame, _: batches.append([row.sequence for row in frame.collect()]))
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(600)
    return query, batches


def test_available_now_drains_a_backlog_in_bounded_batches_and_ends(session: SparkSession, tmp_path: Path) -> None:
    backlog(tmp_path / "journal", 3 * ROWS_PER_BATCH + 7)

    query, batches = drain(session, tmp_path / "journal", tmp_path / "checkpoint")
    backlog(tmp_path / "journal", 5, first=3 * ROWS_PER_BATCH + 7)
    _, more = drain(session, tmp_path / "journal", tmp_path / "checkpoint")
    _, none = drain(session, tmp_path / "journal", tmp_path / "checkpoint")

    assert query.exception() is None
    assert [len(batch) for batch in batches] == [ROWS_PER_BATCH] * 3 + [7]
    assert [sequence for batch in batches for sequence in batch] == list(range(3 * ROWS_PER_BATCH + 7))
    assert more == [list(range(3 * ROWS_PER_BATCH + 7, 3 * ROWS_PER_BATCH + 12))]
    assert none == []


def test_a_users_query_commits_nothing(session: SparkSession, tmp_path: Path) -> None:
    backlog(tmp_path / "journal", 9)
    JournalReader(tmp_path / "journal").commit(3)

    for rows in (1, 1):
        backlog(tmp_path / "journal", rows, first=9)
        drain(session, tmp_path / "journal", tmp_path / "checkpoint")

    assert JournalReader(tmp_path / "journal").committed_end() == 3


def test_a_stream_of_events_is_refused(session: SparkSession, journal: JournalReader, tmp_path: Path) -> None:
    stream = session.readStream.format("kraftwatch-journal").option("events", "true")

    def run() -> None:
        query = stream.load(str(journal.directory)).writeStream.format("noop").trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path)).start().awaitTermination(120)

    with pytest.raises(PySparkException, match="has all columns of an observation: drop events"):
        run()
