"""The rows of a journal, or of a log directory, in order."""

from collections.abc import Callable, Iterator
from pathlib import Path

from connectors.observation import Observation
from streaming.report.log_dir_rows import log_dir_rows
from streaming.status.from_journal import open_journal

_PROGRESS_ROWS = 50_000


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
    for row in reader.read(first, end):
        if (row.sequence - first) % _PROGRESS_ROWS == _PROGRESS_ROWS - 1:
            say(f"replaying: {row.sequence - first + 1} of {end - first} rows")
        yield row
