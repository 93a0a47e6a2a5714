"""The jsonl sink: a file with one line for each transition, exactly once, in order, across restarts.

Before each write the sink reads what was added to the file since the last read (everything at the start). A last line
that was torn by a crash is truncated. The key of every line is kept in memory, so that a line which was on disk
before a crash is not written again. Only the file decides what it contains. The file may be moved away (log rotation)
at any time. A file that the sink creates is readable by its owner alone; an existing file keeps its permissions.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import field_validator

from connectors.errors import UsageError
from connectors.sinks.alert_json import key_of, to_line
from connectors.sinks.sink import Delivered, DeliveryMode, DeliveryOptions, Outcome, Retry
from connectors.sinks.sink_config import TEST_RULE, MessageLinks, SinkSection
from connectors.store.durable_file import append, lock, sync_path
from connectors.store.store_place import StorePlace
from rules.alert import Alert, AlertKey
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification

_READ_BYTES = 1 << 20
_LINE_START = b'{"cluster":"'


class JsonlSection(SinkSection):
    """A file with one line per transition."""

    form = "jsonl:PATH"
    expected = f"{{section.path}} has two new lines with rule {TEST_RULE}: firing and resolved"
    mode = DeliveryMode.TRANSITIONS

    path: Path

    @field_validator("path")
    @classmethod
    def _home(cls, value: Path) -> Path:
        return value.expanduser()

    @classmethod
    def keys_of_text(cls, text: str) -> Mapping[str, Any]:
        """Returns the path."""
        return {"path": text}

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        return f"jsonl:{self.path.resolve()}"

    def open(self, links: MessageLinks, store: StorePlace) -> "JsonlSink":
        """Opens or creates the file."""
        return JsonlSink(self.path, options=self.options)

    def created_file(self) -> Path | None:
        """Returns the file, if it does not exist yet."""
        return None if self.path.exists() else self.path


class JsonlSink:
    """Appends lines to one file."""

    def __init__(self, path: Path, *, options: DeliveryOptions | None = None) -> None:
        """Opens or creates the file, so that an invalid path is reported at start-up.

        Raises UsageError if the file cannot be written, or ends in a line that the sink did not write.
        """
        self._path = path.resolve()
        self.options = options or DeliveryOptions(name=f"jsonl:{self._path}", mode=DeliveryMode.TRANSITIONS)
        self._written: set[bytes] = set()
        self._identity = (0, 0)
        self._size_bytes = 0
        try:
            os.close(self._open())
        except OSError as error:
            raise UsageError(
                f"jsonl:{path} cannot be written: {error.strerror}; name a file in an existing folder"
            ) from error

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        """Writes the transitions that the file does not contain yet, all of them or none."""
        try:
            self._write([alert for notification in notifications for alert in notification.new_transitions], sent_at_ms)
        except OSError as error:
            return [Retry(reason=f"{self._path} cannot be written: {error.strerror}")] * len(notifications)
        except UsageError as error:
            return [Retry(reason=str(error))] * len(notifications)
        return [Delivered()] * len(notifications)

    def _write(self, alerts: Sequence[Alert], sent_at_ms: Millis) -> None:
        descriptor = self._open()
        try:
            new: dict[bytes, Alert] = {}
            for alert in alerts:
                if (digest := _digest(alert.key)) not in self._written:
                    new.setdefault(digest, alert)
            lines = b"".join(to_line(alert, sent_at_ms) for alert in new.values())
            if lines:
                append(descriptor, lines, self._size_bytes)
                self._size_bytes += len(lines)
                self._written |= new.keys()
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        """Opens the file, locks it until it is closed, repairs its end and reads it to its last line."""
        existed = self._path.exists()
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self._lock(descriptor)
            if not existed:
                sync_path(self._path.parent)
            self._catch_up(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _lock(self, descriptor: int) -> None:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UsageError(f"{self._path} is not a regular file: a jsonl sink needs one.")
        # Only one writer at a time: the unfinished line of another one would be treated as torn.
        if not lock(descriptor):
            raise UsageError(f"{self._path} is in use by another process: give each job its own file.")

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
                self._add_key(line)
        if unread:
            self._repair(descriptor, unread)

    def _repair(self, descriptor: int, tail: bytes) -> None:
        """Completes the last line if only its line feed is missing; otherwise truncates it."""
        if self._add_key(tail):
            append(descriptor, b"\n", self._size_bytes + len(tail))
            self._size_bytes += len(tail) + 1
        elif tail.startswith(_LINE_START) or _LINE_START.startswith(tail):
            os.ftruncate(descriptor, self._size_bytes)
            os.fsync(descriptor)
        else:
            raise UsageError(f"{self._path} ends in a line that kraftwatch did not write: configure another file.")

    def _add_key(self, line: bytes) -> bool:
        key = key_of(line)
        if key is not None:
            self._written.add(_digest(key))
        return key is not None


def _digest(key: AlertKey) -> bytes:
    """Returns 16 bytes for a key: the keys of a year of alerts must fit into memory."""
    return blake2b(repr(tuple(str(part) for part in key)).encode("utf-8", "backslashreplace"), digest_size=16).digest()
