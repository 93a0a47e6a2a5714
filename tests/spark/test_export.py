"""`kraftwatch data export` on a real Spark: a job's tables as parquet, appended to, and whole after a killed run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from connectors.delivery.ledger import Ledger
from connectors.observations.observation import Observation
from connectors.store.audit_results import AuditResults, ContractResult
from connectors.store.journal_writer import JournalWriter
from connectors.store.store_place import StorePlace
from connectors.store.tables import job_database
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.dataframes.export import EXPORT_SETTINGS, TableExport
from streaming.dataframes.job_tables import SCHEMAS, JobTables
from tests.postgres_server import PostgresServer, needs_postgres
from tests.recordings import TWO_CLUSTERS, recorded_checkpoint
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

DAY_MS = 86_400_000
RESULT = ContractResult(
    audited_at_ms=NOON_MS,
    suite="events",
    contract="every-record-decodes",
    severity=Severity.WARNING,
    checked_rows=50,
    broken_rows=2,
    clusters=("prod",),
    example="row 7",
)


@pytest.fixture(autouse=True)
def with_settings_of_an_export(session: SparkSession) -> Iterator[None]:
    names = [name for name in EXPORT_SETTINGS if name.startswith(("spark.sql.sources.", "spark.sql.parquet."))]
    for name in names:
        session.conf.set(name, EXPORT_SETTINGS[name])
    yield
    for name in names:
        session.conf.unset(name)


def observed(at_ms: int, cluster: str = "prod", count: int = 1) -> list[Observation]:
    """Returns rows of polls, all made at the same time."""
    poll = next(row for row in TWO_CLUSTERS.observations() if row.kind == "quorum")
    return [replace(poll, cluster=cluster, observed_at_ms=at_ms)] * count


def record(folder: Path, rows: Sequence[Observation]) -> None:
    with JournalWriter(folder / "journal") as writer:
        writer.append(rows)
        writer.publish()


def export(session: SparkSession, job: JobTables, to: Path, *names: str, **span: int) -> dict[str, int]:
    return {
        name: TableExport(spark=session, tables=job, table=name, to=f"file://{to}", **span).run(lambda _: None)
        for name in names or SCHEMAS
    }


def exported(session: SparkSession, to: Path, table: str) -> DataFrame:
    return session.read.schema(f"{SCHEMAS[table].toDDL()}, date date").parquet(f"file://{to}/{table}")


def sorted_rows(frame: DataFrame) -> list[Any]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_the_tables_are_what_the_readers_give(session: SparkSession, tmp_path: Path) -> None:
    checkpoint, lake = recorded_checkpoint(tmp_path / "job"), tmp_path / "lake"
    AuditResults(job_database(checkpoint.folder)).add([RESULT])
    job = JobTables.of_folder(checkpoint.folder)

    assert export(session, job, lake) == {"alerts": 37, "observations": 665, "events": 665, "audits": 1}

    for name, schema in SCHEMAS.items():
        written, read = exported(session, lake, name), job.read(session, name)
        assert read.schema.names == schema.names
        assert sorted_rows(written.select(*schema.names)) == sorted_rows(read), name
    assert {row.date for row in exported(session, lake, "observations").collect()} == {date(2026, 11, 20)}
    (audited,) = exported(session, lake, "audits").collect()
    assert (audited.date, audited.clusters) == (datetime.fromtimestamp(NOON_MS / 1000, UTC).date(), ["prod"])
    files = [*(lake / "events").glob("cluster=*/date=2026-11-20/*.parquet")]
    assert len(files) == 2, "one file for each cluster and date"


def test_a_reader_by_arrow_sees_utc_and_a_far_time_is_the_same(session: SparkSession, tmp_path: Path) -> None:
    """A clock may be centuries ahead: 64 bits of nanoseconds end in the year 2262."""
    far_ms = round(datetime(2963, 5, 4, tzinfo=UTC).timestamp() * 1000)
    job, lake = JobTables.of_folder(tmp_path), tmp_path / "lake"
    record(tmp_path, observed(far_ms))

    export(session, job, lake, "events")

    (file,) = (lake / "events").glob("cluster=prod/date=2963-05-04/*.parquet")
    column = pq.read_table(file).column("observed_at")
    assert (str(column.type), column.to_pylist()) == ("timestamp[us, tz=UTC]", [datetime(2963, 5, 4, tzinfo=UTC)])


def test_a_second_export_appends_only_what_is_new(session: SparkSession, tmp_path: Path) -> None:
    job, lake = JobTables.of_folder(tmp_path), tmp_path / "lake"
    ledger = Ledger(job_database(tmp_path))
    record(tmp_path, [*observed(NOON_MS, count=2), *observed(NOON_MS, "lab")])
    ledger.record([alert("voter 1")], NOON_MS)
    assert export(session, job, lake) == {"alerts": 1, "observations": 3, "events": 3, "audits": 0}
    assert export(session, job, lake) == dict.fromkeys(SCHEMAS, 0)

    # Of the same millisecond, of the next day, and of a new cluster with a number as its name.
    record(tmp_path, [*observed(NOON_MS), *observed(NOON_MS + DAY_MS), *observed(NOON_MS - DAY_MS, "7")])
    ledger.record([alert("voter 2")], Millis(NOON_MS - 5))
    assert export(session, job, lake) == {"alerts": 1, "observations": 3, "events": 3, "audits": 0}

    rows = exported(session, lake, "observations").collect()
    assert sorted(row.sequence for row in rows) == [*range(6)]
    assert {row.cluster for row in rows} == {"prod", "lab", "7"}
    assert sorted_rows(exported(session, lake, "alerts").select("subject")) == [("voter 1",), ("voter 2",)]


def test_a_failed_export_leaves_a_beginning_of_the_rows(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row for at in range(3) for cluster in ("prod", "lab") for row in observed(NOON_MS + at * DAY_MS, cluster)]
    record(tmp_path, rows)
    job, lake = JobTables.of_folder(tmp_path), tmp_path / "lake"
    write: Callable[[TableExport, DataFrame], None] = TableExport._write
    calls: list[int] = []

    def fails_at_the_second_date(self: TableExport, new: DataFrame) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError("the disk is full")
        write(self, new)

    with monkeypatch.context() as patch:
        patch.setattr(TableExport, "_write", fails_at_the_second_date)
        with pytest.raises(OSError, match="full"):
            export(session, job, lake, "events")

    assert sorted({row.sequence for row in exported(session, lake, "events").collect()}) == [0, 1]
    assert export(session, job, lake, "events") == {"events": 4}
    written = exported(session, lake, "events").select(*SCHEMAS["events"].names)
    assert sorted_rows(written) == sorted_rows(job.read(session, "events"))


@needs_postgres
def test_alerts_and_audits_of_a_store_that_machines_share(session: SparkSession, tmp_path: Path) -> None:
    with PostgresServer() as server:
        place: StorePlace = server.database("shared")
        database = job_database(place)
        database.create()
        Ledger(database).record([alert("a \udcff name")], NOON_MS)
        AuditResults(database).add([RESULT])
        database.close()
        job = JobTables(store=place, observations=tmp_path)

        assert export(session, job, tmp_path / "lake", "alerts", "audits") == {"alerts": 1, "audits": 1}

    (row,) = exported(session, tmp_path / "lake", "alerts").collect()
    assert (row.subject, row.severity, row.cluster, row.remedy[0]) == (
        "a \\udcff name",
        "critical",
        "alpha",
        "# Start a controller.",
    )
