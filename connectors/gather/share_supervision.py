"""One process of the gatherer as the process that holds the journal sees it: start, messages, hang, restart."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import IO, Final

from connectors.gather.gatherer_settings import GathererSettings, to_line
from connectors.gather.gatherer_stats import WrittenStats, stats_from_json
from connectors.gather.share_messages import MessageKind, MessageReader
from connectors.journal.writer import JournalWriter

HANGS_S: Final = 30.0
"""A process sends its statistics each second: none for this long means that its event loop hangs."""
_START_S: Final = 60.0
"""Until the first statistics: a busy machine takes long to import."""
_LONGEST_PAUSE_S: Final = 10.0
_LONG_RUN_S: Final = 60.0
_PIECE_BYTES: Final = 1024 * 1024


class Share:
    """The process that gathers one share of the clusters."""

    def __init__(
        self, number: int, settings: GathererSettings, clusters: Collection[str], journal: JournalWriter
    ) -> None:
        self.number = number
        self.clusters = clusters
        self.turn_at_s = 0.0
        """Monotonic seconds of the newest turn of its event loop that is known."""
        self._settings = settings
        self._journal = journal
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = MessageReader()
        self._start_at = 0.0
        self._started_at = 0.0
        self._heard_at = 0.0
        self._failures = 0
        self._has_settings = threading.Event()

    @property
    def descriptor(self) -> int | None:
        """The pipe of its messages; None while it does not run."""
        return None if self._process is None or self._process.stdout is None else self._process.stdout.fileno()

    @property
    def is_due(self) -> bool:
        """Whether it does not run and is to be started now."""
        return self._process is None and time.monotonic() >= self._start_at

    @property
    def hangs(self) -> bool:
        """Whether it runs and has sent nothing for too long."""
        return self._process is not None and time.monotonic() >= self._heard_at

    def start(self) -> int:
        """Starts the process where the journal's rows of its clusters end; returns the pipe of its messages."""
        positions = {name: self._journal.follow_position(name) for name in self.clusters}
        settings = replace(
            self._settings,
            clusters=tuple(each for each in self._settings.clusters if each.name in self.clusters),
            clusters_in_job=self._settings.clusters_of_all,
            processes=1,
            share=self.number,
            stats=None,
            positions={name: position for name, position in positions.items() if position is not None},
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "connectors.gather.share_process"],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._reader = process, MessageReader()
        self._started_at = self.turn_at_s = time.monotonic()
        self._heard_at = self._started_at + _START_S
        self._has_settings = threading.Event()
        # In a thread: the settings of many clusters fill the pipe until the process reads them.
        threading.Thread(
            target=_write_settings, args=(process.stdin, to_line(settings), self._has_settings), daemon=True
        ).start()
        os.set_blocking(process.stdout.fileno(), False)
        return process.stdout.fileno()

    def receive(self) -> Iterator[tuple[MessageKind, bytes]]:
        """Yields the messages that have arrived.

        Raises:
            EOFError: the process has ended.
            UnreadableMessageError: it sent something else.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        piece = self._process.stdout.read(_PIECE_BYTES)
        if piece == b"":
            raise EOFError
        yield from self._reader.receive(piece or b"")

    def stats(self, content: bytes) -> WrittenStats | None:
        """Returns its statistics; from them it is known that it does not hang."""
        stats = stats_from_json(content)
        if stats is not None and stats.loop is not None:
            self.turn_at_s = stats.loop.turn_at_s
            self._heard_at = time.monotonic() + HANGS_S
        return stats

    def send(self, line: bytes) -> None:
        """Sends a control message. Never blocks: a lost one has no effect but a delay."""
        if self._process is not None and self._process.stdin is not None and self._has_settings.is_set():
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(line)

    def kill(self, reason: str | None = None) -> str:
        """Kills the process and returns the reason."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        return reason or f"it hung for {HANGS_S:g} s and was killed"

    def exit_reason(self) -> str:
        """Returns how the process ended, which has closed its messages."""
        assert self._process is not None
        try:
            return f"exit code {self._process.wait(1)}"
        except subprocess.TimeoutExpired:
            return self.kill("it closed its output and was killed")

    def ended(self) -> None:
        """Forgets the process; `is_due` says when to start the next one."""
        now = time.monotonic()
        self._failures = 0 if now - self._started_at > _LONG_RUN_S else self._failures + 1
        pause = min(_LONGEST_PAUSE_S, 0.2 * 2 ** min(self._failures, 6)) if self._failures > 1 else 0.0
        self._start_at = now + pause
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def close_stdin(self) -> None:
        """Asks the process to end."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def end(self, deadline: float) -> None:
        """Waits for the end of the process; kills it at this time of the monotonic clock."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
        self.ended()


def _write_settings(pipe: IO[bytes], settings: bytes, written: threading.Event) -> None:
    left = memoryview(settings)
    with contextlib.suppress(OSError, ValueError):
        while left:
            left = left[pipe.write(left) :]
        os.set_blocking(pipe.fileno(), False)
        written.set()
