"""A segment: one file of the journal, named by the sequence of its first row, headed by what came before it.

The header is one line of length and CRC-32C and one JSON object: the journal's id, the first sequence, and the
progress of every cluster before that row. A segment appears under its name only when its header is on disk.
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

from connectors.errors import JournalError
from connectors.journal import follow_position, frame
from connectors.journal.follow_position import Progress
from connectors.journal.frame import BadFrameError
from connectors.observation import Observation

SUFFIX = ".seg"
INDEX_SUFFIX = ".idx"
INDEX_EVERY_BYTES = 64 * 1024
"""A reader that starts in the middle reads at most about this much for nothing."""

_MAGIC = b"KWS1"
_PREFIX = struct.Struct(">4sII")
_ENTRY = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands before the first row."""

    journal_id: str
    first: int
    """Sequence of the first row."""
    progress: Mapping[str, Progress]
    """By cluster name, before the first row."""
    rows_at: int
    """Byte offset of the first row."""


def path_of(directory: Path, first: int) -> Path:
    """Where the segment that begins with row `first` lies."""
    return directory / f"{first:020d}{SUFFIX}"


def listing(directory: Path) -> list[int]:
    """First sequences of all segments, ascending."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    return sorted(int(stem) for name in names if (stem := name.removesuffix(SUFFIX)) != name and stem.isdecimal())


def create(directory: Path, journal_id: str, first: int, before: Mapping[str, Progress]) -> Header:
    """Make an empty segment; it is on disk, under its name, when this returns.

    Raises:
        OSError: it cannot be written.
    """
    stated = {
        "journal_id": journal_id,
        "first": first,
        "progress": {cluster: follow_position.to_json(of) for cluster, of in before.items()},
    }
    body = json.dumps(stated, separators=(",", ":")).encode()
    path = path_of(directory, first)
    unfinished = path.with_suffix(".new")
    # Created anew: a leftover of a crash may have other permissions or a longer content.
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        left = memoryview(_PREFIX.pack(_MAGIC, len(body), crc32c(body)) + body)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unfinished.rename(path)
    sync_directory(directory)
    return Header(journal_id=journal_id, first=first, progress=dict(before), rows_at=_PREFIX.size + len(body))


def read_header(file: BinaryIO, path: Path) -> Header:
    """The header of an open segment.

    Raises:
        JournalError: there is none, or it is damaged.
    """
    file.seek(0)
    prefix = file.read(_PREFIX.size)
    if len(prefix) == _PREFIX.size:
        magic, length, checksum = _PREFIX.unpack(prefix)
        body = file.read(length) if magic == _MAGIC else b""
        if body and len(body) == length and crc32c(body) == checksum:
            stated = json.loads(body)
            return Header(
                journal_id=stated["journal_id"],
                first=stated["first"],
                progress={name: follow_position.from_json(of) for name, of in stated["progress"].items()},
                rows_at=_PREFIX.size + length,
            )
    raise damaged(path, 0, "the header is damaged")


def rows(directory: Path, first: int, start: int, journal_id: str) -> Iterator[tuple[int, Observation]]:
    """Rows of the segment `first` from `start` on, each with the byte offset after it, to the end of the file.

    Raises:
        JournalError: the file is gone, is of another journal, or a row is damaged.
    """
    path = path_of(directory, first)
    try:
        with path.open("rb") as file:
            header = read_header(file, path)
            if header.journal_id != journal_id or header.first != first:
                raise damaged(path, 0, "it belongs to another journal or place")
            position, sequence = _near(file, _entries(path), header, start)
            for after, row in frame.scan(file, position, sequence):
                if row.sequence >= start:
                    yield after, row
    except BadFrameError as bad:
        raise damaged(path, bad.position, bad.reason) from bad
    except FileNotFoundError as gone:
        raise JournalError(f"{path} is gone: its rows were deleted after they were committed, or by hand.") from gone


def damaged(path: Path, position: int, reason: str) -> JournalError:
    """The refusal that names file and offset."""
    return JournalError(
        f"{path} is damaged at byte {position} ({reason}), in rows that were already published: "
        f"restore the file, or move the whole journal folder away and start with a new checkpoint."
    )


def add_to_index(path: Path, sequence: int, position: int) -> None:
    """Note where a row stands. Not synced, and never an error: an entry that is not there only costs time."""
    with suppress(OSError):
        descriptor = os.open(path.with_suffix(INDEX_SUFFIX), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, _ENTRY.pack(sequence, position))
        finally:
            os.close(descriptor)


def cut_index(path: Path) -> None:
    """Forget the index of a segment; it is found again by scanning."""
    path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)


def delete(directory: Path, first: int) -> None:
    """Remove a segment and its index."""
    path = path_of(directory, first)
    path.unlink(missing_ok=True)
    cut_index(path)


def sync_directory(directory: Path) -> None:
    """Make names created or removed in the folder survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entries(path: Path) -> list[tuple[int, int]]:
    try:
        content = path.with_suffix(INDEX_SUFFIX).read_bytes()
    except FileNotFoundError:
        return []
    return list(_ENTRY.iter_unpack(content[: len(content) // _ENTRY.size * _ENTRY.size]))


def _near(file: BinaryIO, entries: list[tuple[int, int]], header: Header, start: int) -> tuple[int, int]:
    """A byte offset at or before row `start`, and the sequence of the row there."""
    at = bisect_right(entries, (start, 2**64)) - 1
    if at >= 0:
        sequence, position = entries[at]
        file.seek(position)
        try:
            found = frame.read(file, position)
        except BadFrameError:
            found = None
        # The index is never trusted: the row itself says whether it is the one.
        if found is not None and found[0].sequence == sequence and header.first <= sequence <= start:
            return position, sequence
    return header.rows_at, header.first
