"""Damaged journal files: every row that a reader returns is a row that was written, or it raises a JournalError."""

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

from connectors.errors import JournalError
from connectors.journal.reader import JournalReader
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from tests.hostile.byte_mutation import mutated

_ROWS = 40
_SEGMENT_BYTES = 1_500


class DamagedJournal:
    """A journal of some segments. Each case damages a copy of it."""

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
        with JournalWriter(self._original, segment_bytes=_SEGMENT_BYTES) as writer:
            for row in rows:
                writer.append([row])
                writer.publish()
        JournalReader(self._original).commit(_ROWS // 2)
        self._rows = [replace(row, sequence=number) for number, row in enumerate(rows)]
        self._files = sorted(path.name for path in self._original.iterdir() if path.is_file())

    def damage(self, rng: Random) -> str:
        """Damages a copy, reads it, recovers it and reads it again; returns `refused` or `read`.

        Raises:
            AssertionError: a row was returned that was never written.
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
        before = self._read()
        try:
            with JournalWriter(self._copy, segment_bytes=_SEGMENT_BYTES, lock_timeout_s=0.1) as writer:
                writer.append([self._rows[0]])
                writer.publish()
        except JournalError:
            return "refused"
        after = self._read()
        assert before is None or after is None or after >= before - 1, "recovery lost a published row"
        return "read" if after is not None else "refused"

    def _read(self) -> int | None:
        """Returns how many rows were read; None if the reader refused the journal."""
        reader, count = JournalReader(self._copy), 0
        try:
            for row in reader.read(reader.first_sequence(), reader.published_end()):
                if row.sequence < _ROWS:
                    assert row == self._rows[row.sequence], f"row {row.sequence} is not the one that was written"
                count += 1
        except JournalError:
            return None
        return count
