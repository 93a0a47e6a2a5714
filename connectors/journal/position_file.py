"""A position file: holds one JournalPosition. One process writes it in place; others read it at any time.

The file holds two slots. Each write goes to the slot with the older position, so the previous position survives
whatever interrupts the write (a concurrent reader, a crash). A slot whose CRC-32C does not match is ignored.
"""

import os
import shlex
import struct
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from connectors.errors import JournalError

_SLOT = struct.Struct(">4sI16sQQ")
_CHECKED_FROM = 8
_MAGIC = b"KWM1"
_SLOT_BYTES = 512  # The two slots do not share a disk sector.
_FILE_BYTES = 2 * _SLOT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalPosition:
    """A row's sequence in one journal: the position covers all rows below it."""

    journal_id: str
    sequence: int


def read(path: Path) -> JournalPosition | None:
    """Returns the newest position in the file; None if there is no file.

    Raises:
        JournalError: neither slot holds a valid position, or the file cannot be read.
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


def read_open(descriptor: int, path: Path) -> JournalPosition:
    """As `read`, for a file that is already open."""
    # Two attempts: the first may read a slot while the writer is writing it.
    for _ in range(2):
        found = _newest(os.pread(descriptor, _FILE_BYTES, 0))
        if found is not None:
            return found[1]
    raise JournalError(
        f"{path} is damaged: it holds no valid position; stop the job and run "
        f"`kraftwatch checkpoint repair --checkpoint {shlex.quote(str(path.parent.parent))}`"
    )


def is_of_new_journal(path: Path) -> bool:
    """Whether the file is missing, holds the position before the first row, or was interrupted in its first write.

    The first write goes to the first slot. So a file that holds no position and is no longer than that slot has never
    held one; after a power failure, it may be empty or full of zeros.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return True
    found = _newest(content)
    return len(content) <= _SLOT_BYTES if found is None else found[1].sequence == 0


def write(path: Path, position: JournalPosition, *, sync: bool = False) -> None:
    """Writes `position` as the newest one in the file; with `sync`, it is on disk before this returns.

    Raises:
        OSError: the file cannot be written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        found = _newest(os.pread(descriptor, _FILE_BYTES, 0))
        counter = 0 if found is None else found[0] + 1
        os.pwrite(descriptor, _pack(position, counter), (counter % 2) * _SLOT_BYTES)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pack(position: JournalPosition, counter: int) -> bytes:
    checked = _SLOT.pack(_MAGIC, 0, bytes.fromhex(position.journal_id), counter, position.sequence)[_CHECKED_FROM:]
    return _MAGIC + crc32c(checked).to_bytes(4, "big") + checked


def _newest(content: bytes) -> tuple[int, JournalPosition] | None:
    slots = (_unpack(content[at : at + _SLOT.size]) for at in (0, _SLOT_BYTES))
    return max((slot for slot in slots if slot is not None), key=lambda slot: slot[0], default=None)


def _unpack(slot: bytes) -> tuple[int, JournalPosition] | None:
    if len(slot) < _SLOT.size:
        return None
    magic, checksum, journal_id, counter, sequence = _SLOT.unpack(slot)
    if magic != _MAGIC or crc32c(slot[_CHECKED_FROM:]) != checksum:
        return None
    return counter, JournalPosition(journal_id=journal_id.hex(), sequence=sequence)
