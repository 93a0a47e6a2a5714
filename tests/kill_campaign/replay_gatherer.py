"""The gatherer of a recorded campaign: appends the rows of a recording instead of observing clusters.

It writes the journal as the gatherer does, and continues after a kill with the row that is missing. How many rows it
may append is in a file, so that the campaign decides between which kills they are processed.
"""

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TextIO

from connectors.gather.gatherer_input import settings_from_line
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from tests.kill_campaign.recording import read

ALLOWANCE = "allowance"
ROWS_AT_ONCE = 8
EVERY_S = 0.04
IDLE_S = 0.4
CLOCK = "clock"
"""The cluster of the rows that are appended while no other row is allowed. No configuration has it, so they change
nothing; but they cause batches, with which pending notifications are sent."""


def allow(folder: Path, rows: int) -> None:
    """Allows so many rows of the recording."""
    temporary = folder / (ALLOWANCE + ".new")
    temporary.write_text(str(rows), encoding="utf-8")
    temporary.replace(folder / ALLOWANCE)


def replay(stdin: BinaryIO, stdout: TextIO, *, folder: Path, recording: Path) -> int:
    """Runs until `stdin` closes; the replacement of `connectors.gather.gatherer.main`."""
    journal = Path(settings_from_line(stdin.readline()).journal)
    rows = read(recording)
    stopping = threading.Event()
    threading.Thread(target=_wait_for_end, args=(stdin, stopping), daemon=True).start()
    with JournalWriter(journal) as writer:
        appended = _appended(journal)
        newest_ms = rows[max(0, appended - 1)].observed_at_ms
        stdout.write("ready\n")
        stdout.flush()
        while not stopping.is_set():
            allowed = min(len(rows), int((folder / ALLOWANCE).read_text(encoding="utf-8")))
            new = rows[appended : min(allowed, appended + ROWS_AT_ONCE)]
            newest_ms = max([newest_ms, *(row.observed_at_ms for row in new)])
            writer.append([replace(row) for row in new] or [_clock_row(newest_ms)])
            writer.publish()
            appended += len(new)
            stopping.wait(EVERY_S if new else IDLE_S)
    return os.EX_OK


def _wait_for_end(stdin: BinaryIO, stopping: threading.Event) -> None:
    stdin.read()
    stopping.set()


def _appended(journal: Path) -> int:
    """Returns how many rows of the recording are in the journal."""
    reader = JournalReader(journal)
    return sum(row.cluster != CLOCK for row in reader.read(reader.first_sequence(), reader.published_end()))


def _clock_row(at_ms: int) -> Observation:
    return Observation(cluster=CLOCK, kind=ObservationKind.QUORUM, observed_at_ms=at_ms, payload=b"{}")
