"""Replays one cluster's rows of a journal to any time, again and again, from the nearest position that it kept.

The state at a position is kept as the blob that the job's checkpoint would hold, so a replay that goes on from it gives
the same state as one from the journal's beginning. The newest state is also given as this blob: a command on another
machine continues it (`--job URL`).

`python -m streaming.status.past_replay` is the process that replays journals for the job's page. It reads a
`PastRequest` from each line of stdin and writes `PastReply`s to stdout. It has the lowest priority of the machine, and
ends when stdin is closed or after some minutes without a request.
"""

import os
import select
import sys
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from pydantic import Base64UrlBytes, TypeAdapter

from connectors.errors import KraftwatchError, UsageError
from connectors.store.journal_reader import JournalReader
from rules.evaluate import evaluate
from rules.formatting import iso
from rules.model.identifiers import Millis
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.build_status import job_cluster_status
from streaming.status.cluster_status import ClusterStatus
from streaming.status.event_history import EventHistory
from streaming.status.recording import JournalRecording, ReplayedJournal, replay_recording
from streaming.status.status_store import ReceivedStatus

KEPT_BYTES = 64 << 20
"""Stored states of one cluster; beyond this, every second one is dropped."""
_KEEP_EVERY_S = 1.0
"""A state is stored after so much time of replaying: storing a large one takes a part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRequest:
    """Asks for the state of a cluster at a time."""

    journal: str
    """The journal's folder."""
    cluster: ClusterSettings
    at_ms: Millis
    continues: bool = False
    """Asks for the state after the newest row instead, so that a query continues it; the time is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastState:
    """The state with every observation up to the time."""

    shown: ReceivedStatus
    """As it was received with the newest observation."""
    events: ClusterStatus
    """The same status, but with all elections, voter changes and starts of the journal that are known so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCluster:
    """The newest state of a cluster in the form of a checkpoint, to be continued. It holds no secret."""

    settings: ClusterSettings
    """With which the job replays and evaluates it."""
    newest_ms: Millis
    """Time of the newest row in it."""
    state: Base64UrlBytes
    """`ClusterMonitor.stored`, readable by a kraftwatch with the same version of this form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastReply:
    """One line of the process: progress, or the result."""

    progress: float = 0.0
    """How much of the journal's time is replayed, from 0 to 1."""
    refusal: str | None = None
    """Why there is no such state, as a sentence."""
    state: PastState | None = None
    """The result, after which no reply follows, as after a refusal."""
    stored: StoredCluster | None = None
    """The result for a request that continues the state."""


REQUESTS: TypeAdapter[PastRequest] = TypeAdapter(PastRequest)
REPLIES: TypeAdapter[PastReply] = TypeAdapter(PastReply)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptState:
    """A stored state."""

    newest_ms: Millis
    """Time of the newest row in it."""
    next_sequence: int
    """The first row that is not in it."""
    blob: bytes


class PastReplay:
    """One cluster of one journal. Not for use by several threads."""

    def __init__(self, journal: Path, cluster: ClusterSettings) -> None:
        self._reader = JournalReader(journal)
        self._cluster = cluster
        self._kept: list[KeptState] = []
        """By time."""
        self._events = EventHistory()
        self._newest: KeptState | None = None
        """The newest state that was asked for to be continued."""

    def newest(self) -> KeptState:
        """Returns the state after the newest row.

        Raises:
            UsageError: the journal holds no row of the cluster.
            JournalError: the journal is damaged.
        """
        name, kept = self._cluster.name, self._newest
        end = self._reader.published_end()
        if kept is None or kept.next_sequence < self._reader.first_sequence():
            recording = JournalRecording(self._reader, str(self._reader.directory))
            states = replay_recording(recording, lambda other: self._cluster if other == name else None)
            if name not in states:
                raise UsageError(f"the journal holds no observation of {name}")
            one = states[name]
        else:
            one = self._restored(kept)
            for row in self._reader.read(kept.next_sequence, end):
                if row.cluster == name:
                    one.apply(row)
        self._newest = KeptState(newest_ms=one.newest_ms, next_sequence=end, blob=one.monitor.to_bytes())
        return self._newest

    def state_at(self, at_ms: Millis, report: Callable[[float], None] = lambda _: None) -> PastState:
        """Returns the state with all rows up to a time; `report` receives how much is replayed, from 0 to 1.

        Raises:
            UsageError: the journal holds no row of the cluster up to that time.
            JournalError: the journal is damaged, or the rows were deleted meanwhile.
        """
        first, end = self._reader.first_sequence(), self._reader.published_end()
        one, start = self._nearest(at_ms, first)
        begins_ms: int | None = one.newest_ms or None
        reported_at = stored_at = time.monotonic()
        sequence = start
        for row in self._reader.read(start, end):
            if row.cluster != self._cluster.name:
                continue
            begins_ms = row.observed_at_ms if begins_ms is None else begins_ms
            if row.observed_at_ms > at_ms:
                break
            one.apply(row)
            sequence = row.sequence + 1
            if row.sequence % 64 == 0 and (now := time.monotonic()) - reported_at > 0.2:
                reported_at = now
                report((one.newest_ms - begins_ms) / max(1, at_ms - begins_ms))
                if now - stored_at > _KEEP_EVERY_S:
                    self._keep(one, sequence)
                    stored_at = time.monotonic()
        if not one.newest_ms:
            since = "" if begins_ms is None else f"; its first one is of {iso(Millis(begins_ms))}"
            raise UsageError(f"the journal holds no observation of {self._cluster.name} up to {iso(at_ms)}{since}")
        self._keep(one, sequence)
        return self._state(one, at_ms)

    def _nearest(self, at_ms: Millis, first: int) -> tuple[ReplayedJournal, int]:
        """Returns the newest kept state up to a time, and the next row."""
        # What follows a position whose rows are deleted can no longer be read.
        self._kept = [one for one in self._kept if one.next_sequence >= first]
        at = bisect_right(self._kept, at_ms, key=lambda one: one.newest_ms) - 1
        found = ReplayedJournal(self._cluster, None, None) if at < 0 else self._restored(self._kept[at])
        found.history = self._events
        return found, first if at < 0 else self._kept[at].next_sequence

    def _restored(self, kept: KeptState) -> ReplayedJournal:
        return ReplayedJournal.restored(kept.blob, self._cluster, kept.newest_ms)

    def _keep(self, one: ReplayedJournal, next_sequence: int) -> None:
        one.monitor.apply((), store=True)
        blob = one.monitor.stored
        assert blob is not None, "the state was stored"
        at = bisect_right(self._kept, next_sequence, key=lambda each: each.next_sequence)
        if at > 0 and self._kept[at - 1].next_sequence == next_sequence:
            return
        self._kept.insert(at, KeptState(newest_ms=one.newest_ms, next_sequence=next_sequence, blob=blob))
        while sum(len(each.blob) for each in self._kept) > KEPT_BYTES and len(self._kept) > 1:
            self._kept = self._kept[::-2][::-1]

    def _state(self, one: ReplayedJournal, at_ms: Millis) -> PastState:
        quorum, thresholds = one.machine.quorum(), self._cluster.thresholds
        evaluation = evaluate(quorum, thresholds)
        ended = tuple(each for each in self._events.ended_recoveries if each.ended_ms <= one.newest_ms)
        status = job_cluster_status(quorum, thresholds, evaluation, taken_at_ms=at_ms, missing=one.missing)
        return PastState(
            shown=ReceivedStatus(status=status, received_at_ms=one.newest_ms, ended_recoveries=ended),
            events=job_cluster_status(self._events.added_to(quorum), thresholds, evaluation),
        )


IDLE_S = 300
"""Without a request for so long the process ends, and with it its memory."""


def main() -> None:
    """Answers requests until there are no more."""
    os.nice(19)
    # Unbuffered: what a buffer held would not be seen by select.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as requests:
        while select.select([requests], [], [], IDLE_S)[0]:
            line = requests.readline()
            if not line:
                return
            _write(_reply(REQUESTS.validate_json(line)))


@lru_cache(maxsize=4)
def _replay_of(of_any_time: bytes) -> PastReplay:
    """Returns the replay that the states of a cluster's requests come from; `of_any_time`: one of them at time 0."""
    request = REQUESTS.validate_json(of_any_time)
    return PastReplay(Path(request.journal), request.cluster)


def _reply(request: PastRequest) -> PastReply:
    try:
        replay = _replay_of(REQUESTS.dump_json(replace(request, at_ms=Millis(0), continues=False)))
        if request.continues:
            newest = replay.newest()
            stored = StoredCluster(settings=request.cluster, newest_ms=newest.newest_ms, state=newest.blob)
            return PastReply(stored=stored)
        state = replay.state_at(request.at_ms, lambda done: _write(PastReply(progress=round(done, 3))))
        return PastReply(state=state)
    except KraftwatchError as problem:
        return PastReply(refusal=str(problem))


def _write(reply: PastReply) -> None:
    sys.stdout.buffer.write(REPLIES.dump_json(reply) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
