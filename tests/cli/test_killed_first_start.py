"""A first start that is killed at any operation on the new journal: the next one works, and repair finds nothing."""

import os
import sqlite3
from functools import partial
from pathlib import Path

from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from streaming.pipeline.checkpoint import Checkpoint
from tests.cli.killed_process import killed_at
from tests.cli.program import kraftwatch

CALLS = ("open", "write", "pwrite", "fsync", "ftruncate", "rename", "mkdir", "unlink", "close")
"""The functions of `os` by which files are changed."""
STATEMENTS = ("execute", "executemany", "close")
"""The methods of a connection of SQLite."""
MOST = 60
"""More operations than a first start has."""
ROW = Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)


class Connection(sqlite3.Connection):
    """Its methods are counted in the process that is killed."""


OPERATIONS = [*((os, name) for name in CALLS), *((Connection, name) for name in STATEMENTS)]


def first_start(journal: Path) -> None:
    with JournalWriter(journal) as writer:
        writer.append([ROW])


def counted_first_start(journal: Path) -> None:
    sqlite3.connect = partial(sqlite3.connect, factory=Connection)  # type: ignore[assignment]
    first_start(journal)


def test_next_start_works_and_repair_finds_nothing(tmp_path: Path) -> None:
    calls = 0
    for calls in range(1, MOST):
        checkpoint = Checkpoint(folder=tmp_path / str(calls))
        checkpoint.folder.mkdir()
        if not killed_at(calls, OPERATIONS, partial(counted_first_start, checkpoint.journal)):
            break
        checkpoint.journal.mkdir(exist_ok=True)
        files = {path.name: path.stat().st_size for path in checkpoint.journal.iterdir()}

        repair = kraftwatch("repair", "--checkpoint", checkpoint.folder)
        assert (repair.exit_code, repair.stdout) == (0, ""), f"{calls}: {files}: {repair.output} {repair.exception}"
        assert checkpoint.why_no_state() is None
        first_start(checkpoint.journal)
        rows = JournalReader(checkpoint.journal)
        assert {row.cluster for row in rows.read(0, rows.published_end())} == {"prod"}, f"{calls}: {files}"
    assert 15 < calls < MOST, "every operation was one at which it was killed"
