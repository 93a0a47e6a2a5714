"""The gatherer as a process of its own, on a leash: it ends when its stdin closes, and is started again when it dies.

It is spawned before Spark starts, so that it never inherits Spark's sockets, and it alone writes the journal.
Its configuration (with the clusters' secrets) goes through the pipe: never on a command line, never in a file.
"""

import contextlib
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from connectors.cluster import Cluster
from connectors.errors import UsageError
from connectors.gather.settings import Settings, to_line
from connectors.gather.wish import Wish, wish_to_line
from rules.quorum import Millis

log = logging.getLogger(__name__)

READY_S = 20.0
BACKOFF_S_MAX = 10.0


class Gatherer:
    """The running gatherer. `start()` returns when it holds the journal; `stop()` ends it."""

    def __init__(self, clusters: Sequence[Cluster], *, journal: Path, logs: Path) -> None:
        """`journal` is the folder to record in, `logs` the folder for its stderr and its statistics."""
        self._settings = to_line(
            Settings(clusters=tuple(clusters), journal=str(journal), stats=str(logs / "gather-stats.json"))
        )
        self._logs = logs
        self._process: subprocess.Popen[bytes] | None = None
        self._expected: tuple[str, int] | None = None
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="gatherer's keeper", daemon=True)

    @property
    def pid(self) -> int | None:
        """The process id of the gatherer that runs now."""
        return None if self._process is None else self._process.pid

    @property
    def alive(self) -> bool:
        """Whether a gatherer runs now."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it holds the journal.

        Raises:
            UsageError: it cannot have the journal: its own sentence.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        self._spawn()
        self._keeper.start()

    def expect(self, cluster: str, due_ms: Millis) -> None:
        """Ask for an observation of a cluster at `due_ms`, published at once: a hold or a clear ends then.

        Lost without harm: the next observation comes within a second anyway.
        """
        process = self._process
        if process is None or process.stdin is None or (cluster, due_ms) == self._expected:
            return
        self._expected = (cluster, due_ms)
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(wish_to_line(Wish(cluster=cluster, at_ms=due_ms)))
            process.stdin.flush()

    def stop(self) -> None:
        """Let go of the leash and wait; kill it if it does not listen."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _spawn(self) -> None:
        with (self._logs / "gather.log").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "connectors.gather"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # A ^C on the terminal is the job's to hear: it ends the gatherer by the leash.
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # One that died at once says why in its first line, or in its log.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(self._settings)
            self._process.stdin.flush()
        said = _first_line(self._process.stdout)
        if said != "ready":
            self._process.kill()
            self._process.wait()
            raise UsageError(said or f"the gatherer ended before it was ready: see {self._logs / 'gather.log'}")

    def _keep(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            assert self._process is not None
            started = time.monotonic()
            self._process.wait()
            if self._stopping.is_set():
                return
            failures = 0 if time.monotonic() - started > 60 else failures + 1
            log.warning("the gatherer ended with exit code %s: starting it again", self._process.returncode)
            self._stopping.wait(min(BACKOFF_S_MAX, 0.2 * 2 ** min(failures, 6)) if failures > 1 else 0)
            try:
                self._spawn()
            except UsageError as problem:
                log.warning("the gatherer could not be started again: %s", problem)


def _first_line(stream: IO[bytes]) -> str:
    """The gatherer's first word; empty when it said nothing within READY_S seconds or closed its stdout."""
    said: list[bytes] = []
    reader = threading.Thread(target=lambda: said.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(READY_S)
    return said[0].decode(errors="replace").strip() if said else ""
