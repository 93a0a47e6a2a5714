"""What a newer version of kraftwatch has stored: each command ends with one sentence, and changes nothing."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from connectors.store.postgres import close_connections
from connectors.store.revisions import REVISIONS
from connectors.store.store_place import StorePlace
from connectors.store.tables import job_database
from tests.cli.program import usage_error
from tests.postgres_server import PostgresServer, needs_postgres
from tests.recordings import recorded_checkpoint

NEWER = "9999"
RULE = ("--rule", "no-*", "--for", "1h", "--comment", "why")
CLUSTER = ("--cluster", "cert=127.0.0.1:1")


def upgrade(place: StorePlace) -> None:
    """Gives the tables the revision of a newer version."""
    with closing(job_database(place)) as database, database.transaction() as connection:
        connection.execute(update(REVISIONS).values(version_num=NEWER))


def dump(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return [*connection.iterdump()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint with alerts."""
    folder = recorded_checkpoint(tmp_path).folder
    upgrade(folder)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--checkpoint", "FOLDER", *CLUSTER),
        ("repair", "--checkpoint", "FOLDER"),
        ("silence", "add", "--checkpoint", "FOLDER", *RULE),
        ("silence", "list", "--checkpoint", "FOLDER"),
        ("data", "quarantine", "list", "--checkpoint", "FOLDER"),
        ("report", "--journal", "FOLDER"),
    ],
    ids=" ".join,
)
def test_newer_tables_in_the_checkpoint_are_refused_in_one_sentence(folder: Path, command: tuple[str, ...]) -> None:
    file = folder / "kraftwatch.db"
    before = dump(file)

    refused = usage_error(*(word.replace("FOLDER", str(folder)) for word in command))

    assert refused.startswith(f"{file} has tables of revision {NEWER}, and this kraftwatch knows those up to ")
    assert refused.endswith(
        ": use the kraftwatch that upgraded them, or a newer one; its alerts and silences stay there"
    )
    assert dump(file) == before


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--checkpoint", "FOLDER", *CLUSTER),
        ("repair", "--checkpoint", "FOLDER"),
        ("status", "--journal", "FOLDER"),
        ("timeline", "--journal", "FOLDER"),
        ("replay", "--journal", "FOLDER"),
        ("report", "--checkpoint", "FOLDER", "--only", "prod"),
        ("bundle", "--checkpoint", "FOLDER", "--output", "FOLDER/new"),
    ],
    ids=" ".join,
)
def test_a_newer_journal_is_refused_in_one_sentence(tmp_path: Path, command: tuple[str, ...]) -> None:
    folder = recorded_checkpoint(tmp_path).folder
    file = folder / "journal" / "observations.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = dump(file)

    refused = usage_error(*(word.replace("FOLDER", str(folder)) for word in command))

    assert refused == (
        f"{file} has version 2, and this kraftwatch reads 1: use the kraftwatch that wrote it, or give a new folder, "
        "with a copy of kraftwatch.db if there is one: without it, silences are lost, and what fires is sent again"
    )
    assert dump(file) == before


@needs_postgres
def test_newer_tables_in_the_store_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with PostgresServer() as server:
        place = server.database("one")
        upgrade(place)
        close_connections()
        file = tmp_path / "kraftwatch.yaml"
        clusters = [{"name": "cert", "bootstrap": ["127.0.0.1:1"]}]
        file.write_text(json.dumps({"clusters": clusters, "checkpoint": str(tmp_path / "new"), "store": place.url}))
        for words in (("run",), ("silence", "add", *RULE), ("silence", "list")):
            refused = usage_error(*words, "--config", file)
            assert refused.startswith(f"the store {place} has tables of revision {NEWER}, and this kraftwatch knows ")
            close_connections()
        assert server.sql("SELECT version_num FROM alembic_version", "one") == NEWER
