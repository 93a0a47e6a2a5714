"""Repairs the position files of a journal that no process has open."""

from pathlib import Path

from connectors.errors import JournalError
from connectors.journal import position_file, segment
from connectors.journal.position_file import JournalPosition
from connectors.journal.reader import COMMITTED, PUBLISHED, RESTART, JournalReader


def published_damage(directory: Path) -> str | None:
    """Returns why the rows of a journal with segments cannot be read; None if its position file is intact.

    Raises:
        OSError: the folder cannot be read.
    """
    if not directory.is_dir() or not segment.first_sequences(directory):
        return None
    try:
        found = position_file.read(directory / PUBLISHED)
    except JournalError:
        return "it holds no valid position"
    return "it is missing beside the journal's segments" if found is None else None


def restart_damage(directory: Path) -> str | None:
    """Returns why the file `restart` of a journal cannot be read; None if it is intact or does not exist."""
    try:
        position_file.read(directory / RESTART)
    except JournalError:
        return "it holds no valid position"
    return None


def restore_published(directory: Path, *, at_least: int = 0) -> JournalPosition:
    """Writes the position file from the newest segment. The next writer publishes every whole row above it.

    Args:
        directory: a journal with segments, which no process writes to.
        at_least: a sequence up to which rows are known to have been published.

    Raises:
        JournalError: the newest segment's header is damaged.
        OSError: the file cannot be written.
    """
    first = segment.first_sequences(directory)[-1]
    path = segment.segment_path(directory, first)
    with path.open("rb") as file:
        journal_id = segment.read_header(file, path).journal_id
    try:
        committed = position_file.read(directory / COMMITTED)
    except JournalError:
        committed = None
    known = committed.sequence if committed is not None and committed.journal_id == journal_id else 0
    position = JournalPosition(journal_id=journal_id, sequence=max(first, known, at_least))
    (directory / PUBLISHED).unlink(missing_ok=True)
    position_file.write(directory / PUBLISHED, position, sync=True)
    return position


def lower_committed(directory: Path, sequence: int) -> None:
    """Takes back the commit of the rows from `sequence` on: they are read again, so retention must not delete them.

    Raises:
        JournalError: the journal's `published` file is missing or damaged.
        OSError: the file cannot be written.
    """
    reader = JournalReader(directory)
    if sequence < reader.committed_end():
        position = JournalPosition(journal_id=reader.journal_id, sequence=sequence)
        position_file.write(directory / COMMITTED, position, sync=True)
