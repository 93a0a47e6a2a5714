"""Rows that a full disk does not take: the gatherer also writes them to its stdout, so that the job evaluates some."""

import base64
import queue
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol, TextIO

from connectors.observations.observation import Observation, ObservationKind, packed, unpacked

_PREFIX: Final = b"row "
_MOST: Final = 10_000
"""So many rows wait for a job that does not read them; the newest ones are left out then."""


class Unpublished(Protocol):
    """The method used of `connectors.store.journal_writer.JournalWriter`."""

    def unpublished(self, from_sequence: int) -> Sequence[Observation]:
        """Returns the rows from this sequence on that are not stored yet."""


def row_to_line(row: Observation) -> bytes:
    """Returns a row as one line with its line end."""
    return _PREFIX + base64.b64encode(packed(row)) + b"\n"


def row_from_line(line: bytes) -> Observation | None:
    """Returns the row of a line that `row_to_line` wrote; None of any other line."""
    if line.startswith(_PREFIX):
        with suppress(ValueError, IndexError, struct.error):
            return unpacked(base64.b64decode(line[len(_PREFIX) :]))
    return None


class UnwrittenRows:
    """Writes each of these rows once, in a thread of its own: a job that does not read must not block the gatherer.

    Those of the log have no payload: the rules that the job evaluates on them need none.
    """

    def __init__(self, journal: Unpublished, stdout: TextIO) -> None:
        """Writes nothing yet."""
        self._journal, self._stdout = journal, stdout
        self._end = 0
        """The sequence after the newest row that was taken."""
        self._lines = queue.Queue[bytes](_MOST)
        self._thread: threading.Thread | None = None

    def write(self) -> None:
        """Writes what is not stored and was not written yet. Never blocks."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="unwritten rows", daemon=True)
            self._thread.start()
        for row in self._journal.unpublished(self._end):
            self._end = row.sequence + 1
            unread = replace(row, payload=b"") if row.kind is ObservationKind.RECORDS else row
            if row.kind is not ObservationKind.SNAPSHOT:
                with suppress(queue.Full):
                    self._lines.put_nowait(row_to_line(unread))

    def _run(self) -> None:
        while True:
            line = self._lines.get().decode("ascii")
            try:
                self._stdout.write(line)
                self._stdout.flush()
            except (OSError, ValueError):
                # The job has ended, and so does the gatherer.
                return
