"""Damaged journal files: a reader returns rows in their order, or raises a JournalError; and so does a writer.

SQLite has no checksums: a byte that changes inside a payload is found by the checksum of Kafka's batch, or not at all.
"""

import shutil
from pathlib import Path
from random import Random

from connectors.errors import JournalError
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from tests.hostile.byte_mutation import mutated

_ROWS = 40


class DamagedJournal:
    """A journal. Each case damages a copy of it."""

    def __init__(self, folder: Path) -> None:
        self._original = folder / "journal"
        self._copy = folder / "damaged"
        rows = [
            Observation(
                cluster=f"cluster-{number % 3}",
                kind=ObservationKind.RECORDS,
                observed_at_ms=1_790_000_000_000 + number,
                base_offset=number,
                last_offset=number,
                leader_epoch=1,
                high_watermark=number + 1,
                payload=bytes([number]) * (number * 3),
            )
            for number in range(_ROWS)
        ]
        self._row = rows[0]
        with JournalWriter(self._original) as writer:
            for row in rows:
                writer.append([row])
                writer.publish()
        JournalReader(self._original).commit(_ROWS // 2)
        self._files = sorted(path.name for path in self._original.iterdir() if path.is_file())

    def damage(self, rng: Random) -> str:
        """Damages a copy, reads it, writes to it and reads it again; returns `refused` or `read`.

        Raises:
            AssertionError: a row was returned out of its order.
        """
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._original, self._copy)
        path = self._copy / rng.choice(self._files)
        kind = rng.randrange(10)
        if kind == 0:
            path.unlink()
        elif kind == 1:
            path.write_bytes(b"")
        elif kind == 2:
            path.write_bytes((self._copy / rng.choice(self._files)).read_bytes() if path.exists() else b"")
        else:
            path.write_bytes(mutated(path.read_bytes(), rng, times=rng.choice((1, 1, 3))))
        self._read()
        try:
            with JournalWriter(self._copy, lock_timeout_s=0.1) as writer:
                writer.append([self._row])
                writer.publish()
        except JournalError:
            return "refused"
        return "read" if self._read() else "refused"

    def _read(self) -> bool:
        """Returns whether the reader accepted the journal."""
        reader, count = JournalReader(self._copy), 0
        try:
            first = reader.first_sequence()
            for row in reader.read(first, reader.published_end()):
                assert row.sequence == first + count, f"row {row.sequence} is not the next one"
                assert isinstance(row.cluster, str)
                assert isinstance(row.payload, bytes)
                count += 1
        except JournalError:
            return False
        return True
