"""Recovery: what the journal holds after whatever ended its last writer. Run by the lock's holder only.

A frame that is not whole lies either above what was published (a torn tail: nobody ever saw it, it is cut off) or
below (damage: refused, for a reader may have planned on those rows). Whole rows above what was published stay:
they are in order, and the follower goes on after them.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from connectors.errors import JournalError
from connectors.journal import frame, position_file, segment
from connectors.journal.follow_position import Progress, advance
from connectors.journal.frame import BadFrameError
from connectors.journal.position_file import Mark
from connectors.journal.reader import PUBLISHED, committed, new_journal_id
from connectors.journal.retention import Sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A journal that is whole and published to its end."""

    journal_id: str
    sealed: Sequence[Sealed]
    first: int
    """First sequence of the segment that is written on."""
    position: int
    """Its length in bytes."""
    indexed_at: int
    """Byte offset of the newest entry in its index."""
    end: int
    """The sequence of the next row."""
    progress: Mapping[str, Progress]
    torn_bytes: int
    """How much was cut off."""


def recover(directory: Path) -> Recovered:
    """Bring the journal in `directory` (made if there is none) into a state that can be written on.

    Raises:
        JournalError: it is damaged below what was published, naming file and byte.
        OSError: it cannot be read or written.
    """
    for unfinished in directory.glob("*.new"):
        unfinished.unlink()
    firsts = segment.listing(directory)
    if not firsts:
        _clear_unborn(directory / PUBLISHED)
    published = position_file.read(directory / PUBLISHED)
    if published is None:
        if firsts:
            raise JournalError(
                f"{directory / PUBLISHED} is missing, so nobody knows which rows were published: "
                f"restore it, or move the whole journal folder away and start with a new checkpoint."
            )
        published = Mark(journal_id=new_journal_id(), sequence=0)
        position_file.write(directory / PUBLISHED, published, sync=True)
        segment.sync_directory(directory)
    if not firsts:
        if published.sequence > 0:
            raise JournalError(
                f"{directory} has lost its segments (rows up to {published.sequence} were published): "
                f"restore them, or move the whole journal folder away and start with a new checkpoint."
            )
        segment.create(directory, published.journal_id, 0, {})
        firsts = [0]
    sealed = _sealed(directory, firsts, published.journal_id)
    return _active(directory, firsts[-1], published, sealed)


def _clear_unborn(published: Path) -> None:
    """An empty file and no segment: somebody was killed before the first byte of a new journal."""
    with suppress(FileNotFoundError):
        if published.stat().st_size == 0:
            published.unlink()


def _sealed(directory: Path, firsts: list[int], journal_id: str) -> list[Sealed]:
    """All segments but the last. Those that may still be read by the job are checked row by row."""
    done = committed(directory, journal_id)
    sealed: list[Sealed] = []
    for first, end in pairwise(firsts):
        path = segment.path_of(directory, first)
        if end > done:
            _check(directory, first, end, journal_id)
        with segment.path_of(directory, end).open("rb") as following:
            before = segment.read_header(following, segment.path_of(directory, end)).progress
        newest_at_ms = max((of.observed_at_ms for of in before.values()), default=0)
        sealed.append(Sealed(first=first, end=end, size_bytes=path.stat().st_size, newest_at_ms=newest_at_ms))
    return sealed


def _check(directory: Path, first: int, end: int, journal_id: str) -> None:
    sequence = first
    for _, row in segment.rows(directory, first, first, journal_id):
        sequence = row.sequence + 1
    if sequence != end:
        path = segment.path_of(directory, first)
        raise segment.damaged(path, path.stat().st_size, f"it ends before row {sequence}, not before row {end}")


def _active(directory: Path, first: int, published: Mark, sealed: Sequence[Sealed]) -> Recovered:
    """Scan the last segment to its end, cut off a torn tail, publish the rest."""
    path = segment.path_of(directory, first)
    with path.open("rb") as file:
        header = segment.read_header(file, path)
        if header.journal_id != published.journal_id:
            raise segment.damaged(path, 0, "it belongs to another journal")
        position = indexed_at = header.rows_at
        end, progress, torn = first, dict(header.progress), None
        segment.cut_index(path)
        try:
            for after, row in frame.scan(file, position, first):
                if position - indexed_at >= segment.INDEX_EVERY_BYTES:
                    segment.add_to_index(path, row.sequence, position)
                    indexed_at = position
                progress[row.cluster] = advance(progress.get(row.cluster), row)
                position, end = after, row.sequence + 1
        except BadFrameError as bad:
            torn = bad
    if end < published.sequence:
        raise segment.damaged(path, position, torn.reason if torn is not None else f"row {end} is missing")
    torn_bytes = path.stat().st_size - position
    _settle(path, position)
    position_file.write(directory / PUBLISHED, Mark(journal_id=published.journal_id, sequence=end), sync=True)
    return Recovered(
        journal_id=published.journal_id,
        sealed=sealed,
        first=first,
        position=position,
        indexed_at=indexed_at,
        end=end,
        progress=progress,
        torn_bytes=torn_bytes,
    )


def _settle(path: Path, position: int) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, position)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
