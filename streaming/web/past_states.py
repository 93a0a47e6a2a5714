"""Past states of the clusters for the page and the API: a process of the lowest priority replays the journal.

A request waits for a moment; a replay that takes longer goes on, and the client asks again. One replay runs at a time,
so that scrubbing never takes more than one core from the job, and never a thread that the present pages need for long.
"""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from pydantic import ValidationError

from connectors.errors import JournalError, KraftwatchError, UsageError
from connectors.store.journal_reader import JournalReader
from rules.formatting import iso
from rules.model.identifiers import Millis
from streaming.query.past_replay import REPLIES, REQUESTS, PastReply, PastRequest, PastState, StoredCluster
from streaming.query.recording import journal_span
from streaming.replay.cluster_settings import ClusterSettings

WAIT_S = 0.3
"""How long a request waits for its state, in a thread of the server."""
NEWEST_WAIT_S = 2.0
"""The same for the newest state: a command waits for it, which is not repeated for the same time."""
_NEWEST_MS = 5_000
"""How much older than the newest row a state may be that was replayed for another request."""
_END_S = 2.0
_NO_JOURNAL = "this job has no journal of the cluster: no past state is known"
_NOTHING_TO_CONTINUE = (
    "this job has no journal of the cluster, as with source: kafka, where a relay gathers; without --job, give "
    "--config with the job's configuration, or --cluster NAME=HOST:PORT"
)
_FAILED = "the replay of the journal failed: ask again"
_RECENT = 64
"""States that are kept, the newest ones."""


class ReplayingError(KraftwatchError):
    """The state is being replayed, or another one is: the same request succeeds later."""

    def __init__(self, message: str, progress: float) -> None:
        """`progress` of the running replay: from 0 to 1."""
        super().__init__(message)
        self.progress = progress


class PastStates:
    """For any thread; leaving ends the process."""

    def __init__(
        self,
        journal: Path,
        cluster: Callable[[str], ClusterSettings | None],
        *,
        publish: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`journal` need not exist.

        Args:
            journal: the folder.
            cluster: returns one of the present configuration, None for an unknown name.
            publish: asks the gatherer for the rows of a cluster that wait. Never blocks.
        """
        self._journal = journal
        self._cluster = cluster
        self._publish = publish
        self._lock = threading.Lock()
        self._replays = ThreadPoolExecutor(1, thread_name_prefix="past states")
        self._recent: dict[bytes, Future[PastReply]] = {}
        """By request, oldest first; only the newest one may still run."""
        self._newest: tuple[PastRequest, PastReply] | None = None
        """The newest request that is or was replayed, with its newest reply."""
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def span(self) -> tuple[Millis, Millis] | None:
        """Returns the times of the first and the newest observation in the journal; None if there is none."""
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
        if span is None or cluster is None:
            raise UsageError(_NO_JOURNAL)
        if not span[0] <= at_ms <= span[1]:
            raise UsageError(f"at={iso(at_ms)}: the journal holds {iso(span[0])} to {iso(span[1])}")
        request = PastRequest(journal=str(self._journal), cluster=cluster, at_ms=at_ms)
        reply = self._reply(request)
        if reply.state is None:
            raise UsageError(f"at={iso(at_ms)}: {reply.refusal}")
        return reply.state

    def newest(self, name: str) -> StoredCluster:
        """Returns the newest state of a configured cluster, to be continued by a query; errors as of `at`.

        A query that waits for what the job observes asks again: it need not wait as long as quiet rows do.
        """
        span, cluster = self.span(), self._cluster(name)
        if span is None or cluster is None:
            raise UsageError(_NOTHING_TO_CONTINUE)
        self._publish(name)
        request = PastRequest(journal=str(self._journal), cluster=cluster, at_ms=Millis(0), continues=True)
        # A client that no longer waited for it left it.
        self._forget(request, before_ms=Millis(span[1] - _NEWEST_MS))
        reply = self._reply(request, wait_s=NEWEST_WAIT_S)
        self._forget(request)
        if reply.stored is None:
            raise UsageError(f"cluster {name}: {reply.refusal}")
        return reply.stored

    def __enter__(self) -> "PastStates":
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
            replays = [*self._recent.values()]
        if process is not None:
            process.kill()
            # The replay that runs reads the end of the process's output.
            wait(replays, _END_S)
            _end(process)

    def _reply(self, request: PastRequest, wait_s: float = WAIT_S) -> PastReply:
        """Returns the reply to a request, if it is known, or if no other one is replayed and it is known soon."""
        key = REQUESTS.dump_json(request)
        with self._lock:
            if key not in self._recent and all(one.done() for one in self._recent.values()):
                self._newest = (request, PastReply())
                self._recent[key] = self._replays.submit(self._replay, request)
                while len(self._recent) > _RECENT:
                    del self._recent[next(iter(self._recent))]
        known = self._recent.get(key)
        if known is None or not wait([known], wait_s).done:
            assert self._newest is not None, "this request or another one is replayed"
            replayed, progress = self._newest[0], self._newest[1].progress
            upto = "its end" if replayed.continues else iso(replayed.at_ms)
            raise ReplayingError(
                f"the journal is being replayed up to {upto} for {replayed.cluster.name}, "
                f"{100 * progress:.0f} % done: ask again",
                progress,
            )
        if known.result().refusal == _FAILED:
            with self._lock:
                self._recent.pop(key, None)
        return known.result()

    def _forget(self, request: PastRequest, before_ms: Millis | None = None) -> None:
        """Drops the reply to a request for the newest state: it is large, and soon no longer the newest.

        `before_ms`: only if its state is older; None: whatever it is.
        """
        key = REQUESTS.dump_json(request)
        with self._lock:
            known = self._recent.get(key)
            if known is None or not known.done():
                return
            stored = known.result().stored
            if before_ms is None or stored is None or stored.newest_ms < before_ms:
                del self._recent[key]

    def _replay(self, request: PastRequest) -> PastReply:
        try:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(REQUESTS.dump_json(request) + b"\n")
            process.stdin.flush()
            while True:
                # An ended process gives an empty line, which is no reply.
                reply = REPLIES.validate_json(process.stdout.readline())
                self._newest = (request, reply)
                if reply != PastReply(progress=reply.progress):
                    return reply
        except (OSError, ValueError, ValidationError):
            with self._lock:
                ended, self._process = self._process, None
            if ended is not None:
                _end(ended)
            return PastReply(refusal=_FAILED)

    def _started(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._closed:
                raise OSError("the server is closed")
            if self._process is not None and self._process.poll() is not None:
                _end(self._process)
                self._process = None
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "streaming.query.past_replay"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
            return self._process


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    # Leaving the process closes its pipes and waits.
    with contextlib.suppress(OSError), process:
        pass
