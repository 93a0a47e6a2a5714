"""The journal as its readers see it: published rows, by sequence."""

import os
import secrets
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from connectors.errors import JournalError
from connectors.journal import position_file, segment
from connectors.journal.position_file import Mark
from connectors.observation import Observation

LOCK = "lock"
PUBLISHED = "published"
COMMITTED = "committed"

_LOOK_EVERY_S = 0.005


def new_journal_id() -> str:
    """A journal's identity: 32 hex digits, random."""
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class Journal:
    """Reads what is published; takes no lock, keeps nothing open, and can be pickled: it holds only the path."""

    directory: Path

    @property
    def created(self) -> bool:
        """A recorder has made the journal. Before that, everything else raises JournalError."""
        return (self.directory / PUBLISHED).exists()

    @property
    def journal_id(self) -> str:
        """32 hex digits, random at creation: rows of another journal never take this one's positions."""
        return self._published().journal_id

    def published(self) -> int:
        """The sequence after the last published row: where the next row will stand."""
        return self._published().sequence

    def written(self) -> int:
        """The sequence after the last whole row on the disk, published or not.

        Rows are synced and the mark that publishes them is not: after a power cut it may stand before them, until a
        recorder opens the journal.
        """
        published = self._published()
        end = published.sequence
        # What is torn behind the last whole row is the recorder's to cut off.
        with suppress(JournalError):
            for _, row in segment.rows(self.directory, self._segments()[-1], end, published.journal_id):
                end = row.sequence + 1
        return end

    def first(self) -> int:
        """The sequence of the oldest row that is kept."""
        return self._segments()[0]

    def committed(self) -> int:
        """How far the reader has said it is done; 0 before it said anything."""
        return committed(self.directory, self.journal_id)

    def read(self, start: int, end: int) -> Iterator[Observation]:
        """Rows with start <= sequence < end, in order. Reading them again gives the same rows.

        Raises:
            JournalError: some of them are not published, are deleted, or are damaged.
        """
        published = self._published()
        if not 0 <= start <= end <= published.sequence:
            raise JournalError(
                f"Rows {start} to {end} of the journal {self.directory} were asked for, but it ends at "
                f"{published.sequence}: the checkpoint belongs to another journal, or this one was put back."
            )
        expected = start
        while expected < end:
            for row in self._segment_from(expected, published.journal_id):
                yield row
                expected = row.sequence + 1
                # Not one row further: what stands above the published end may be half written.
                if expected == end:
                    return

    def wait_beyond(self, sequence: int, timeout_s: float) -> int:
        """Block until something beyond `sequence` is published, or the timeout; then what is published.

        It looks every 5 ms, which costs under one percent of a core.
        """
        path = self.directory / PUBLISHED
        deadline = time.monotonic() + timeout_s
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError as missing:
            raise self._absent() from missing
        try:
            while True:
                published = position_file.read_open(descriptor, path).sequence
                left_s = deadline - time.monotonic()
                if published > sequence or left_s <= 0:
                    return published
                time.sleep(min(_LOOK_EVERY_S, left_s))
        finally:
            os.close(descriptor)

    def commit(self, sequence: int) -> None:
        """Say that nobody will ask again for rows below `sequence`: the recorder may delete them.

        A commit below an earlier one changes nothing.

        Raises:
            JournalError: the position is beyond what is published, or the mark cannot be written.
        """
        published = self._published()
        if sequence > published.sequence:
            raise JournalError(
                f"Row {sequence} of the journal {self.directory} was committed, but it ends at {published.sequence}."
            )
        if sequence <= committed(self.directory, published.journal_id):
            return
        try:
            position_file.write(self.directory / COMMITTED, Mark(journal_id=published.journal_id, sequence=sequence))
        except OSError as error:
            raise JournalError(f"{self.directory / COMMITTED} cannot be written: {error.strerror}.") from error

    def _segment_from(self, start: int, journal_id: str) -> Iterator[Observation]:
        firsts = self._segments()
        at = bisect_right(firsts, start) - 1
        if at < 0:
            raise JournalError(
                f"Row {start} of the journal {self.directory} is no longer kept: it begins at {firsts[0]}."
            )
        empty = True
        for _, row in segment.rows(self.directory, firsts[at], start, journal_id):
            empty = False
            yield row
        if empty:
            path = segment.path_of(self.directory, firsts[at])
            raise segment.damaged(path, path.stat().st_size, f"row {start} is missing")

    def _segments(self) -> list[int]:
        try:
            firsts = segment.listing(self.directory)
        except FileNotFoundError as missing:
            raise self._absent() from missing
        if not firsts:
            raise self._absent()
        return firsts

    def _published(self) -> Mark:
        found = position_file.read(self.directory / PUBLISHED)
        if found is None:
            raise self._absent()
        return found

    def _absent(self) -> JournalError:
        return JournalError(f"{self.directory} holds no journal: nothing was ever recorded there.")


def committed(directory: Path, journal_id: str) -> int:
    """The committed position; 0 where there is none, or where it is another journal's.

    A damaged one counts as none (it is not synced, and a power cut may leave it empty): rows are only kept longer.
    """
    try:
        found = position_file.read(directory / COMMITTED)
    except JournalError:
        return 0
    return found.sequence if found is not None and found.journal_id == journal_id else 0
