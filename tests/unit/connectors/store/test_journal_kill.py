"""The writer is killed (kill -9) repeatedly while a reader reads."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connectors.observations.observation import ObservationKind
from connectors.store.journal_file import journal_damage
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from tests.eventually import eventually
from tests.unit.connectors.store.journal_rows import batch, poll, progress_of, records

KILLS = 18
SEED = 20_261_120


def write_endlessly(directory: Path, seed: int) -> None:
    """Writes batches with ascending offsets; continues at the journal's follow position, as the gatherer does."""
    rng = random.Random(seed)
    with JournalWriter(directory, keep_bytes=100_000) as writer:
        position = writer.follow_progress("alpha")
        offset = (position.next_offset or 0) if position else 0
        now_ms = position.observed_at_ms if position else 0
        while True:
            for _ in range(rng.randrange(1, 20)):
                now_ms += 1
                end = offset + rng.randrange(1, 4)
                batches = [batch(at, epoch=at // 10) for at in range(offset, end)]
                row = records(*batches, base=offset, last=end - 1, at_ms=now_ms)
                writer.append([row, poll(now_ms, payload=b"x" * rng.randrange(3000))])
                offset = end
            writer.publish()


@contextmanager
def writing(directory: Path, seed: int) -> Iterator[None]:
    """A writing process that is killed at the end."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen([sys.executable, __file__, directory, str(seed)], env={"PYTHONPATH": path})
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
        with writing(tmp_path, SEED + kill):
            killed_at = None
            eventually(lambda: journal.created, within_s=30, every_s=0.005)
            while killed_at is None or time.monotonic() < killed_at:
                end = journal.wait_beyond(len(digests), 30)
                assert end > len(digests), "the writer wrote nothing for 30 s"
                for row in journal.read(len(digests), end):
                    assert row.sequence == len(digests)
                    digests.append(hash(row))
                    if row.kind is ObservationKind.RECORDS:
                        # No offset is repeated or missing: the writer continued where the journal ended.
                        assert row.base_offset == next_offset
                        next_offset = (row.last_offset or 0) + 1
                        killed_at = killed_at or time.monotonic() + rng.uniform(0, 0.06)
                # As Spark does: the commit is behind the reading position, so some rows are read again.
                journal.commit(max(0, len(digests) - 150))
        oldest = journal.first_sequence()
        assert [hash(row) for row in journal.read(oldest, len(digests))] == digests[oldest:]
    with JournalWriter(tmp_path) as last_writer:
        position = progress_of(last_writer, "alpha")
        for row in journal.read(len(digests), last_writer.published_end):
            next_offset = (row.last_offset or 0) + 1 if row.kind is ObservationKind.RECORDS else next_offset
        assert (position.next_offset, position.last_epoch) == (next_offset, (next_offset - 1) // 10)
    assert journal.first_sequence() > 0, "rows were deleted while it ran"
    assert journal_damage(tmp_path) is None


if __name__ == "__main__":
    write_endlessly(Path(sys.argv[1]), int(sys.argv[2]))
