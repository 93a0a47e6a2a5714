"""The gatherer as a process of its own, on a leash: it ends when its stdin closes, and is started again when it dies.

It is spawned before Spark starts, so that it never inherits Spark's sockets, and it alone writes the journal.
Its configuration (with the clusters' secrets) goes through the pipe: never on a command line, never in a file.
"""

import contextlib
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from connectors.cluster_connection import Cluster
from connectors.errors import JournalError, UsageError
from connectors.event import Audited
from connectors.gather.control_messages import Found, Wish
from connectors.gather.control_messages import to_line as said_to_line
from connectors.gather.gatherer_settings import Settings, to_line
from connectors.journal.reader import Journal
from rules.model.identifiers import Millis

log = logging.getLogger(__name__)

READY_S = 60.0
"""Until it holds the journal: up to 10 s for the lock, then what a crash left is read and checked."""
BACKOFF_S_MAX = 10.0
HANGS_S = 60
"""A poll gives each cluster a row a second, whatever fails: this long without any is a gatherer that hangs."""


class Gatherer:
    """The running gatherer. `start()` returns when it holds the journal; `stop()` ends it."""

    def __init__(self, clusters: Sequence[Cluster], *, journal: Path, logs: Path) -> None:
        """`journal` is the folder to record in, `logs` the folder for its stderr and its statistics."""
        self._settings = to_line(
            Settings(clusters=tuple(clusters), journal=str(journal), stats=str(logs / "gather-stats.json"))
        )
        self._journal = Journal(journal)
        self._logs = logs
        self._process: subprocess.Popen[bytes] | None = None
        self._listening: subprocess.Popen[bytes] | None = None
        """The same once it is ready: before that, a wish would be taken for its settings."""
        self._expected: dict[str, tuple[int, int]] = {}
        """By cluster: which process was asked for an observation, and of when."""
        self._stopping = threading.Event()
        self._spawning = threading.Lock()
        self._pipes = threading.Lock()
        """Nobody writes into a pipe that is being closed."""
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

        Never waits, and is lost without harm: the next observation comes within a second anyway.
        """
        with self._pipes:
            process = self._listening
            if process is None or self._expected.get(cluster) == (process.pid, due_ms):
                return
            assert process.stdin is not None
            self._expected[cluster] = (process.pid, due_ms)
            with contextlib.suppress(OSError):
                # A pipe that is full takes none of it: shorter than PIPE_BUF, a line goes whole or not at all.
                process.stdin.write(said_to_line(Wish(cluster=cluster, at_ms=due_ms)))

    def record(self, cluster: str, audited: Audited) -> None:
        """Have it recorded what an audit found. Never waits, and may be lost: the next audit comes."""
        with self._pipes:
            process = self._listening
            if process is None:
                return
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.write(found_line(cluster, audited))

    def stop(self) -> None:
        """Let go of the leash and wait; kill it if it does not listen."""
        self._stopping.set()
        with self._spawning:
            process = self._process
        if process is None:
            return
        self._let_go(process)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._keeper.is_alive():
            self._keeper.join()
        assert process.stdout is not None
        process.stdout.close()

    def _let_go(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with self._pipes:
            self._listening = None
            process.stdin.close()

    def _spawn(self) -> None:
        process = self._popen()
        if process is None:
            return
        # Handed over on the side: one that hangs before it reads must not hold us up.
        threading.Thread(target=_hand_over, args=(process, self._settings), daemon=True).start()
        assert process.stdout is not None
        # One that died at once says why in its first line, or in its log.
        said = _first_line(process.stdout)
        if said != "ready":
            process.kill()
            process.wait()
            self._let_go(process)
            process.stdout.close()
            raise UsageError(said or f"the gatherer ended before it was ready: see {self._logs / 'gather.log'}")
        assert process.stdin is not None
        with self._pipes:
            if not process.stdin.closed:
                os.set_blocking(process.stdin.fileno(), False)
                self._listening = process

    def _popen(self) -> subprocess.Popen[bytes] | None:
        """The new process; None when we are to stop."""
        with self._spawning, (self._logs / "gather.log").open("ab") as errors:
            if self._stopping.is_set():
                return None
            self._process = subprocess.Popen(
                [sys.executable, "-m", "connectors.gather"],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # A ^C on the terminal is the job's to hear: it ends the gatherer by the leash.
                start_new_session=True,
            )
            return self._process

    def _keep(self) -> None:
        failures = 0
        runs = True
        while not self._stopping.is_set():
            if runs:
                started = time.monotonic()
                why = self._watched()
                if self._stopping.is_set():
                    return
                log.warning("the gatherer ended (%s): starting it again", why)
                failures = 0 if time.monotonic() - started > 60 else failures
            self._stopping.wait(min(BACKOFF_S_MAX, 0.2 * 2 ** min(failures, 6)) if failures else 0)
            failures += 1
            try:
                self._spawn()
                runs = True
            except (UsageError, OSError) as problem:
                runs = False
                if not self._stopping.is_set():
                    log.warning("the gatherer could not be started again: %s", problem)

    def _watched(self) -> str:
        """Wait until it ends, and end it when it hangs; says why it ended."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        with process.stdout:
            code = self._ended(process)
            last_words = process.stdout.read().decode(errors="replace").strip()
        self._let_go(process)
        if code is None:
            return f"it had recorded nothing for {HANGS_S} s, so it was killed"
        return last_words or f"exit code {code}"

    def _ended(self, process: subprocess.Popen[bytes]) -> int | None:
        """Its exit code; None when it was killed because it hung."""
        # Counted in looks, not by a clock: time in which we ourselves were stopped is not its fault.
        published, silent = self._published(), 0
        while silent < HANGS_S:
            try:
                return process.wait(1)
            except subprocess.TimeoutExpired:
                newest = self._published()
                silent = 0 if newest != published else silent + 1
                published = newest
        process.kill()
        process.wait()
        return None

    def _published(self) -> int | None:
        try:
            return self._journal.published()
        except (JournalError, OSError):
            return None


def found_line(cluster: str, audited: Audited) -> bytes:
    """What an audit found as a line that a pipe takes whole or not at all: what is beyond that is left out."""
    line = said_to_line(Found(cluster=cluster, audited=audited))
    while len(line) > select.PIPE_BUF and audited.broken:
        audited = replace(audited, broken=audited.broken[:-1])
        line = said_to_line(Found(cluster=cluster, audited=audited))
    return line


def _hand_over(process: subprocess.Popen[bytes], settings: bytes) -> None:
    assert process.stdin is not None
    left = memoryview(settings)
    with contextlib.suppress(OSError, ValueError):
        while left:
            left = left[process.stdin.write(left) :]


def _first_line(stream: IO[bytes]) -> str:
    """The gatherer's first word; empty when it said nothing within READY_S seconds or closed its stdout."""
    said: list[bytes] = []
    reader = threading.Thread(target=lambda: said.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(READY_S)
    return said[0].decode(errors="replace").strip() if said else ""
