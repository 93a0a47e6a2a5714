"""A first start that is killed at any file operation of the new journal: the next one works, repair finds nothing."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from connectors.journal.reader import PUBLISHED, JournalReader
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from streaming.cli import app
from streaming.pipeline.checkpoint import Checkpoint

CALLS = ("open", "write", "pwrite", "fsync", "fdatasync", "ftruncate", "replace", "rename", "mkdir", "unlink", "close")
"""The functions of `os` by which files are changed."""
MOST = 60
"""More operations than a first start has."""
ROW = Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)


def first_start(journal: Path) -> None:
    with JournalWriter(journal) as writer:
        writer.append([ROW])


def killed(journal: Path, call: int, *, torn: bool) -> bool:
    """Runs a first start in a process that kills itself at a file operation; returns whether it came that far.

    With `torn`, the operation has written half of its bytes.
    """
    child = os.fork()
    if child == 0:
        _kill_at(call, torn=torn)
        first_start(journal)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _kill_at(call: int, *, torn: bool) -> None:
    left = call

    def counted(name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def operation(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                if torn and name in ("write", "pwrite"):
                    descriptor, content, *at = args
                    original(descriptor, bytes(content)[: len(content) // 2], *at)
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return operation

    for name in CALLS:
        setattr(os, name, counted(name))


@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
def test_next_start_works_and_repair_finds_nothing(tmp_path: Path, torn: bool) -> None:
    calls = 0
    for calls in range(1, MOST):
        checkpoint = Checkpoint(folder=tmp_path / str(calls))
        checkpoint.folder.mkdir()
        if not killed(checkpoint.journal, calls, torn=torn):
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


@pytest.mark.parametrize("size", [0, 20, 44, 512])
def test_position_file_that_a_power_failure_left_without_content_is_written_again(tmp_path: Path, size: int) -> None:
    """The size of a new file may be on the disk before its content: it then reads as zeros."""
    checkpoint = Checkpoint(folder=tmp_path)
    checkpoint.journal.mkdir()
    (checkpoint.journal / PUBLISHED).write_bytes(bytes(size))

    checkpoint.check_journal()
    first_start(checkpoint.journal)

    assert JournalReader(checkpoint.journal).published_end() == 1
