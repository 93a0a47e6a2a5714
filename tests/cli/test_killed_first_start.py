"""A first start that is killed at any operation on the new journal: the next one works, and repair finds nothing."""

import os
import signal
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from streaming.cli import app
from streaming.pipeline.checkpoint import Checkpoint

CALLS = ("open", "write", "pwrite", "fsync", "ftruncate", "rename", "mkdir", "unlink", "close")
"""The functions of `os` by which files are changed."""
STATEMENTS = ("execute", "executemany", "close")
"""The methods of a connection of SQLite."""
MOST = 60
"""More operations than a first start has."""
ROW = Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)


def first_start(journal: Path) -> None:
    with JournalWriter(journal) as writer:
        writer.append([ROW])


def killed(journal: Path, call: int) -> bool:
    """Runs a first start in a process that kills itself before an operation; returns whether it came that far."""
    child = os.fork()
    if child == 0:
        _kill_at(call)
        first_start(journal)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _kill_at(call: int) -> None:
    left = call

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return operation

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    methods = {name: counted(getattr(sqlite3.Connection, name)) for name in STATEMENTS}
    sqlite3.connect = partial(sqlite3.connect, factory=type("Connection", (sqlite3.Connection,), methods))  # type: ignore[assignment]


def test_next_start_works_and_repair_finds_nothing(tmp_path: Path) -> None:
    calls = 0
    for calls in range(1, MOST):
        checkpoint = Checkpoint(folder=tmp_path / str(calls))
        checkpoint.folder.mkdir()
        if not killed(checkpoint.journal, calls):
            break
        checkpoint.journal.mkdir(exist_ok=True)
        files = {path.name: path.stat().st_size for path in checkpoint.journal.iterdir()}

        repair = CliRunner().invoke(app, ["checkpoint", "repair", "--checkpoint", str(checkpoint.folder)])
        assert (repair.exit_code, repair.stdout) == (0, ""), f"{calls}: {files}: {repair.output} {repair.exception}"
        checkpoint.check_journal()
        first_start(checkpoint.journal)
        rows = JournalReader(checkpoint.journal)
        assert {row.cluster for row in rows.read(0, rows.published_end())} == {"prod"}, f"{calls}: {files}"
    assert 15 < calls < MOST, "every operation was one at which it was killed"
