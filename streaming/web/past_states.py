"""Past states of the clusters for the page and the API: a process of the lowest priority replays the journal.

A request waits for a moment; a replay that takes longer goes on, and the client asks again. One replay runs at a time,
so that scrubbing never takes more than one core from the job, and never a thread that the present pages need for long.
"""

import contextlib
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from connectors.errors import JournalError, KraftwatchError, UsageError
from connectors.sinks.alert_json import iso
from connectors.store.journal_reader import JournalReader
from rules.model.identifiers import Millis
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.past_replay import (
    REPLIES,
    REQUESTS,
    PastReply,
    PastRequest,
    PastState,
)
from streaming.status.recording import journal_span

WAIT_S = 2.0
"""How long a request waits for its state."""
_SPAN_S = 1.0
"""How long the journal's first and last time are remembered."""
_FAILED = "the replay of the journal failed: ask again"
_RECENT = 64
"""States that are kept, the newest requested ones."""
_WAITING = 2
"""Requests that wait at once: of the server's threads the others stay free."""


class ReplayingError(KraftwatchError):
    """The state is being replayed, or another one is: the same request succeeds later."""

    def __init__(self, message: str, progress: float) -> None:
        """`progress` of the running replay: from 0 to 1."""
        super().__init__(message)
        self.progress = progress


@dataclass(slots=True)
class _RunningReplay:
    """The replay that runs now."""

    cluster: str
    at_ms: Millis
    ended: threading.Event = field(default_factory=threading.Event)
    newest: PastReply = field(default_factory=PastReply)


class PastStates:
    """For any thread; `close` ends the process."""

    def __init__(
        self, journal: Path | None, cluster: Callable[[str], ClusterSettings | None], *, wait_s: float = WAIT_S
    ) -> None:
        """Starts nothing yet.

        Args:
            journal: the journal's folder; None where a relay gathers, so that there is none.
            cluster: returns a cluster of the present configuration; None for an unknown name.
        """
        self._journal = journal
        self._cluster = cluster
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._waiting = threading.BoundedSemaphore(_WAITING)
        self._recent: OrderedDict[bytes, PastReply] = OrderedDict()
        self._span: tuple[float, tuple[Millis, Millis] | None] | None = None
        self._running: _RunningReplay | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def span(self) -> tuple[Millis, Millis] | None:
        """Returns the times of the first and the newest observation in the journal; None if there is none."""
        known, now = self._span, time.monotonic()
        if known is None or now - known[0] > _SPAN_S:
            known = self._span = (now, self._read_span())
        return known[1]

    def _read_span(self) -> tuple[Millis, Millis] | None:
        if self._journal is None:
            return None
        try:
            return journal_span(JournalReader(self._journal))
        except (JournalError, OSError):
            return None

    def at(self, name: str, at_ms: Millis) -> PastState:
        """Returns the state of a configured cluster at a time.

        Raises:
            UsageError: the journal does not hold that time, or nothing of the cluster up to it.
            ReplayingError: the replay takes longer.
        """
        span, cluster = self.span(), self._cluster(name)
        if span is None or cluster is None or self._journal is None:
            raise UsageError("this job has no journal of the cluster: no past state is known")
        if not span[0] <= at_ms <= span[1]:
            raise UsageError(f"at={iso(at_ms)}: the journal holds {iso(span[0])} to {iso(span[1])}")
        request = PastRequest(journal=str(self._journal), cluster=cluster, at_ms=at_ms)
        reply = self._recent_reply(request) or self._replayed(request)
        if reply.state is None:
            raise UsageError(f"at={iso(at_ms)}: {reply.refusal}")
        return reply.state

    def __enter__(self) -> "PastStates":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process, if there is one."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
            running = self._running
        if process is not None:
            process.kill()
            if running is not None:
                # It reads the end of the process's output.
                running.ended.wait(self._wait_s)
            _end(process)

    def _recent_reply(self, request: PastRequest) -> PastReply | None:
        key = _key(request)
        with self._lock:
            reply = self._recent.pop(key, None)
            if reply is not None and reply.refusal != _FAILED:
                self._recent[key] = reply
            return reply

    def _replayed(self, request: PastRequest) -> PastReply:
        if not self._waiting.acquire(blocking=False):
            running = self._running
            raise ReplayingError("other past states are being replayed: ask again", _progress(running))
        try:
            running = self._start(request)
            running.ended.wait(self._wait_s)
            reply = self._recent_reply(request)
            if reply is None:
                raise ReplayingError(_sentence(running), _progress(running))
            return reply
        finally:
            self._waiting.release()

    def _start(self, request: PastRequest) -> _RunningReplay:
        """Returns the running replay, whichever it is; a new one if none runs."""
        with self._lock:
            if self._running is None:
                self._running = _RunningReplay(cluster=request.cluster.name, at_ms=request.at_ms)
                threading.Thread(
                    target=self._run, args=(request, self._running), name="past states", daemon=True
                ).start()
            return self._running

    def _run(self, request: PastRequest, replay: _RunningReplay) -> None:
        try:
            reply = self._ask(request, replay)
        except (OSError, ValueError, ValidationError):
            self._drop_process()
            reply = PastReply(refusal=_FAILED)
        with self._lock:
            self._recent[_key(request)] = reply
            while len(self._recent) > _RECENT:
                self._recent.popitem(last=False)
            self._running = None
        replay.ended.set()

    def _ask(self, request: PastRequest, replay: _RunningReplay) -> PastReply:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(REQUESTS.dump_json(request) + b"\n")
        process.stdin.flush()
        while True:
            # An ended process gives an empty line, which is no reply.
            replay.newest = REPLIES.validate_json(process.stdout.readline())
            if replay.newest.final:
                return replay.newest

    def _started(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._closed:
                raise OSError("the server is closed")
            if self._process is not None and self._process.poll() is not None:
                _end(self._process)
                self._process = None
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "streaming.status.past_replay"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
            return self._process

    def _drop_process(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _key(request: PastRequest) -> bytes:
    return REQUESTS.dump_json(request)


def _progress(replay: _RunningReplay | None) -> float:
    return 0.0 if replay is None else replay.newest.progress


def _sentence(replay: _RunningReplay) -> str:
    done = f"{100 * replay.newest.progress:.0f} %"
    return f"the journal is being replayed up to {iso(replay.at_ms)} for {replay.cluster}, {done} done: ask again"
