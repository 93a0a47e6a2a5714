"""The writer is killed (kill -9) repeatedly while a reader reads."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_file import journal_damage
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from tests.eventually import eventually
from tests.unit.connectors.store.journal_rows import progress_of

KILLS = 18
SEED = 20_261_120


def digest(row: Observation) -> int:
    return hash(row)


@contextmanager
def writer(directory: Path, seed: int) -> Iterator[None]:
    """A writing process that is killed at the end."""
    script = Path(__file__).with_name("endless_writer.py")
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen([sys.executable, script, directory, str(seed)], env={"PYTHONPATH": path})
    try:
        yield
        assert process.poll() is None, "the writer ended by itself"
    finally:
        process.kill()
        process.wait(30)


def test_published_rows_survive_kills_of_the_writer_unchanged(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    journal = JournalReader(tmp_path)
    digests: list[int] = []
    next_offset = 0
    for kill in range(KILLS):
        with writer(tmp_path, SEED + kill):
            killed_at = None
            eventually(lambda: journal.created, within_s=30, every_s=0.005)
            while killed_at is None or time.monotonic() < killed_at:
                end = journal.wait_beyond(len(digests), 30)
                assert end > len(digests), "the writer wrote nothing for 30 s"
                for row in journal.read(len(digests), end):
                    assert row.sequence == len(digests)
                    digests.append(digest(row))
                    if row.kind is ObservationKind.RECORDS:
                        # No offset is repeated or missing: the writer continued where the journal ended.
                        assert row.base_offset == next_offset
                        next_offset = (row.last_offset or 0) + 1
                        killed_at = killed_at or time.monotonic() + rng.uniform(0, 0.06)
                # As Spark does: the commit is behind the reading position, so some rows are read again.
                journal.commit(max(0, len(digests) - 150))
        oldest = journal.first_sequence()
        assert [digest(row) for row in journal.read(oldest, len(digests))] == digests[oldest:]
    with JournalWriter(tmp_path) as last_writer:
        position = progress_of(last_writer, "alpha")
        for row in journal.read(len(digests), last_writer.published_end):
            next_offset = (row.last_offset or 0) + 1 if row.kind is ObservationKind.RECORDS else next_offset
        assert (position.next_offset, position.last_epoch) == (next_offset, (next_offset - 1) // 10)
    assert journal.first_sequence() > 0, "rows were deleted while it ran"
    assert journal_damage(tmp_path) is None
