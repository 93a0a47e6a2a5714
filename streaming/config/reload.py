"""Reload: a running job re-reads its configuration file when the file changes or SIGHUP arrives."""

import logging
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from connectors.errors import UnavailableStoreError, UsageError
from connectors.process.signals import SignalFlag
from connectors.process.wall_clock import wall_ms
from rules.evaluate import exception_site
from streaming.config import Config

log = logging.getLogger(__name__)

FIXED = (
    *("checkpoint", "work_dir", "store", "store_password"),
    *("source", "relay", "master", "spark", "pipeline"),
    *("listen", "listen_certfile", "listen_keyfile", "listen_token_file", "listen_read_token_file", "log_format"),
    "listen_witness_token_file",
)
"""The keys that need a restart."""

RETRY_S = 60
"""Seconds until a rejected file is read again: what it names may exist by then."""

Change: TypeAlias = Callable[[Config], Sequence[str]]
"""Puts a configuration into effect and returns its changed keys; raises UsageError if it is invalid."""


class ConfigFile(SignalFlag):
    """The configuration file of a running job, which SIGHUP makes it read again while entered."""

    def __init__(self, path: Path, read: Callable[[], Config]) -> None:
        """`read` returns the file's configuration with the options of the command line applied."""
        super().__init__(signal.SIGHUP)
        self._path = path
        self._read = read
        self._in_force = self._newest = self._identity()
        self.loaded_at_ms = wall_ms()
        """When the configuration in effect was read."""
        self.error: str | None = None
        """Why the newest file is rejected, in one sentence without a secret; None while it is in effect."""
        self._retry_in_s = 0
        """Seconds until the next attempt with a refused file."""

    def poll(self, change: Change) -> None:
        """Reads the file if it has changed and puts it into effect; called once a second.

        An invalid file is reported once and the old configuration stays in effect; the file is read again every minute.
        """
        if not self._due():
            return
        try:
            keys = change(self._read_safely())
        except (UsageError, UnavailableStoreError) as problem:
            self.wait_for(str(problem), meanwhile="the old configuration stays in effect")
            return
        self.error = None
        self.loaded_at_ms = wall_ms()
        log.warning("%s was reloaded: %s", self._path, f"changed {', '.join(keys)}" if keys else "no change")

    def _read_safely(self) -> Config:
        """Returns the file's configuration; raises UsageError if it is invalid, also where a check of it fails."""
        try:
            return self._read()
        except (UsageError, MemoryError):
            raise
        except Exception as problem:
            raise UsageError(f"{self._path} cannot be checked: {exception_site(problem)}") from problem

    def wait_for(self, why: str, *, meanwhile: str) -> None:
        """Records why the file is not completely in effect, and when to read it again."""
        self._retry_in_s = RETRY_S
        if why != self.error:
            log.warning("%s; %s, retrying every %d s", why, meanwhile, RETRY_S)
        self.error = why

    def _due(self) -> bool:
        identity, before = self._identity(), self._newest
        self._newest = identity
        # An editor may still be writing: a change is read after it has been stable for a second.
        changed = identity == before and identity != self._in_force
        if self.is_set() or changed:
            self.clear()
            self._in_force = identity
            return True
        self._retry_in_s -= 1
        return self.error is not None and identity == self._in_force and self._retry_in_s <= 0

    def _identity(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def refuse_fixed(before: Config, after: Config) -> None:
    """Refuses a change that needs a restart.

    Raises:
        UsageError: names the key.
    """
    for key in FIXED:
        if getattr(before, key) != getattr(after, key):
            raise UsageError(f"{key} cannot change while the job runs: restart the job, or restore the old value")
