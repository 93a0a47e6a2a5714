"""LedgerFile: the lines of a ledger on disk. Appends and replaces them, and notices what is damaged or missing.

Each line holds a number and the checksum of the line before it (`ledger_record.Link`); a file beside it holds the
number of the last line (`ledger_end`). So a changed, missing, added or exchanged line is noticed, and so is a file
that was cut off, emptied or deleted. Only what a killed process or a power failure leaves is no damage: an unfinished
end that was never confirmed.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from crc32c import crc32c

from connectors.delivery.ledger_end import LedgerEnd
from connectors.delivery.ledger_record import LedgerLine, LedgerRecord, Link, checksum_of, parse_line, to_line
from connectors.durable_file import append, open_replaced

END_SUFFIX = ".end"
DAMAGED_SUFFIX = ".damaged-"
KEPT = 10
"""Damaged files that are kept: a program that changes the file again and again must not fill the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerContent:
    """What a ledger's file holds."""

    records: Sequence[LedgerRecord]
    """Of all lines that can be read, also of those after damage."""
    last_number: int
    """The highest number of a line that is known to have existed."""
    damage: str | None
    """What is damaged, as part of a sentence; None for an intact file."""
    unfinished: int = 0
    """Unfinished lines at the end, which a crash left and which were never confirmed."""


def parse_content(content: bytes, end: int | None) -> LedgerContent:
    """Parses the content of a ledger's file.

    Args:
        content: the file.
        end: the number of the last line that was written; None if it is not known.
    """
    found = [parse_line(line) for line in content.splitlines()]
    whole = len(found)
    while whole and found[whole - 1] is None:
        whole -= 1
    lines = [line for line in found if line is not None]
    last = max((line.link.number for line in lines if line.link is not None), default=0)
    return LedgerContent(
        records=[line.record for line in lines if line.record is not None],
        last_number=max(last, end or 0),
        damage=_damage(found[:whole], end),
        unfinished=len(found) - whole,
    )


def _damage(lines: Sequence[LedgerLine | None], end: int | None) -> str | None:
    """Returns what is wrong with the lines, the first one and the last one of which are intact."""
    for at, line in enumerate(lines, start=1):
        if line is None:
            return f"line {at} does not match its checksum"
    known = [line for line in lines if line is not None]
    if known and known[0].link is not None and known[0].link.previous:
        return "its first lines are missing"
    for at, (before, line) in enumerate(pairwise(known), start=1):
        expected = None if before.link is None else Link(number=before.link.number + 1, previous=before.checksum)
        if line.link != expected:
            return f"lines are missing after line {at}"
    if not known:
        return "no line of it is intact" if end else None
    last = known[-1].link
    # An earlier version writes no links and does not update the number of the last line.
    if last is not None and end is not None and last.number < end:
        return f"its last {end - last.number} lines are damaged or missing"
    return None


class LedgerFile:
    """Owned by one process: the job that delivers."""

    def __init__(self, path: Path) -> None:
        """`path` is the file; `replace` creates it."""
        self.path = path
        self.lines = 0
        """Lines in the file."""
        self._end = LedgerEnd(path.with_name(path.name + END_SUFFIX))
        self._descriptor = -1
        self._size_bytes = 0
        self._content_checksum = 0
        """CRC-32C of the whole file, continued at each append."""
        self._number = 0
        self._checksum = ""
        self._torn = False

    def read(self, *, must_exist: bool) -> LedgerContent:
        """Reads the file before it is first replaced.

        Args:
            must_exist: the checkpoint has state, so that a ledger must have existed: without a file it is damaged.

        Raises:
            OSError: the file cannot be read.
        """
        end = self._end.read()
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            lost = "it does not exist" if end or must_exist else None
            found = LedgerContent(records=(), last_number=end or 0, damage=lost)
        else:
            found = parse_content(content, 1 if end is None and must_exist and not content else end)
        self._number = found.last_number
        return found

    def append(self, records: Sequence[LedgerRecord]) -> None:
        """Appends records and syncs them.

        Raises:
            OSError: the records could not be written completely; none of them counts.
        """
        lines, number, checksum = _chained(records, self._number, self._checksum)
        content = b"".join(lines)
        self._torn = True
        append(self._descriptor, content, self._size_bytes)
        self._size_bytes += len(content)
        self._content_checksum = crc32c(content, self._content_checksum)
        self._number, self._checksum = number, checksum
        self.lines += len(lines)
        self._end.write(number)
        self._torn = False

    def replace(self, records: Sequence[LedgerRecord]) -> None:
        """Replaces the whole content; the numbers of the lines continue.

        Raises:
            OSError: the content could not be written; the file is unchanged.
        """
        lines, number, checksum = _chained(records, self._number, "")
        content = b"".join(lines)
        descriptor = open_replaced(self.path, content)
        self._close_lines()
        self._descriptor, self._size_bytes, self._torn = descriptor, len(content), False
        self._content_checksum = crc32c(content)
        self._number, self._checksum, self.lines = number, checksum, len(lines)
        self._end.write(number)

    @property
    def torn(self) -> bool:
        """Whether an append failed: the end of the file is unknown until it is replaced."""
        return self._torn

    def outside_change(self, *, whole: bool = False) -> str | None:
        """Returns what has happened to the file since the last write; None if nothing.

        Args:
            whole: also reads the file's content, at most some megabytes.

        Raises:
            OSError: the file or its folder cannot be read.
        """
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return "it was deleted or renamed while the job was running"
        ours = os.fstat(self._descriptor)
        if (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino):
            return "it was replaced while the job was running"
        if found.st_size != self._size_bytes:
            return f"it has {found.st_size} bytes instead of {self._size_bytes}"
        if whole and crc32c(self.path.read_bytes()) != self._content_checksum:
            return "its content has changed while the job was running"
        return None

    def keep_damaged(self) -> str | None:
        """Keeps the damaged file under another name, which it returns; `replace` follows.

        Returns:
            None without a file, or if `KEPT` damaged files are kept already.

        Raises:
            OSError: the file cannot be kept.
        """
        names = (self.path.with_name(f"{self.path.name}{DAMAGED_SUFFIX}{number}") for number in range(1, KEPT + 1))
        kept = next((name for name in names if not name.exists()), None)
        if kept is None or not self.path.exists():
            return None
        # Not renamed: until the ledger is replaced, a restart must find it under its own name.
        try:
            os.link(self.path, kept)
        except OSError:
            shutil.copyfile(self.path, kept)
        return kept.name

    def close(self) -> None:
        """Closes the files."""
        self._close_lines()
        self._end.close()

    def _close_lines(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def _chained(records: Sequence[LedgerRecord], number: int, checksum: str) -> tuple[list[bytes], int, str]:
    """Returns the records as lines that continue a chain, and the number and checksum of the last line."""
    lines: list[bytes] = []
    for record in records:
        number += 1
        lines.append(to_line(record, Link(number=number, previous=checksum)))
        checksum = checksum_of(lines[-1])
    return lines, number, checksum


def ledger_damage(path: Path, *, must_exist: bool) -> str | None:
    """Returns what is damaged in a ledger that no process has open, as part of a sentence; None if it is intact.

    Raises:
        OSError: the file cannot be read.
    """
    return LedgerFile(path).read(must_exist=must_exist).damage
