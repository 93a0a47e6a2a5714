"""LedgerEnd: the number of the last line that was written to a ledger, in a small file beside it.

A checksum in each line and the chain between the lines do not show that lines are missing at the end of a file. The
number here does. It is written after the line is on disk, so it is never ahead of an intact ledger, and it is not
synced, so a power failure may leave an older number: then the ledger has more lines, which is no damage.

The file holds two slots, written in turn: a slot that a power failure has torn does not hide the other one.
"""

import os
from contextlib import suppress
from pathlib import Path

from crc32c import crc32c

from connectors.durable_file import sync_directory

_SLOT_BYTES = 512  # The two slots do not share a disk sector.
_CONTENT_BYTES = 29
"""A number of 20 digits and its CRC-32C of 8, separated by a space."""


class LedgerEnd:
    """Read and written by the process that owns the ledger."""

    def __init__(self, path: Path) -> None:
        """`path` is the file; `write` creates it."""
        self._path = path
        self._descriptor = -1
        self._slot = 0

    def read(self) -> int | None:
        """Returns the number; None without a file, or if the file is damaged.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        found = [_number(content[at : at + _CONTENT_BYTES]) for at in (0, _SLOT_BYTES)]
        known = [number for number in found if number is not None]
        if not known:
            return None
        self._slot = 1 - found.index(max(known))
        return max(known)

    def write(self, number: int) -> None:
        """Writes the number of the newest line.

        Raises:
            OSError: the file cannot be written.
        """
        created = self._descriptor < 0 and not self._path.exists()
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        digits = b"%020d" % number
        os.pwrite(self._descriptor, b"%s %08x" % (digits, crc32c(digits)), self._slot * _SLOT_BYTES)
        self._slot = 1 - self._slot
        if created:
            os.fsync(self._descriptor)
            sync_directory(self._path.parent)

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def _number(slot: bytes) -> int | None:
    digits, _, checksum = slot.partition(b" ")
    with suppress(ValueError):
        if len(slot) == _CONTENT_BYTES and checksum == b"%08x" % crc32c(digits):
            return int(digits)
    return None
