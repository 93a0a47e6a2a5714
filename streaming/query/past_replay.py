"""Replays one cluster's rows of a journal up to any time, from the newest snapshot before it.

The newest state is also given as the blob that the job's checkpoint would hold: a command on another machine continues
it (`--job URL`).

`python -m streaming.query.past_replay` is the process that replays journals for the job's page. It reads a
`PastRequest` from each line of stdin and writes `PastReply`s to stdout. It has the lowest priority of the machine, and
ends when stdin is closed or after some minutes without a request.
"""

import os
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from pydantic import Base64UrlBytes, TypeAdapter

from connectors.errors import KraftwatchError, UsageError
from connectors.observations.point_in_time import AtTime
from connectors.store.journal_reader import JournalReader
from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from rules.formatting import LATEST_MS, iso
from rules.model.identifiers import Millis
from streaming.query.recording import JournalRecording, ReplayedJournal, replayed_recording
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.build_status import job_cluster_status
from streaming.status.cluster_status import ClusterStatus
from streaming.status.event_history import EventHistory
from streaming.status.status_store import ReceivedStatus

_REPORT_EVERY_S = 0.2


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


class PastReplay:
    """One cluster of one journal. Not for use by several threads."""

    def __init__(self, journal: Path, cluster: ClusterSettings) -> None:
        self._recording = JournalRecording(JournalReader(journal), str(journal))
        self._cluster = cluster
        self._events = EventHistory()
        """Of the snapshots, and of the rows that were replayed."""
        self._known_to = -1
        """The newest snapshot of which the events are known."""

    def newest(self) -> ReplayedJournal:
        """Returns what all rows have shown; errors as of `state_at`."""
        one = self._replayed(None, lambda _: None)
        if one is None:
            raise UsageError(f"the journal holds no observation of {self._cluster.name}")
        return one

    def state_at(self, at_ms: Millis, report: Callable[[float], None] = lambda _: None) -> PastState:
        """Returns the state with all rows up to a time; `report` receives how much is replayed, from 0 to 1.

        Raises:
            UsageError: the journal holds no row of the cluster up to that time.
            JournalError: the journal is damaged, or the rows were deleted meanwhile.
        """
        one = self._replayed(at_ms, report)
        if one is None or not one.newest_ms:
            since = "" if one is None or one.held is None else f"; its first one is of {iso(Millis(one.held[0]))}"
            raise UsageError(f"the journal holds no observation of {self._cluster.name} up to {iso(at_ms)}{since}")
        self._learn_events(one, at_ms)
        return self._state(one, at_ms)

    def _replayed(self, at_ms: Millis | None, report: Callable[[float], None]) -> ReplayedJournal | None:
        """Returns the cluster with all rows up to a time, or with all; None if there are none."""
        name, one, begins_ms = self._cluster.name, None, 0
        reported_at = time.monotonic()
        for one, _ in replayed_recording(
            self._recording,
            lambda other: self._cluster if other == name else None,
            from_ms=Millis(LATEST_MS) if at_ms is None else at_ms,
            to_ms=at_ms,
            upto=None if at_ms is None else AtTime(at_ms=at_ms),
            evaluates_from_ms=None,
        ):
            if one.ended:
                break
            begins_ms = begins_ms or one.newest_ms
            if at_ms is not None and (now := time.monotonic()) - reported_at > _REPORT_EVERY_S:
                reported_at = now
                report((one.newest_ms - begins_ms) / max(1, at_ms - begins_ms))
        if one is not None:
            one.monitor.apply((), store=True)
        return one

    def _learn_events(self, one: ReplayedJournal, at_ms: Millis) -> None:
        """Adds the events of a replay up to a time, and of the snapshots before: each has those of its last hour."""
        snapshots = self._recording.reader.snapshots(self._cluster.name, at_ms)
        for snapshot in reversed([*takewhile(lambda each: each.sequence > self._known_to, snapshots)]):
            other = ReplayedJournal(self._cluster)
            if other.begin_with(snapshot):
                self._events.add_all(other.history)
            self._known_to = snapshot.sequence
        self._events.add_all(one.history)

    def _state(self, one: ReplayedJournal, at_ms: Millis) -> PastState:
        quorum, thresholds = one.machine.quorum(), self._cluster.thresholds
        facts = Facts(quorum)
        evaluation = evaluate(facts, thresholds)
        status = job_cluster_status(facts, thresholds, evaluation, taken_at_ms=at_ms, missing=one.missing)
        ended = tuple(one.history.ended_recoveries)
        return PastState(
            shown=ReceivedStatus(status=status, received_at_ms=one.newest_ms, ended_recoveries=ended),
            events=job_cluster_status(Facts(self._events.added_to(quorum)), thresholds, evaluation),
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
            stored = StoredCluster(
                settings=request.cluster, newest_ms=newest.newest_ms, state=newest.monitor.to_bytes()
            )
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
