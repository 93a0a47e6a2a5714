"""Recovery: restores a consistent journal after its last writer stopped or crashed. Only the lock's holder runs it.

A frame that is not whole lies either above the published sequence or below it. Above, it is a torn tail that no
reader has seen: recovery cuts it off. Below, it is damage: recovery refuses the journal, because a reader may already
have used those rows. Whole rows above the published sequence stay, and the follower continues after them.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from connectors.durable_file import sync_directory
from connectors.errors import JournalError
from connectors.journal import frame, position_file, segment
from connectors.journal.follow_progress import FollowProgress, advance
from connectors.journal.frame import BadFrameError
from connectors.journal.position_file import JournalPosition
from connectors.journal.reader import PUBLISHED, committed_sequence, missing_published, new_journal_id
from connectors.journal.retention import SealedSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredJournal:
    """A journal that is consistent and published to its end."""

    journal_id: str
    sealed: Sequence[SealedSegment]
    first: int
    """First sequence of the active segment, to which new rows are appended."""
    position: int
    """Length of the active segment in bytes."""
    indexed_at: int
    """Byte offset of the newest entry in the active segment's index."""
    end: int
    """The sequence of the next row."""
    positions: Mapping[str, FollowProgress]
    """By cluster name."""
    torn_bytes: int
    """How many bytes were cut off."""


def recover(directory: Path) -> RecoveredJournal:
    """Makes the journal in `directory` writable; creates it if there is none.

    Raises:
        JournalError: it is damaged below the published sequence; names file and byte.
        OSError: it cannot be read or written.
    """
    for unfinished in directory.glob("*.new"):
        unfinished.unlink()
    firsts = segment.first_sequences(directory)
    if not firsts:
        _delete_interrupted_position_file(directory / PUBLISHED)
    published = position_file.read(directory / PUBLISHED)
    if published is None:
        if firsts:
            raise JournalError(missing_published(directory))
        published = JournalPosition(journal_id=new_journal_id(), sequence=0)
        position_file.write(directory / PUBLISHED, published, sync=True)
        sync_directory(directory)
    if not firsts:
        if published.sequence > 0:
            raise JournalError(
                f"{directory} has lost its segments (rows up to {published.sequence} were published): "
                f"restore them, or move the whole journal folder away and start with a new checkpoint."
            )
        segment.create(directory, published.journal_id, 0, {})
        firsts = [0]
    sealed = _check_sealed(directory, firsts, published.journal_id)
    return _recover_active(directory, firsts[-1], published, sealed)


def _delete_interrupted_position_file(published: Path) -> None:
    """Deletes the position file of a new journal if its writer was killed before it held a position."""
    try:
        position_file.read(published)
    except JournalError:
        if not position_file.is_of_new_journal(published):
            raise
        published.unlink()


def _check_sealed(directory: Path, firsts: list[int], journal_id: str) -> list[SealedSegment]:
    """Returns all segments but the last. Checks those row by row that the job may still read."""
    committed = committed_sequence(directory, journal_id)
    sealed: list[SealedSegment] = []
    for first, end in pairwise(firsts):
        path = segment.segment_path(directory, first)
        if end > committed:
            _check_rows(directory, first, end, journal_id)
        with segment.segment_path(directory, end).open("rb") as following:
            positions = segment.read_header(following, segment.segment_path(directory, end)).positions
        newest_at_ms = max((position.observed_at_ms for position in positions.values()), default=0)
        sealed.append(SealedSegment(first=first, end=end, size_bytes=path.stat().st_size, newest_at_ms=newest_at_ms))
    return sealed


def _check_rows(directory: Path, first: int, end: int, journal_id: str) -> None:
    sequence = first
    for _, row in segment.read_rows(directory, first, first, journal_id):
        sequence = row.sequence + 1
    if sequence != end:
        path = segment.segment_path(directory, first)
        raise segment.damage_error(path, path.stat().st_size, f"it ends before row {sequence}, not before row {end}")


def _recover_active(
    directory: Path, first: int, published: JournalPosition, sealed: Sequence[SealedSegment]
) -> RecoveredJournal:
    """Scans the last segment to its end, cuts off a torn tail, and publishes the rest."""
    path = segment.segment_path(directory, first)
    with path.open("rb") as file:
        header = segment.read_header(file, path)
        if header.journal_id != published.journal_id:
            raise segment.damage_error(path, 0, "it belongs to another journal")
        position = indexed_at = header.rows_at
        end, positions, torn = first, dict(header.positions), None
        segment.delete_index(path)
        try:
            for after, row in frame.scan(file, position, first):
                if position - indexed_at >= segment.INDEX_EVERY_BYTES:
                    segment.add_to_index(path, row.sequence, position)
                    indexed_at = position
                positions[row.cluster] = advance(positions.get(row.cluster), row)
                position, end = after, row.sequence + 1
        except BadFrameError as bad:
            torn = bad
    if end < published.sequence:
        raise segment.damage_error(path, position, torn.reason if torn is not None else f"row {end} is missing")
    torn_bytes = path.stat().st_size - position
    _truncate(path, position)
    position_file.write(
        directory / PUBLISHED, JournalPosition(journal_id=published.journal_id, sequence=end), sync=True
    )
    return RecoveredJournal(
        journal_id=published.journal_id,
        sealed=sealed,
        first=first,
        position=position,
        indexed_at=indexed_at,
        end=end,
        positions=positions,
        torn_bytes=torn_bytes,
    )


def _truncate(path: Path, position: int) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, position)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
