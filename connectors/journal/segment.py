"""A segment: one file of the journal, named by the sequence of its first row.

It begins with a header: magic, length, CRC-32C and a JSON object with the journal's id, the first sequence, and the
follow position of every cluster before that row. A segment gets its name only when its header is on disk.
"""

import json
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from crc32c import crc32c

from connectors.durable_file import replace_file
from connectors.errors import JournalError
from connectors.journal import follow_progress, frame
from connectors.journal.follow_progress import FollowProgress
from connectors.journal.frame import BadFrameError
from connectors.observation import Observation

SUFFIX = ".seg"
INDEX_SUFFIX = ".idx"
INDEX_EVERY_BYTES = 64 * 1024
"""The distance between index entries: a reader that starts in the middle reads at most about this much in excess."""

_MAGIC = b"KWS1"
_PREFIX = struct.Struct(">4sII")
_ENTRY = struct.Struct(">QQ")
_POSITIONS_KEY = "progress"
"""The stored key of the follow positions: part of the file format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHeader:
    """What a segment holds before its first row."""

    journal_id: str
    first: int
    """Sequence of the first row."""
    positions: Mapping[str, FollowProgress]
    """By cluster name, before the first row."""
    rows_at: int
    """Byte offset of the first row."""


def segment_path(directory: Path, first: int) -> Path:
    """Returns the path of the segment that begins with row `first`."""
    return directory / f"{first:020d}{SUFFIX}"


def first_sequences(directory: Path) -> list[int]:
    """Returns the first sequences of all segments, ascending."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    return sorted(int(stem) for name in names if (stem := name.removesuffix(SUFFIX)) != name and stem.isdecimal())


def create(directory: Path, journal_id: str, first: int, positions: Mapping[str, FollowProgress]) -> SegmentHeader:
    """Creates an empty segment. It is on disk, under its name, when this returns.

    Args:
        directory: the journal's folder.
        journal_id: of the journal.
        first: sequence of the segment's first row.
        positions: follow positions by cluster, before that row.

    Raises:
        OSError: the segment cannot be written.
    """
    content = {
        "journal_id": journal_id,
        "first": first,
        _POSITIONS_KEY: {cluster: follow_progress.to_json(position) for cluster, position in positions.items()},
    }
    body = json.dumps(content, separators=(",", ":")).encode()
    path = segment_path(directory, first)
    replace_file(path, _PREFIX.pack(_MAGIC, len(body), crc32c(body)) + body)
    return SegmentHeader(
        journal_id=journal_id, first=first, positions=dict(positions), rows_at=_PREFIX.size + len(body)
    )


def read_header(file: BinaryIO, path: Path) -> SegmentHeader:
    """Reads the header of an open segment.

    Raises:
        JournalError: the header is missing or damaged.
    """
    file.seek(0)
    prefix = file.read(_PREFIX.size)
    if len(prefix) == _PREFIX.size:
        magic, length, checksum = _PREFIX.unpack(prefix)
        body = file.read(length) if magic == _MAGIC else b""
        if body and len(body) == length and crc32c(body) == checksum:
            content = json.loads(body)
            return SegmentHeader(
                journal_id=content["journal_id"],
                first=content["first"],
                positions={name: follow_progress.from_json(of) for name, of in content[_POSITIONS_KEY].items()},
                rows_at=_PREFIX.size + length,
            )
    raise damage_error(path, 0, "the header is damaged")


def read_rows(directory: Path, first: int, start: int, journal_id: str) -> Iterator[tuple[int, Observation]]:
    """Yields the rows of the segment `first` from row `start` to the end of the file.

    Each row comes with the byte offset after it.

    Raises:
        JournalError: the file does not exist, belongs to another journal, or a row is damaged.
    """
    path = segment_path(directory, first)
    try:
        with path.open("rb") as file:
            header = read_header(file, path)
            if header.journal_id != journal_id or header.first != first:
                raise damage_error(path, 0, "it belongs to another journal or sequence")
            position, sequence = _start_near(file, _entries(path), header, start)
            for after, row in frame.scan(file, position, sequence):
                if row.sequence >= start:
                    yield after, row
    except BadFrameError as bad:
        raise damage_error(path, bad.position, bad.reason) from bad
    except FileNotFoundError as missing:
        raise JournalError(
            f"{path} does not exist: its rows were deleted after they were committed, or by hand."
        ) from missing


def damage_error(path: Path, position: int, reason: str) -> JournalError:
    """Returns the error that names the damaged file and the byte offset."""
    return JournalError(
        f"{path} is damaged at byte {position} ({reason}), in rows that were already published: "
        f"restore the file, or move the whole journal folder away and start with a new checkpoint."
    )


def add_to_index(path: Path, sequence: int, position: int) -> None:
    """Adds an index entry for a row. Not synced, and errors are ignored: a missing entry only costs time."""
    with suppress(OSError):
        descriptor = os.open(path.with_suffix(INDEX_SUFFIX), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, _ENTRY.pack(sequence, position))
        finally:
            os.close(descriptor)


def delete_index(path: Path) -> None:
    """Deletes the index of a segment. Rows are then found by scanning."""
    path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)


def delete(directory: Path, first: int) -> None:
    """Deletes a segment and its index."""
    path = segment_path(directory, first)
    path.unlink(missing_ok=True)
    delete_index(path)


def _entries(path: Path) -> list[tuple[int, int]]:
    try:
        content = path.with_suffix(INDEX_SUFFIX).read_bytes()
    except FileNotFoundError:
        return []
    return list(_ENTRY.iter_unpack(content[: len(content) // _ENTRY.size * _ENTRY.size]))


def _start_near(file: BinaryIO, entries: list[tuple[int, int]], header: SegmentHeader, start: int) -> tuple[int, int]:
    """Returns a byte offset at or before row `start`, and the sequence of the row there."""
    at = bisect_right(entries, (start, 2**64)) - 1
    if at >= 0:
        sequence, position = entries[at]
        file.seek(position)
        try:
            found = frame.read(file, position)
        except BadFrameError:
            found = None
        # The index may be wrong, so the row itself is checked.
        if found is not None and found[0].sequence == sequence and header.first <= sequence <= start:
            return position, sequence
    return header.rows_at, header.first
