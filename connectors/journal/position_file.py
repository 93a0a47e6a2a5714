"""A mark: a position in the journal that one process writes in place and others read at any moment.

The file holds two slots and each write goes to the one with the older mark, so whatever happens to a write
(a reader in the middle of it, a crash) the mark before it is still there. A slot that its CRC-32C does not
confirm does not count.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from connectors.errors import JournalError

_SLOT = struct.Struct(">4sI16sQQ")
_CHECKED_FROM = 8
_MAGIC = b"KWM1"
_SLOT_BYTES = 512  # A slot does not share a disk sector with the other.
_FILE_BYTES = 2 * _SLOT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Everything below `sequence` counts."""

    journal_id: str
    sequence: int


def read(path: Path) -> Mark | None:
    """The newest mark in the file, None where there is no file.

    Raises:
        JournalError: neither slot holds a mark, or the file cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        return read_open(descriptor, path)
    finally:
        os.close(descriptor)


def read_open(descriptor: int, path: Path) -> Mark:
    """As `read`, of a file that is open already."""
    # Twice, because a reader may meet a writer in the middle of a slot.
    for _ in range(2):
        found = _newest(os.pread(descriptor, _FILE_BYTES, 0))
        if found is not None:
            return found[1]
    raise JournalError(f"{path} is damaged: it holds no valid mark; move the journal's folder away to start anew.")


def write(path: Path, mark: Mark, *, sync: bool = False) -> None:
    """Make `mark` the newest one in the file; with `sync`, on the disk before returning.

    Raises:
        OSError: the file cannot be written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        found = _newest(os.pread(descriptor, _FILE_BYTES, 0))
        counter = 0 if found is None else found[0] + 1
        os.pwrite(descriptor, _pack(mark, counter), (counter % 2) * _SLOT_BYTES)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pack(mark: Mark, counter: int) -> bytes:
    checked = _SLOT.pack(_MAGIC, 0, bytes.fromhex(mark.journal_id), counter, mark.sequence)[_CHECKED_FROM:]
    return _MAGIC + crc32c(checked).to_bytes(4, "big") + checked


def _newest(content: bytes) -> tuple[int, Mark] | None:
    slots = (_unpack(content[at : at + _SLOT.size]) for at in (0, _SLOT_BYTES))
    return max((slot for slot in slots if slot is not None), key=lambda slot: slot[0], default=None)


def _unpack(slot: bytes) -> tuple[int, Mark] | None:
    if len(slot) < _SLOT.size:
        return None
    magic, checksum, journal_id, counter, sequence = _SLOT.unpack(slot)
    if magic != _MAGIC or crc32c(slot[_CHECKED_FROM:]) != checksum:
        return None
    return counter, Mark(journal_id=journal_id.hex(), sequence=sequence)
