"""Divides files of the metadata log into byte ranges that can be decoded independently of each other.

Only the headers of the batches are read. A range ends at a batch boundary at which the offsets continue, so that a
decoder of single ranges reports each damaged batch and each gap exactly once, as a decoder of the whole file does.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from connectors.errors import UsageError, os_errors
from connectors.logdir.log_dir_files import find_partition, is_log_file
from connectors.metadata.batches import FRAME, HEADER, MAGIC
from connectors.metadata.dump_log import DumpedRecord, dump_records, is_record_log

SUFFIXES = (".log", ".checkpoint")
_CHECKED_BYTES = 1024 * 1024
"""How much of a file is read to see whether it is one of the metadata log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogByteRange:
    """Consecutive batches of one file."""

    path: Path
    start: int
    end: int
    """Position after the last byte."""
    offsets: tuple[int, int | None] = (0, None)
    """The lowest and the highest offset of its records, by the headers of its batches; None: unknown, because a part
    cannot be read."""
    times_ms: tuple[int, int | None] = (0, None)
    """The same of their times. Kafka gives all records of a batch one time (BatchBuilder)."""

    @property
    def is_snapshot(self) -> bool:
        """Whether the file is a `.checkpoint`."""
        return self.path.suffix == ".checkpoint"


def find_log_files(path: Path) -> list[Path]:
    """Returns the files that a path names: the file itself, or all segments and snapshots of a log directory.

    Raises:
        UsageError: there is no such file or directory, it cannot be read, or it is not one of the metadata log.
    """
    with os_errors(f"cannot read {path}"):
        if path.is_dir():
            return sorted(each for each in find_partition(path).iterdir() if is_log_file(each.name))
        if not path.exists():
            raise UsageError(f"{path} does not exist: name a metadata log directory, or a .log or .checkpoint file")
        require_regular_file(path)
        with path.open("rb") as file:
            require_metadata_log(path, file.read(_CHECKED_BYTES))
    return [path]


def require_regular_file(path: Path) -> None:
    """Checks an existing path before it is read.

    Raises:
        UsageError: it is a pipe or a device, which may never end.
        OSError: it cannot be examined.
    """
    if not path.is_file():
        raise UsageError(f"{path} is not a regular file: name a .log or .checkpoint file of __cluster_metadata-0")


def require_metadata_log(path: Path, begin: bytes) -> None:
    """Checks what a file begins with; a segment or snapshot may be empty, or zeros that Kafka allocated in advance.

    Raises:
        UsageError: it is not a file of the metadata log.
    """
    if not is_record_log(begin) and not (path.suffix in SUFFIXES and not begin.strip(b"\0")):
        raise UsageError(f"{path} is not a Kafka log: name a .log or .checkpoint file of __cluster_metadata-0")
    first = next((entry for entry in dump_records(begin) if isinstance(entry, DumpedRecord)), None)
    if first is not None and first.damaged and first.type is None:
        raise UsageError(f"{path} is the log of another topic: name a .log or .checkpoint file of __cluster_metadata-0")


def byte_ranges(path: Path, *, max_bytes: int) -> list[LogByteRange]:
    """Returns the ranges of one file, in order; together they are the whole file.

    Args:
        max_bytes: the largest size of a range, unless one batch alone is larger or a part of the file is damaged.

    Raises:
        UsageError: the file cannot be read.
    """
    with os_errors(f"cannot read {path}"), path.open("rb") as file:
        return list(_ranges(path, file, os.fstat(file.fileno()).st_size, max_bytes))


def _ranges(path: Path, file: BinaryIO, size: int, max_bytes: int) -> Iterator[LogByteRange]:
    start = position = 0
    next_offset: int | None = None
    offsets: tuple[int, ...] = ()
    times_ms: tuple[int, ...] = ()
    while size - position >= HEADER.size:
        file.seek(position)
        content = file.read(HEADER.size)
        if len(content) < HEADER.size:
            break
        base_offset, length, _, magic, _, _, last_delta, *batch_ms = HEADER.unpack(content)[:9]
        end = position + FRAME + length
        if magic != MAGIC or length < HEADER.size - FRAME or end > size or last_delta < 0:
            break
        if base_offset == next_offset and end - start > max_bytes:
            yield LogByteRange(path=path, start=start, end=position, offsets=_ends(offsets), times_ms=_ends(times_ms))
            start, offsets, times_ms = position, (), ()
        position, next_offset = end, base_offset + last_delta + 1
        offsets = _ends((*offsets, base_offset, base_offset + last_delta))
        times_ms = _ends((*times_ms, *batch_ms))
    if start < position == size:
        yield LogByteRange(path=path, start=start, end=size, offsets=_ends(offsets), times_ms=_ends(times_ms))
    elif start < size:
        # What cannot be read belongs to the last range.
        yield LogByteRange(path=path, start=start, end=size)


def _ends(numbers: tuple[int, ...]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def read_range(part: LogByteRange) -> bytes:
    """Returns the bytes of a range.

    Raises:
        UsageError: the file cannot be read any more; Kafka deletes old segments and snapshots.
    """
    with os_errors(f"cannot read {part.path}"):
        try:
            with part.path.open("rb") as file:
                file.seek(part.start)
                return file.read(part.end - part.start)
        except FileNotFoundError:
            raise UsageError(f"{part.path} was deleted after the query was planned: run the query again") from None
