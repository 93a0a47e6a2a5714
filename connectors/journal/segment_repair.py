"""Replaces the segments of a journal that no process has open, where one is damaged."""

from contextlib import suppress
from pathlib import Path

from connectors.errors import JournalError
from connectors.journal import position_file, segment
from connectors.journal.follow_progress import FollowProgress
from connectors.journal.position_file import JournalPosition
from connectors.journal.reader import PUBLISHED, JournalReader


def damaged_segment(directory: Path) -> Path | None:
    """Returns the oldest segment because of which no writer opens the journal; None if there is none. Writes nothing.

    Raises:
        JournalError: the position file is missing or damaged.
        OSError: the folder cannot be read.
    """
    if not directory.is_dir() or not (firsts := segment.first_sequences(directory)):
        return None
    reader = JournalReader(directory)
    journal_id, committed = reader.journal_id, reader.committed_end()
    for first, end in zip(firsts, [*firsts[1:], reader.published_end()], strict=True):
        # As recovery: of older segments, it reads only those that the job may still read.
        read_to = end if first == firsts[-1] or end > committed else first
        if not _is_readable(directory, first, read_to, journal_id):
            return segment.segment_path(directory, first)
    return None


def replace_segments(directory: Path, *, kept: Path, at_least: int) -> None:
    """Moves all segments away and begins an empty one. The numbers of the rows continue: alerts contain them.

    Args:
        directory: a journal with segments and an intact position file, which no process writes to.
        kept: a new folder, in which the former segments are kept.
        at_least: a sequence up to which rows are known to have been published.

    Raises:
        JournalError: the position file is missing or damaged.
        OSError: a file cannot be written or moved.
    """
    reader = JournalReader(directory)
    firsts = segment.first_sequences(directory)
    journal_id = reader.journal_id
    end = max(reader.published_end(), firsts[-1], at_least)
    position = JournalPosition(journal_id=journal_id, sequence=end)
    positions = _clocks(directory, firsts)
    kept.mkdir(mode=0o700)
    if end in firsts:
        _keep(directory, end, kept)
    segment.create(directory, journal_id, end, positions)
    position_file.write(directory / PUBLISHED, position, sync=True)
    # Last, so that an interrupted repair can be repeated: the newest segment shows where the numbers continue.
    for first in firsts:
        if first != end:
            _keep(directory, first, kept)


def _keep(directory: Path, first: int, kept: Path) -> None:
    path = segment.segment_path(directory, first)
    segment.delete_index(path)
    path.rename(kept / path.name)


def _is_readable(directory: Path, first: int, end: int, journal_id: str) -> bool:
    path, readable = segment.segment_path(directory, first), -1
    with suppress(JournalError):
        with path.open("rb") as file:
            if segment.read_header(file, path).journal_id == journal_id:
                readable = first
        if readable < end:
            for _, row in segment.read_rows(directory, first, first, journal_id):
                readable = row.sequence + 1
    return readable >= max(first, end)


def _clocks(directory: Path, firsts: list[int]) -> dict[str, FollowProgress]:
    """Returns, by cluster, the lower bound of its clock in the newest header that can be read, and no log position."""
    for first in reversed(firsts):
        path = segment.segment_path(directory, first)
        with suppress(JournalError), path.open("rb") as file:
            found = segment.read_header(file, path).positions
            return {name: FollowProgress(observed_at_ms=each.observed_at_ms) for name, each in found.items()}
    return {}
