"""`.where(...)` on a real Spark: the readers skip rows, tasks and files, and the result is that without skipping."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from connectors.store.journal_reader import JournalReader
from streaming.dataframes.journal_dataframe import JournalDataFrameSource
from streaming.dataframes.metadata_log_source import MetadataLogSource
from tests.recordings import recorded_checkpoint
from tests.unit.connectors.logdir.log_dirs import AT, noops, write_log_dir

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]


def counted(source: Any) -> Any:
    """Returns the format `counted-NAME`, which notes in a file of which files it yields how many rows.

    The classes are made here, so that Spark sends them to its workers, which do not know this module.
    """

    class Reader(DataSourceReader):
        def __init__(self, reader: Any, notes: Path) -> None:
            self.reader, self.notes = reader, notes

        def pushFilters(self, filters: list[Filter]) -> Any:
            return self.reader.pushFilters(filters)

        def partitions(self) -> Any:
            return self.reader.partitions()

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for batch in self.reader.read(partition):
                name = getattr(getattr(partition.value, "path", None), "name", "journal")
                with self.notes.open("a") as notes:
                    notes.write(f"{name} {batch.num_rows}\n")
                yield batch

    class Counted(source):  # type: ignore[misc]
        NAME = f"counted-{source.NAME}"

        def reader(self, schema: StructType) -> Any:
            return Reader(super().reader(schema), Path(self.options["notes"]))

    return Counted


@pytest.fixture(scope="module")
def counting(session: SparkSession) -> SparkSession:
    for source in (JournalDataFrameSource, MetadataLogSource):
        session.dataSource.register(counted(source))
    return session


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> JournalReader:
    return JournalReader(recorded_checkpoint(tmp_path_factory.mktemp("recorded")).journal)


def read(frame: Callable[[Path], DataFrame], notes: Path, condition: str) -> tuple[list[Row], dict[str, int]]:
    """Returns the rows that match, and how many rows were read of each file."""
    notes.unlink(missing_ok=True)
    rows = frame(notes).where(condition).collect()
    counts: dict[str, int] = {}
    for line in notes.read_text().splitlines() if notes.exists() else ():
        file, count = line.split()
        counts[file] = counts.get(file, 0) + int(count)
    return rows, counts


@pytest.mark.parametrize("events", ["false", "true"])
def test_only_the_wanted_rows_of_a_journal_are_read(
    counting: SparkSession, journal: JournalReader, tmp_path: Path, events: str
) -> None:
    rows = [*journal.read(journal.beginning(), journal.published_end())]
    middle_ms = rows[500].observed_at_ms

    def load(notes: Path) -> DataFrame:
        reader = counting.read.format("counted-kraftwatch-journal").options(events=events, notes=str(notes))
        return reader.load(str(journal.directory))

    every, read_all = read(load, tmp_path / "notes", "true")
    cases: dict[str, Callable[[Any], bool]] = {
        f"observed_at_ms >= {middle_ms}": lambda row: row.observed_at_ms >= middle_ms,
        f"observed_at_ms > {middle_ms - 5_000} and observed_at_ms < {middle_ms}": lambda row: (
            middle_ms - 5_000 < row.observed_at_ms < middle_ms
        ),
        f"cluster = '{rows[0].cluster}'": lambda row: row.cluster == rows[0].cluster,
        "sequence between 100 and 110": lambda row: 100 <= row.sequence <= 110,
        "cluster in ('nowhere', 'elsewhere')": lambda row: False,
        "sequence > 100000": lambda row: False,
        # What the reader does not understand is evaluated by Spark alone.
        f"observed_at_ms % 2 = 1 and observed_at_ms >= {middle_ms}": lambda row: (
            row.observed_at_ms % 2 == 1 and row.observed_at_ms >= middle_ms
        ),
    }
    if events == "false":
        cases["kind in ('probe', 'view')"] = lambda row: row.kind in ("probe", "view")
    for condition, matches in cases.items():
        found, counts = read(load, tmp_path / "notes", condition)
        assert found == [row for row in every if matches(row)], condition
        assert counts.get("journal", 0) < read_all["journal"], condition
        if "%" not in condition:
            assert counts.get("journal", 0) == len(found), condition


def test_only_the_wanted_parts_of_a_metadata_log_are_read(counting: SparkSession, tmp_path: Path) -> None:
    torn = noops(20, 5)[:-3]
    folder = write_log_dir(
        tmp_path / "log",
        {0: noops(0, 10), 10: noops(10, 10), 20: torn},
        [("00000000000000000010-0000000001.checkpoint", noops(0, 4))],
    )

    def load(notes: Path) -> DataFrame:
        reader = counting.read.format("counted-kraft-metadata").options(maxPartitionBytes="400", notes=str(notes))
        return reader.load(str(folder))

    every, _ = read(load, tmp_path / "notes", "true")
    first, second, third, snapshot = (
        f"{name}"
        for name in (
            "00000000000000000000.log",
            "00000000000000000010.log",
            "00000000000000000020.log",
            "00000000000000000010-0000000001.checkpoint",
        )
    )
    cases: dict[str, tuple[Callable[[Any], bool], set[str]]] = {
        "snapshot": (lambda row: row.snapshot, {snapshot}),
        "not snapshot": (lambda row: not row.snapshot, {first, second, third}),
        # The torn part of the newest segment may hold anything.
        "offset >= 15": (lambda row: row.offset is not None and row.offset >= 15, {second, third}),
        "offset < 3 and not snapshot": (
            lambda row: row.offset is not None and row.offset < 3 and not row.snapshot,
            {first, third},
        ),
        f"timestamp_ms between {AT + 12_000} and {AT + 13_000}": (
            lambda row: row.timestamp_ms is not None and AT + 12_000 <= row.timestamp_ms <= AT + 13_000,
            {second, third},
        ),
        "reason is not null": (lambda row: row.reason is not None, {first, second, third, snapshot}),
    }
    for condition, (matches, files) in cases.items():
        found, counts = read(load, tmp_path / "notes", condition)
        assert found == [row for row in every if matches(row)], condition
        assert counts.keys() == files, condition
    _, counts = read(load, tmp_path / "notes", "offset = 12")
    assert 0 < counts[second] < 10, "only a byte range of the segment"
