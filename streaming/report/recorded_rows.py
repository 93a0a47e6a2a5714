"""The rows of a journal, or of a log directory, in order."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from connectors.observations.observation import Observation
from connectors.sinks.alert_json import iso
from rules.formatting import ms_text
from rules.model.identifiers import Millis
from streaming.report.log_dir_rows import log_dir_rows
from streaming.status.from_journal import open_journal

_PROGRESS_EVERY_S = 2.0
_CLOCK_EVERY_ROWS = 4_096


def recorded_rows(journal: Path | None, log_dir: Path | None, *, say: Callable[[str], None]) -> Iterator[Observation]:
    """Yields the rows of one of the two, the other being None.

    Args:
        journal: a checkpoint folder or the journal in it: from where it holds everything about each cluster.
        log_dir: a metadata.log.dir.
        say: prints progress.

    Raises:
        UsageError: there is no journal or no metadata log.
        JournalError: the journal is damaged.
    """
    if log_dir is not None:
        yield from log_dir_rows(log_dir)
        return
    assert journal is not None
    reader = open_journal(journal)
    first, end = reader.beginning(), reader.published_end()
    began = reported_at = time.monotonic()
    for row in reader.read(first, end):
        if row.sequence % _CLOCK_EVERY_ROWS == 0 and (now := time.monotonic()) - reported_at > _PROGRESS_EVERY_S:
            reported_at, done = now, row.sequence - first
            left = ms_text(Millis(round(1000 * (now - began) * (end - first - done) / max(1, done))))
            say(f"replaying: {100 * done // (end - first)} % of {end - first} rows, up to {_day(row)}; {left} left")
        yield row


def _day(row: Observation) -> str:
    return iso(Millis(row.observed_at_ms))[:16].replace("T", " ")
