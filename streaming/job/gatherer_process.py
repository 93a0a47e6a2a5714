"""Supervision of the gatherer process: it is started before Spark, restarted when it exits, and ended with the job.

The gatherer exits when its stdin closes, so it never outlives the job. Because it is started before Spark, it does not
inherit Spark's sockets. It alone writes the journal. Its settings contain the clusters' secrets: they go through the
pipe, never on a command line and never into a file.
"""

import contextlib
import io
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from connectors.errors import JournalError, KraftwatchError, ProcessEndedError, UsageError
from connectors.gather.gatherer_input import (
    GathererSettings,
    LogPause,
    PollRequest,
    ReportedRow,
    message_to_line,
    settings_to_line,
)
from connectors.gather.gatherer_stats import stalled_loop_s
from connectors.gather.unwritten_rows import row_from_line
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.observations.observation import Observation
from connectors.store.durable_file import full_disk
from connectors.store.journal_reader import JournalReader
from rules.model.identifiers import Millis
from rules.model.witness import WitnessRow

log = logging.getLogger(__name__)

READY_S = 600.0
"""Seconds until the gatherer holds the journal: up to 10 s for the lock, then recovery after a crash; on a busy machine
its imports alone take a minute."""
BACKOFF_S_MAX = 10.0
PAUSED_FROM_BYTES = 1024 * 1024
"""A log is not read while so much of it waits to be evaluated."""
PAUSE_MS = 15_000
"""How long a log is not read unless the job says otherwise: longer than a batch, which then repeats it."""
HANGS_S = 60
"""A poll records one row a second for each cluster, even a failed one: no row for this many seconds means a hang."""


class GathererProcess:
    """The supervised gatherer process. `start()` returns once it holds the journal; `stop()` ends it."""

    def __init__(
        self,
        clusters: Sequence[ClusterConnection],
        *,
        journal: Path,
        logs: Path,
        keep_bytes: int | None = None,
        on_unwritten: Callable[[Observation], None] = lambda _: None,
    ) -> None:
        """Starts nothing yet.

        `logs` is for the gatherer's stderr and statistics; `keep_bytes`: `GathererSettings`; `on_unwritten` takes, in
        another thread, each row that a full disk does not take.
        """
        self._on_unwritten = on_unwritten
        self._stats = logs / "gather-stats.json"
        self._settings = settings_to_line(
            GathererSettings(
                clusters=tuple(clusters),
                journal=str(journal),
                stats=str(self._stats),
                keep_bytes=keep_bytes,
            )
        )
        self._journal = JournalReader(journal)
        self._logs = logs
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: subprocess.Popen[bytes] | None = None
        """The process once it has read its settings: before that, it would take a control message for them."""
        self._unsent = b""
        """The rest of a line that the pipe had no room for: it goes before the next line."""
        self._requested: dict[str, tuple[int | None, ...]] = {}
        """By cluster: the process that was asked for a poll, and the time of that poll."""
        self._stopping = threading.Event()
        self._spawning = threading.Lock()
        self._pipes = threading.Lock()
        """Held while a pipe is written or closed."""
        self._supervisor = threading.Thread(target=self._supervise, name="gatherer supervisor", daemon=True)

    @property
    def pid(self) -> int | None:
        """The process id of the running gatherer; None before the first start."""
        return None if self._process is None else self._process.pid

    @property
    def alive(self) -> bool:
        """Whether a gatherer runs now."""
        return self._process is not None and self._process.poll() is None

    @property
    def loop_stalled_s(self) -> float | None:
        """For how long the gatherer's event loop has not run; None while it cannot have written its statistics."""
        return None if full_disk(self._logs) is not None else stalled_loop_s(self._stats, pid=self.pid)

    def start(self) -> None:
        """Starts the gatherer and waits until it holds the journal.

        Raises UsageError with the reason that it printed, and ProcessEndedError if it was killed.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        self._spawn()
        self._supervisor.start()

    def request_polls(self, requests: Mapping[str, tuple[Millis | None, Millis]]) -> None:
        """Requests a poll of each cluster at the first time, published at once: a hold or clear time expires then.

        Until the second time quiet rows may wait; 0: they are published now. Never blocks. A lost request has no
        effect: quiet rows are published within ten seconds.
        """
        for cluster, (due_ms, quiet_until_ms) in requests.items():
            if self.pid is not None and self._requested.get(cluster) != (self.pid, due_ms, quiet_until_ms):
                self._requested[cluster] = (self.pid, due_ms, quiet_until_ms)
                request = PollRequest(cluster=cluster, at_ms=due_ms, quiet_until_ms=quiet_until_ms)
                self._write(message_to_line(request))

    def limit_log(self, cluster: str, waiting_bytes: int) -> None:
        """Tells the gatherer whether to read a cluster's log: not while many rows of it wait to be evaluated.

        Never blocks. Call it with each batch after which rows of the cluster wait, and when none does any more.
        """
        pause_ms = PAUSE_MS if waiting_bytes >= PAUSED_FROM_BYTES else 0
        self._write(message_to_line(LogPause(cluster=cluster, pause_ms=pause_ms)))

    def report_witness(self, cluster: str, row: WitnessRow) -> bool:
        """Passes on what a controller's host saw; returns whether the gatherer takes it now. Never blocks."""
        return self._write(message_to_line(ReportedRow(cluster=cluster, row=row)))

    def _write(self, line: bytes) -> bool:
        """Writes a line, or drops it where a former one is not written yet; returns whether the pipe takes it."""
        with self._pipes, contextlib.suppress(OSError):
            if self._ready is not None and self._ready.stdin is not None:
                stdin = self._ready.stdin
                self._unsent = self._unsent[stdin.write(self._unsent) or 0 :]
                if not self._unsent:
                    # POSIX writes a line shorter than PIPE_BUF completely or not at all, a longer one also in part.
                    taken = stdin.write(line) or 0
                    self._unsent = line[taken:] if taken else b""
                    return taken > 0
        return False

    def stop(self) -> None:
        """Closes the gatherer's stdin and waits for its exit; kills it after 5 s."""
        self._stopping.set()
        with self._spawning:
            process = self._process
        if process is None:
            return
        self._close_stdin(process)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._supervisor.is_alive():
            self._supervisor.join()
        assert process.stdout is not None
        process.stdout.close()

    def _close_stdin(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with self._pipes:
            self._ready = None
            process.stdin.close()

    def _spawn(self) -> None:
        process = self._popen()
        if process is None:
            return
        assert process.stdout is not None
        # A process that exits at once prints the reason as its first line, or in its log.
        answers, _, _ = select.select([process.stdout], [], [], READY_S)
        status = process.stdout.readline().decode(errors="replace").strip() if answers else ""
        if status != "ready":
            process.kill()
            process.wait()
            self._close_stdin(process)
            process.stdout.close()
            if status:
                raise UsageError(status)
            raise ProcessEndedError(
                "the gatherer ended while it started and gave no reason, as if it had been killed (for lack of memory, "
                f"for example): start kraftwatch again; see {self._logs / 'gather.log'}"
            )
        assert process.stdin is not None
        with self._pipes:
            if not process.stdin.closed:
                os.set_blocking(process.stdin.fileno(), False)
                self._ready, self._unsent = process, b""

    def _popen(self) -> subprocess.Popen[bytes] | None:
        with self._spawning, (self._logs / "gather.log").open("ab") as errors:
            if self._stopping.is_set():
                return None
            self._process = subprocess.Popen(
                [sys.executable, "-m", "connectors.gather"],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # ^C on the terminal goes to the job alone, which closes the gatherer's stdin.
                start_new_session=True,
            )
            assert self._process.stdin is not None
            # With a descriptor of its own: that of a start that failed is closed, and has another file soon.
            pipe = os.dup(self._process.stdin.fileno())
            # In a thread: a process that hangs before it reads must not block the job.
            threading.Thread(target=_write_settings, args=(pipe, self._settings), daemon=True).start()
            return self._process

    def _supervise(self) -> None:
        failures = 0
        runs = True
        while not self._stopping.is_set():
            if runs:
                started = time.monotonic()
                reason = self._wait()
                if self._stopping.is_set():
                    return
                log.warning("the gatherer exited (%s) and is restarted", reason)
                failures = 0 if time.monotonic() - started > 60 else failures
            self._stopping.wait(min(BACKOFF_S_MAX, 0.2 * 2 ** min(failures, 6)) if failures else 0)
            failures += 1
            try:
                self._spawn()
                runs = True
            except (KraftwatchError, OSError) as problem:
                runs = False
                if not self._stopping.is_set():
                    log.warning("the gatherer could not be restarted: %s", problem)

    def _wait(self) -> str:
        """Waits until the gatherer exits, kills it when it hangs, and returns the reason of its exit."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        printed: list[str] = []
        reader = threading.Thread(target=self._read, args=(process.stdout, printed), name="gatherer", daemon=True)
        reader.start()
        code = self._exit_code(process)
        reader.join()
        output = "\n".join(printed).strip()
        self._close_stdin(process)
        if code is None:
            return f"killed: it recorded nothing for {HANGS_S} s"
        return output or f"exit code {code}"

    def _read(self, stdout: IO[bytes], printed: list[str]) -> None:
        with io.BufferedReader(stdout) as lines:  # type: ignore[type-var]  # it is unbuffered
            for line in lines:
                row = row_from_line(line)
                if row is None:
                    printed.append(line.decode(errors="replace"))
                else:
                    self._on_unwritten(row)

    def _exit_code(self, process: subprocess.Popen[bytes]) -> int | None:
        # Seconds are counted by waits, not by a clock: time in which the job itself was stopped does not count.
        published, idle_s = self._published(), 0
        while idle_s < HANGS_S:
            try:
                return process.wait(1)
            except subprocess.TimeoutExpired:
                # The rest of a line is written also if no other line follows.
                self._write(b"")
                newest = self._published()
                waits = full_disk(self._logs) is not None
                idle_s = 0 if newest != published or waits else idle_s + 1
                published = newest
        process.kill()
        process.wait()
        return None

    def _published(self) -> int | None:
        try:
            return self._journal.published_end()
        except (JournalError, OSError):
            return None


def _write_settings(pipe: int, settings: bytes) -> None:
    left = memoryview(settings)
    with contextlib.suppress(OSError), open(pipe, "wb", buffering=0) as stdin:
        while left:
            left = left[stdin.write(left) :]
