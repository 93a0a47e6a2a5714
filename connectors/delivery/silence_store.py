"""Stores the silences of one job: a small file beside its ledger, written by `kraftwatch silence`, read by the job.

The file is replaced atomically, so a reader always sees a complete file; a lock file serialises the writers.
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
from connectors.stored_json import parse_json
from rules.finding import Plain
from rules.model.identifiers import Millis
from rules.notifications.silence import Silence

_LOG = logging.getLogger(__name__)
_VERSION = 1
_KEEP_MS = 30 * 86_400_000
"""How long a silence is still listed after its end."""


class SilenceFile:
    """The silences in a file; there are none while the file does not exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int, int] | None = None
        self._current: tuple[Silence, ...] = ()

    def read(self) -> tuple[Silence, ...]:
        """Returns all silences of the file, in the order of their creation.

        Raises:
            UsageError: the file cannot be read, is damaged, or was written by a newer version.
        """
        try:
            document = parse_json(self._path.read_bytes())
            if document["version"] > _VERSION:
                raise UsageError(f"{self._path} was written by a newer version of kraftwatch: use that version.")
            return tuple(_silence(each) for each in document["silences"])
        except FileNotFoundError:
            return ()
        except OSError as problem:
            raise UsageError(f"{self._path} cannot be read: {(problem.strerror or 'unreadable').lower()}.") from None
        except (ValueError, TypeError, KeyError):
            raise UsageError(f"{self._path} is damaged: remove it, then add the silences again.") from None

    def current(self) -> tuple[Silence, ...]:
        """Returns the silences for a job: re-reads the file only when it changed, and raises no error."""
        try:
            status = self._path.stat()
            identity = (status.st_ino, status.st_mtime_ns, status.st_size)
        except OSError:
            self._identity, self._current = None, ()
            return ()
        if identity != self._identity:
            try:
                self._current = self.read()
            except UsageError as problem:
                # The silences remain active: a damaged file must not page people.
                _LOG.warning("%s The silences that were read before remain active.", problem)
            # Only now: a thread that calls in the meantime reads the file itself instead of using the old silences.
            self._identity = identity
        return self._current

    def add(self, *silences: Silence, now_ms: Millis) -> None:
        """Adds silences; those that belong together have one id.

        Raises:
            UsageError: the file cannot be read or written.
        """
        with self._locked():
            self._write((*self.read(), *silences), now_ms)

    def end(self, name: str, *, now_ms: Millis) -> tuple[Silence, ...]:
        """Ends all silences of an id now and returns them as they were.

        Raises:
            UsageError: no silence of that id is active or in the future, or the file cannot be read or written.
        """
        with self._locked():
            silences = self.read()
            found = tuple(one for one in silences if one.id == name and one.ends_at_ms > now_ms)
            if not found:
                running = ", ".join(dict.fromkeys(one.id for one in silences if one.ends_at_ms > now_ms)) or "none"
                raise UsageError(f"no silence '{name}' to end; active or future silences: {running}")
            # A silence in the future never begins.
            ended = (
                replace(one, starts_at_ms=min(one.starts_at_ms, now_ms), ends_at_ms=now_ms) if one in found else one
                for one in silences
            )
            self._write(tuple(ended), now_ms)
            return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
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
        stored = [asdict(one) for one in silences if one.ends_at_ms > now_ms - _KEEP_MS]
        content = json.dumps({"version": _VERSION, "silences": stored}, indent=2).encode() + b"\n"
        try:
            replace_file(self._path, content)
        except OSError as problem:
            raise self._unwritable(problem) from None

    def _unwritable(self, problem: OSError) -> UsageError:
        return UsageError(f"{self._path} cannot be written: {(problem.strerror or 'unwritable').lower()}.")


def silence_to_json(silence: Silence, now_ms: Millis) -> dict[str, Plain]:
    """Returns a silence as the JSON object of `silence list --json` and the API."""
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
