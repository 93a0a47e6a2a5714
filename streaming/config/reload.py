"""Reloading: a running job takes its configuration anew, when the file changed or SIGHUP came."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TypeAlias

from connectors.errors import UsageError
from rules.model.identifiers import Millis
from streaming.config import Config

log = logging.getLogger(__name__)

FIXED = ("checkpoint", "master", "spark", "listen")
"""The keys that a running job cannot change."""

FIRST_PAUSE, LONGEST_PAUSE = 30, 300
"""So many looks a refused file rests before it is tried again: what it names may have come meanwhile."""

Change: TypeAlias = Callable[[Config], Sequence[str]]
"""Puts a configuration in force and says which keys differ; UsageError when it cannot be, and nothing changed."""


class ConfigFile:
    """The file of a running job. SIGHUP is taken on entering; the former handler is back on leaving."""

    def __init__(self, path: Path, read: Callable[[], Config]) -> None:
        """`read` gives what the file says now, with the options of the command line laid over it."""
        self._path = path
        self._read = read
        self._told = threading.Event()
        self._former: signal.Handlers | Callable[[int, FrameType | None], object] | int | None = None
        self._in_force = self._seen = self._identity()
        self.loaded_at_ms = _now()
        """When what is in force was read."""
        self.error: str | None = None
        """Why the newest file is refused, as long as it is; one sentence without a secret."""
        self._pause = self._rests = 0
        """How many looks a refused file rests, and how many of them are left."""

    def __enter__(self) -> "ConfigFile":
        """Take SIGHUP."""
        self._former = signal.signal(signal.SIGHUP, lambda *_: self._told.set())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give SIGHUP back."""
        signal.signal(signal.SIGHUP, self._former)

    def look(self, change: Change) -> None:
        """Read the file if there is reason to, and put it in force; called each second.

        A file that cannot be is told once, and what was in force stays so; it is tried again in time, ever more rarely.
        """
        if not self._due():
            return
        try:
            keys = change(self._read())
        except UsageError as problem:
            self.wait_for(str(problem), meanwhile="the configuration that was in force stays so")
            return
        self.error = None
        self.loaded_at_ms = _now()
        log.warning(
            "%s was read again: %s", self._path, f"it changes {', '.join(keys)}" if keys else "it changes nothing"
        )

    def wait_for(self, why: str, *, meanwhile: str) -> None:
        """Not all that the file says is in force, and this is why: it is tried again in time, ever more rarely."""
        self._pause = min(max(FIRST_PAUSE, 2 * self._pause), LONGEST_PAUSE)
        self._rests = self._pause
        if why != self.error:
            log.warning("%s; %s, and the file is tried again in %d s", why, meanwhile, self._pause)
        self.error = why

    def _due(self) -> bool:
        identity, before = self._identity(), self._seen
        self._seen = identity
        # An editor may still be writing: a change is taken once it stands for a second.
        changed = identity == before and identity != self._in_force
        if self._told.is_set() or changed:
            self._told.clear()
            self._in_force = identity
            self._pause = 0
            return True
        self._rests -= 1
        return self.error is not None and identity == self._in_force and self._rests <= 0

    def _identity(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def refuse_fixed(before: Config, after: Config) -> None:
    """Refuse what a running job cannot change.

    Raises:
        UsageError: naming the key.
    """
    for key in FIXED:
        if getattr(before, key) != getattr(after, key):
            raise UsageError(f"{key} cannot change while the job runs: start it anew for that, or put it back")


def _now() -> Millis:
    return Millis(round(time.time() * 1000))
