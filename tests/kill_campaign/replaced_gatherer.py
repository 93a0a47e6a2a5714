"""A gatherer that appends made rows instead of observing clusters; here those of a recorded campaign.

It writes the journal as the gatherer does. How many rows of the recording it may append is in a file, so that the
campaign decides between which kills they are processed; after a kill it continues with the row that is missing.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, TextIO

from connectors.gather.gatherer_input import settings_from_line
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from tests.kill_campaign.recording import read

RECORDING = "recording"
ALLOWANCE = "allowance"
ROWS_AT_ONCE = 8
EVERY_S = 0.04
IDLE_TURNS = 10
CLOCK = "clock"
"""The cluster of the rows that are appended while no other row is allowed. No configuration has it, so they change
nothing; but they cause batches, with which pending notifications are sent."""


def gather(stdin: BinaryIO, stdout: TextIO, *, folder: Path, rows_of: str) -> int:
    """Runs until `stdin` closes; the replacement of `connectors.gather.gatherer.main`.

    `rows_of` names a module, whose `rows(folder, journal)` yields again and again what is appended now.
    """
    settings = settings_from_line(stdin.readline())
    stopping = threading.Event()
    threading.Thread(target=_await_end, args=(stdin, stopping), daemon=True).start()
    limit = {} if settings.keep_bytes is None else {"keep_bytes": settings.keep_bytes}
    with (
        JournalWriter(Path(settings.journal), **limit) as journal,
        closing(import_module(rows_of).rows(folder, journal)) as made,
    ):
        stdout.write("ready\n")
        stdout.flush()
        while not stopping.wait(EVERY_S):
            journal.append(next(made))
            journal.publish()
    return os.EX_OK


def _await_end(stdin: BinaryIO, stopping: threading.Event) -> None:
    stdin.read()
    stopping.set()


def allow(folder: Path, rows: int) -> None:
    """Allows so many rows of the recording."""
    temporary = folder / (ALLOWANCE + ".new")
    temporary.write_text(str(rows), encoding="utf-8")
    temporary.replace(folder / ALLOWANCE)


def rows(folder: Path, journal: JournalWriter) -> Iterator[Sequence[Observation]]:
    """Yields the rows of the recording that are allowed, and rows of the clock."""
    recorded = read(folder / RECORDING)
    reader = JournalReader(folder / "checkpoint" / "journal")
    appended = sum(row.cluster != CLOCK for row in reader.read(reader.first_sequence(), reader.published_end()))
    newest_ms, idle = recorded[max(0, appended - 1)].observed_at_ms, 0
    while True:
        allowed = min(len(recorded), int((folder / ALLOWANCE).read_text(encoding="utf-8")))
        new = recorded[appended : min(allowed, appended + ROWS_AT_ONCE)]
        appended += len(new)
        newest_ms = max([newest_ms, *(row.observed_at_ms for row in new)])
        idle = 0 if new else idle + 1
        yield new or [_clock_row(newest_ms)] * (idle % IDLE_TURNS == 1)


def _clock_row(at_ms: int) -> Observation:
    return Observation(cluster=CLOCK, kind=ObservationKind.QUORUM, observed_at_ms=at_ms, payload=b"{}")
