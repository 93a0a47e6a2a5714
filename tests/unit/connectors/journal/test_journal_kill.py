"""kill -9, again and again, while a reader reads."""

import hashlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connectors.journal import frame
from connectors.journal.reader import Journal
from connectors.journal.writer import Recorder
from connectors.observation import Kind, Observation
from tests.eventually import eventually

KILLS = 18
SEED = 20_261_120


def digest(row: Observation) -> bytes:
    return hashlib.sha256(frame.encode(row)).digest()


@contextmanager
def writer(directory: Path, seed: int) -> Iterator[None]:
    """A writing process, killed at the end."""
    script = Path(__file__).with_name("endless_writer.py")
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen([sys.executable, script, directory, str(seed)], env={"PYTHONPATH": path})
    try:
        yield
        assert process.poll() is None, "the writer ended by itself"
    finally:
        process.kill()
        process.wait(30)


def test_every_published_row_is_read_once_and_never_changes(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    journal = Journal(tmp_path)
    seen: list[bytes] = []
    next_offset = 0
    for kill in range(KILLS):
        with writer(tmp_path, SEED + kill):
            killed_at = None
            eventually(lambda: journal.created, within_s=30, every_s=0.005)
            while killed_at is None or time.monotonic() < killed_at:
                end = journal.wait_beyond(len(seen), 30)
                assert end > len(seen), "the writer wrote nothing for 30 s"
                for row in journal.read(len(seen), end):
                    assert row.sequence == len(seen)
                    seen.append(digest(row))
                    if row.kind is Kind.RECORDS:
                        # No offset twice, none left out: the writer went on where the journal ended.
                        assert row.base_offset == next_offset
                        next_offset = (row.last_offset or 0) + 1
                        killed_at = killed_at or time.monotonic() + chance.uniform(0, 0.06)
                # As Spark does: what is committed lies behind what was read, and some of it is read again.
                journal.commit(max(0, len(seen) - 150))
        again = journal.first()
        assert [digest(row) for row in journal.read(again, len(seen))] == seen[again:]
    with Recorder(tmp_path) as recorder:
        progress = recorder.last("alpha")
        for row in journal.read(len(seen), recorder.published):
            next_offset = (row.last_offset or 0) + 1 if row.kind is Kind.RECORDS else next_offset
        assert progress is not None
        assert (progress.next_offset, progress.last_epoch) == (next_offset, (next_offset - 1) // 10)
    assert journal.first() > 0, "segments were deleted while it ran"
