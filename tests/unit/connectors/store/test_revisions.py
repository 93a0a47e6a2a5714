"""The tables of a job are created and upgraded by migrations, in a file and on a server alike."""

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, update

from connectors.delivery.ledger import Ledger
from connectors.errors import OtherTablesError, StoreError, UsageError
from connectors.store import migrations, revisions
from connectors.store.alert_store import AlertRecord, AlertStore, DeliveryStatus
from connectors.store.collection import SilenceStore
from connectors.store.database import Database
from connectors.store.postgres import close_connections
from connectors.store.store_place import StorePlace
from connectors.store.tables import TABLES, job_database, sqlite_database
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notified
from rules.notifications.route import Silence
from tests.postgres_server import PostgresServer, needs_postgres
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

NEWEST, NEXT = revisions.REVISION, f"{int(revisions.REVISION) + 1:04}"
SECOND = f"""
from alembic import op
from sqlalchemy import Column, Integer, String

revision, down_revision = "{NEXT}", "{NEWEST}"


def upgrade() -> None:
    op.add_column("alerts", Column("note", String, nullable=False, server_default="none"))
    op.create_table("notes", Column("number", Integer, primary_key=True))
"""
FAILS = """    op.execute("INSERT INTO notes VALUES (1)")
    op.execute("INSERT INTO notes VALUES (1)")
"""
SILENCE = Silence(
    id="one", rule="no-*", starts_at_ms=NOON_MS, ends_at_ms=Millis(NOON_MS + 60_000), author="eva", comment="disks"
)
FIRST, OTHER = alert("voter 1"), alert("voter 2")


Build = Callable[[str], None]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Lets the test go on as a build whose newest migration is this one; the second one is made up."""
    folder = tmp_path / "migrations"
    shutil.copytree(Path(migrations.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"v{NEXT}_notes.py").write_text(SECOND)
    monkeypatch.setattr(revisions, "MIGRATIONS", str(folder))

    def as_build(newest: str) -> None:
        close_connections()
        monkeypatch.setattr(revisions, "REVISION", newest)

    as_build(NEWEST)
    return as_build


def fill(place: StorePlace) -> None:
    """Stores two alerts, of which one is delivered, and a silence."""
    database = job_database(place)
    database.create()
    ledger = Ledger(database)
    ledger.add_sink("slack")
    ledger.record([FIRST, OTHER], NOON_MS)
    ledger.mark_delivered("slack", [FIRST.key])
    SilenceStore(database).add(SILENCE, now_ms=NOON_MS)
    database.close()


def subjects(alerts: Sequence[Alert]) -> list[str]:
    return [one.subject for one in alerts]


def assert_filled(place: StorePlace) -> None:
    """Opens the database as a job does."""
    database = job_database(place)
    database.create()
    ledger = Ledger(database)
    assert subjects(ledger.history()) == [FIRST.subject, OTHER.subject]
    assert subjects(ledger.pending("slack")) == [OTHER.subject]
    assert SilenceStore(database).read() == (SILENCE,)
    database.close()


def revision_of(place: StorePlace) -> str | None:
    with job_database(place, read_only=True).reading() as connection:
        return revisions.check_revision(connection, "")


def has_notes(place: StorePlace) -> list[bool]:
    """Returns whether it has the new table, and the new column."""
    with job_database(place, read_only=True).reading() as connection:
        found = inspect(connection)
        return [found.has_table("notes"), "note" in {one["name"] for one in found.get_columns("alerts")}]


def damage_an_index(file: Path) -> None:
    """Overwrites a page that has no row of a table."""
    with closing(sqlite3.connect(file)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_deliveries_1'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with file.open("r+b") as written:
        written.seek((page - 1) * size)
        written.write(b"\xff" * size)


def test_the_tables_are_those_that_the_migrations_make(place: StorePlace) -> None:
    with job_database(place).transaction() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, TABLES) == []


def test_migrations_are_numbered_without_a_gap_and_the_last_one_is_the_newest_revision() -> None:
    config = Config()
    config.set_main_option("script_location", revisions.MIGRATIONS)
    scripts = [*ScriptDirectory.from_config(config).walk_revisions()][::-1]
    assert [one.revision for one in scripts] == [f"{number:04}" for number in range(1, len(scripts) + 1)]
    assert scripts[-1].revision == revisions.REVISION


def test_an_upgrade_is_logged_and_keeps_alerts_deliveries_and_silences(
    place: StorePlace, build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    fill(place)
    build(NEXT)
    assert_filled(place)
    (logged,) = caplog.messages
    assert logged.endswith(f": its tables are upgraded from revision {NEWEST} to {NEXT}")
    assert (revision_of(place), has_notes(place)) == (NEXT, [True, True])


def test_what_is_pending_of_an_incident_that_an_older_version_has_sent_counts_as_sent(place: StorePlace) -> None:
    """It did not record which transitions it had sent."""
    database = job_database(place)
    with database.transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE deliveries DROP COLUMN sent")
        connection.execute(update(revisions.REVISIONS).values(version_num="0002"))
    older = AlertStore(database)
    older.add_sink("pager", {})
    of_incidents = [(1, "known", FIRST), (2, "known", replace(FIRST, severity=Severity.WARNING)), (3, "new", OTHER)]
    older.add(
        [
            AlertRecord(number=number, recorded_at_ms=NOON_MS, incident=incident, escalations=0, alert=one)
            for number, incident, one in of_incidents
        ],
        ["pager"],
    )
    older.note("pager", {1: DeliveryStatus.DELIVERED}, {"known": Notified(at_ms=NOON_MS)})
    database.create()
    assert older.content()[1]["pager"].sent == {2}
    database.close()


def test_a_migration_that_fails_changes_nothing(place: StorePlace, build: Build, tmp_path: Path) -> None:
    fill(place)
    build(NEXT)
    script = tmp_path / "migrations" / "versions" / f"v{NEXT}_notes.py"
    script.write_text(SECOND + FAILS)
    with pytest.raises(StoreError, match=r"^[^\n]*(UNIQUE|unique) constraint[^\n]*$"):
        job_database(place).create()
    assert (revision_of(place), has_notes(place)) == (NEWEST, [False, False])
    script.write_text(SECOND)
    assert_filled(place)


def test_jobs_that_start_at_once_upgrade_the_tables_once(place: StorePlace, build: Build) -> None:
    fill(place)
    build(NEXT)
    databases = [job_database(place) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Database.create, databases))
    assert_filled(place)


def test_tables_of_a_newer_version_are_refused_and_stay_as_they_are(place: StorePlace, build: Build) -> None:
    build(NEXT)
    fill(place)
    build(NEWEST)
    reader, job = job_database(place, read_only=True), job_database(place)
    for opened in (SilenceStore(reader).read, job.create):
        with pytest.raises(
            OtherTablesError, match=f"tables of revision {NEXT}, and this kraftwatch knows those up to {NEWEST}"
        ):
            opened()
    build(NEXT)
    assert_filled(place)


def test_a_revision_that_no_version_has_is_refused_in_one_sentence(place: StorePlace) -> None:
    fill(place)
    with job_database(place).transaction() as connection:
        connection.execute(update(revisions.REVISIONS).values(version_num="0\n01"))
    for read_only in (True, False):
        close_connections()
        with pytest.raises(OtherTablesError, match=r"^[^\n]* has tables of revision 0[^\n]*$"):
            Ledger(job_database(place, read_only=read_only)).add_sink("pager")


def test_reading_upgrades_nothing(place: StorePlace, build: Build) -> None:
    fill(place)
    build(NEXT)
    reader = job_database(place, read_only=True)
    assert len([*AlertStore(reader).alerts()]) == 2
    assert SilenceStore(reader).read() == (SILENCE,)
    assert (revision_of(place), has_notes(place)) == (NEWEST, [False, False])


def test_a_reader_of_tables_that_lack_what_it_needs_says_who_upgrades_them(place: StorePlace) -> None:
    fill(place)
    with job_database(place).transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE alerts DROP COLUMN escalations")
    with pytest.raises(StoreError, match="lacks tables of this version of kraftwatch: start its job once"):
        AlertStore(job_database(place, read_only=True)).content()


@needs_postgres
def test_a_running_job_goes_on_when_its_standby_has_upgraded_the_tables(server: PostgresServer) -> None:
    place = server.database("standby")
    fill(place)
    server.sql("ALTER TABLE alerts ADD note text NOT NULL DEFAULT 'none'", "standby")
    server.sql(f"UPDATE alembic_version SET version_num = '{NEXT}'", "standby")
    Ledger(job_database(place)).record([alert("voter 3")], NOON_MS)
    assert len([*AlertStore(job_database(place)).alerts()]) == 3
    close_connections()


def test_what_a_command_writes_to_older_tables_is_kept_and_upgrades_nothing(place: StorePlace, build: Build) -> None:
    fill(place)
    build(NEXT)
    later = replace(SILENCE, id="two", starts_at_ms=Millis(NOON_MS + 1))
    SilenceStore(job_database(place)).add(later, now_ms=NOON_MS)
    assert SilenceStore(job_database(place)).read() == (SILENCE, later)
    assert (revision_of(place), has_notes(place)) == (NEWEST, [False, False])


def test_rows_of_a_damaged_older_database_are_copied_and_then_upgraded(tmp_path: Path, build: Build) -> None:
    fill(tmp_path)
    damaged = sqlite_database(tmp_path, name="damaged", read_only=True)
    (tmp_path / "kraftwatch.db").rename(damaged.path)
    damage_an_index(damaged.path)
    assert damaged.damage() is not None
    build(NEXT)
    sqlite_database(tmp_path).copy_readable(damaged)
    assert (revision_of(tmp_path), has_notes(tmp_path)) == (NEWEST, [False, False])
    assert_filled(tmp_path)
    assert (revision_of(tmp_path), has_notes(tmp_path)) == (NEXT, [True, True])


def test_a_damaged_database_of_a_newer_version_is_not_repaired(tmp_path: Path, build: Build) -> None:
    build(NEXT)
    fill(tmp_path)
    damage_an_index(tmp_path / "kraftwatch.db")
    build(NEWEST)
    with pytest.raises(OtherTablesError):
        sqlite_database(tmp_path, read_only=True).damage()
    assert issubclass(OtherTablesError, UsageError), "the exit code is 2: a supervisor does not start the job again"
