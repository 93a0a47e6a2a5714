"""The silences of one job: a small file beside its ledger, changed by `kraftwatch silence`, read by the job.

The file is replaced whole, so a reader always sees one that is complete; a lock beside it keeps two writers apart.
"""

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from connectors.durable_file import replace_file
from connectors.errors import UsageError
from connectors.sinks.alert_json import iso
from rules.finding import Plain
from rules.model.identifiers import Millis
from rules.notifications.silence import Silence

_LOG = logging.getLogger(__name__)
_VERSION = 1
_KEPT_MS = 30 * 86_400_000
"""A silence that ended is still listed for so long."""


class SilenceFile:
    """The silences in a file; none while there is no file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int, int] | None = None
        self._known: tuple[Silence, ...] = ()

    def read(self) -> tuple[Silence, ...]:
        """All that the file holds, in the order they were made.

        Raises:
            UsageError: it cannot be read, or is not ours.
        """
        try:
            document = json.loads(self._path.read_bytes())
            if document["version"] > _VERSION:
                raise UsageError(f"{self._path} was written by a newer kraftwatch: use that one for silences.")
            return tuple(_silence(each) for each in document["silences"])
        except FileNotFoundError:
            return ()
        except OSError as problem:
            raise UsageError(f"{self._path} cannot be read: {(problem.strerror or 'unreadable').lower()}.") from None
        except (ValueError, TypeError, KeyError):
            raise UsageError(f"{self._path} is damaged: remove it, and silence again what is to be silent.") from None

    def newest(self) -> tuple[Silence, ...]:
        """The same for a job that asks each second: read again when the file changed, and never a reason to stop."""
        try:
            status = self._path.stat()
            identity = (status.st_ino, status.st_mtime_ns, status.st_size)
        except OSError:
            self._identity, self._known = None, ()
            return ()
        if identity != self._identity:
            try:
                self._known = self.read()
            except UsageError as problem:
                # What was silent stays silent: a damaged file must not wake everybody.
                _LOG.warning("%s The silences that were known before go on.", problem)
            # Only now: another thread that asks meanwhile reads it itself, and does not go by what was known before.
            self._identity = identity
        return self._known

    def add(self, silence: Silence, *, now_ms: Millis) -> None:
        """Add one.

        Raises:
            UsageError: the file cannot be read or written.
        """
        with self._held():
            self._write((*self.read(), silence), now_ms)

    def end(self, name: str, *, now_ms: Millis) -> Silence:
        """End one now, by its id; what it was.

        Raises:
            UsageError: there is none of that id that has not ended yet, or the file cannot be read or written.
        """
        with self._held():
            silences = self.read()
            found = next((one for one in silences if one.id == name and one.ends_at_ms > now_ms), None)
            if found is None:
                running = ", ".join(one.id for one in silences if one.ends_at_ms > now_ms) or "none"
                raise UsageError(f"no silence '{name}' to end; those that have not ended: {running}")
            # One that lay ahead never begins.
            ended = replace(found, starts_at_ms=min(found.starts_at_ms, now_ms), ends_at_ms=now_ms)
            self._write(tuple(ended if one is found else one for one in silences), now_ms)
            return found

    @contextmanager
    def _held(self) -> Iterator[None]:
        try:
            descriptor = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as problem:
            raise self._unwritable(problem) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, silences: Sequence[Silence], now_ms: Millis) -> None:
        kept = [asdict(one) for one in silences if one.ends_at_ms > now_ms - _KEPT_MS]
        content = json.dumps({"version": _VERSION, "silences": kept}, indent=2).encode() + b"\n"
        try:
            replace_file(self._path, content)
        except OSError as problem:
            raise self._unwritable(problem) from None

    def _unwritable(self, problem: OSError) -> UsageError:
        return UsageError(f"{self._path} cannot be written: {(problem.strerror or 'unwritable').lower()}.")


def shown(silence: Silence, now_ms: Millis) -> dict[str, Plain]:
    """A silence as programs are shown it."""
    return {
        "id": silence.id,
        "cluster": silence.cluster,
        "rule": silence.rule,
        "subject": silence.subject,
        "severity": silence.severity,
        "starts_at": iso(silence.starts_at_ms),
        "ends_at": iso(silence.ends_at_ms),
        "active": silence.active(now_ms),
        "author": silence.author,
        "comment": silence.comment,
    }


def _silence(plain: dict[str, Any]) -> Silence:
    kinds = {name: int if name.endswith("_at_ms") else str for name in dict(plain)}
    if not all(isinstance(plain[name], kind) for name, kind in kinds.items()):
        raise TypeError
    return Silence(**plain)
