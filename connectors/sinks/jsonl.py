"""The jsonl sink: a file with one line a transition, each exactly once, in order, across restarts.

Before each telling it reads what the file got since it last looked (all of it at the start): a last line torn by a
crash is cut off, and every line's alert is remembered by key, so that one whose line was on the disk before a
crash could be noted elsewhere is not written again. It is the file that knows what it holds, nobody else. Taking
the file away (log rotation) is allowed at any moment.
"""

import fcntl
import os
import stat
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from connectors.durable_file import append, sync_directory
from connectors.errors import UsageError
from connectors.sinks.alert_json import Key, key_of, to_line
from connectors.sinks.sink import Delivered, Outcome, Retry, Style, Terms
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice

_READ_BYTES = 1 << 20
_OURS = b'{"cluster":"'


class JsonlSink:
    """Appends lines to one file."""

    def __init__(self, path: Path, *, terms: Terms | None = None) -> None:
        """Look at the file, or make it, so that a bad path is told at the start.

        Args:
            path: the file.
            terms: those of a record under the name of `jsonl:` and the absolute path, by default.

        Raises:
            UsageError: it cannot be written, or it holds something that is not ours to repair.
        """
        self._path = path.resolve()
        self.terms = terms or Terms(name=f"jsonl:{self._path}", style=Style.EACH)
        self._held: set[bytes] = set()
        self._identity = (0, 0)
        self._size_bytes = 0
        try:
            os.close(self._opened())
        except OSError as error:
            raise UsageError(
                f"The sink jsonl:{path} cannot be written: {error.strerror}; name a file in a folder that exists."
            ) from error

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Write the transitions that the file does not hold yet, all of them or none."""
        try:
            self._write([alert for notice in notices for alert in notice.news], sent_at_ms)
        except OSError as error:
            return [Retry(reason=f"{self._path} cannot be written: {error.strerror}")] * len(notices)
        except UsageError as error:
            return [Retry(reason=str(error))] * len(notices)
        return [Delivered()] * len(notices)

    def _write(self, alerts: Sequence[Alert], sent_at_ms: Millis) -> None:
        descriptor = self._opened()
        try:
            new: dict[bytes, Alert] = {}
            for alert in alerts:
                if (digest := _digest(alert.key)) not in self._held:
                    new.setdefault(digest, alert)
            lines = b"".join(to_line(alert, sent_at_ms) for alert in new.values())
            if lines:
                append(descriptor, lines, self._size_bytes)
                self._size_bytes += len(lines)
                self._held |= new.keys()
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        """The file, open and locked until it is closed, whole, and known to its last line."""
        existed = self._path.exists()
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            self._lock(descriptor)
            if not existed:
                sync_directory(self._path.parent)
            self._catch_up(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _lock(self, descriptor: int) -> None:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UsageError(f"{self._path} is no regular file, and a jsonl sink keeps its lines in one.")
        # Another writer's unfinished line would be mended as torn: one at a time.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{self._path} is being written by another process: give each job a file.") from error

    def _catch_up(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._size_bytes:
            self._identity, self._size_bytes = identity, 0
        unread = b""
        at = self._size_bytes
        while content := os.pread(descriptor, _READ_BYTES, at):
            at += len(content)
            *lines, unread = (unread + content).split(b"\n")
            for line in lines:
                self._size_bytes += len(line) + 1
                self._remember(line)
        if unread:
            self._mend(descriptor, unread)

    def _mend(self, descriptor: int, tail: bytes) -> None:
        """The last line has no end: complete it if only the line feed is missing, else cut it off."""
        if self._remember(tail):
            append(descriptor, b"\n", self._size_bytes + len(tail))
            self._size_bytes += len(tail) + 1
        elif tail.startswith(_OURS) or _OURS.startswith(tail):
            os.ftruncate(descriptor, self._size_bytes)
            os.fsync(descriptor)
        else:
            raise UsageError(f"{self._path} ends in a line that kraftwatch did not write: name another file.")

    def _remember(self, line: bytes) -> bool:
        key = key_of(line)
        if key is not None:
            self._held.add(_digest(key))
        return key is not None


def _digest(key: Key) -> bytes:
    """A key in 16 bytes: a year of alerts must fit into memory."""
    return blake2b(repr(tuple(str(part) for part in key)).encode("utf-8", "backslashreplace"), digest_size=16).digest()
