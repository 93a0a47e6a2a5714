"""The follower: reads `__cluster_metadata-0` from whoever leads, as nobody (KIP-595, KIP-630).

It finds the leader by asking any controller with a Fetch, long-polls it, hands on what is committed (`tail`),
takes a snapshot when the log no longer reaches back to where it stands, and starts again wherever a connection
or a leader ends. It sends Fetch and FetchSnapshot with replica id -1 and nothing else.
"""

from collections.abc import Mapping
from typing import Any

from connectors.errors import UndecodableError, UnseenError
from connectors.event import ObservationFailed
from connectors.gather.commit_buffer import Release, Resume, SnapshotTail, Tail
from connectors.gather.node_directory import Whereabouts
from connectors.gather.observation_output import Output
from connectors.kafka.client import Address, Client
from connectors.kafka.concurrent_query import Sweep
from connectors.kafka.error_classification import (
    FENCED_LEADER_EPOCH,
    NOT_LEADER_OR_FOLLOWER,
    POSITION_OUT_OF_RANGE,
    SNAPSHOT_NOT_FOUND,
    UNKNOWN_LEADER_EPOCH,
    of_code,
)
from connectors.kafka.event_loop import Loop
from connectors.kafka.messages import (
    FetchAnswer,
    fetch,
    fetch_snapshot,
    fetched,
    snapshot_fetched,
)
from rules.model.monitoring import ObservationSource, Reason

START = Resume(offset=0, epoch=0)
MAX_BYTES = 8 * 1024 * 1024
SNAPSHOT_BYTES = 2 * 1024 * 1024
_MAX_WAIT_MS = 1_000
_MAX_WAIT_OLD_MS = 250
"""Before Fetch v18 the leader does not know our high watermark: the advance alone wakes nobody."""
_SWEEP_S = 1.0
_SWEEP_EAGER_S = 0.5
_EAGER_SWEEPS = 10
_PER_CANDIDATE_S = 0.15
_HOPELESS_S = 5.0
_HOPELESS = frozenset({Reason.DENIED, Reason.UNSUPPORTED, Reason.WRONG_CLUSTER, Reason.NOT_AUTHENTICATED})
_EMPTY_ROW_S = 1.0
_PAUSE_S = 0.25


class Follower:
    """Follows one cluster's log. `run` ends only by an exception, and may then be run again."""

    def __init__(
        self, loop: Loop, client: Client, where: Whereabouts, output: Output, *, start: Resume = START
    ) -> None:
        self._loop = loop
        self._client = client
        self._where = where
        self._output = output
        self._tail = Tail(start)
        self._snapshot: SnapshotTail | None = None
        self._snapshot_from: Address | None = None
        self._sweep: Sweep[FetchAnswer] = Sweep(loop, self._ask_who_leads)
        self._next_sweep_at = 0.0
        self._sweeps = 0
        self._row_at = 0.0
        self._lost: tuple[Address, int] | None = None
        """The leader that failed us last, and its epoch."""
        self._wait_ms = _MAX_WAIT_MS

    @property
    def position(self) -> Resume:
        """Behind the last committed batch that was handed on."""
        return Resume(offset=self._tail.released, epoch=self._tail.released_epoch)

    async def run(self) -> None:
        """Follow until cancelled.

        Raises:
            Exception: a fault of ours; nothing that a cluster does.
        """
        while True:
            leader = self._where.leader
            if leader is None:
                await self._look_for_leader()
                continue
            try:
                if self._snapshot is not None:
                    await self._take_piece(leader, self._snapshot)
                else:
                    await self._read(leader)
            except UnseenError as problem:
                self._output.unseen(_unseen(leader, problem))
                self._lose(leader)
            except UndecodableError as problem:
                self._output.unseen(_unseen(leader, UnseenError(Reason.UNDECODABLE, str(problem))))
                self._snapshot = None
                await self._loop.sleep(_SWEEP_S)

    async def _read(self, leader: Address) -> None:
        request = self._request(self._tail.asks(self._where.leader_epoch), max_wait_ms=self._wait_ms)
        answer = fetched(
            await self._client.ask(
                leader, request, lane=ObservationSource.LOG, timeout_ms=self._wait_ms + self._client.timeout_ms
            )
        )
        self._wait_ms = _MAX_WAIT_MS if (request.API_VERSION or 0) >= 18 else _MAX_WAIT_OLD_MS
        if answer.error:
            self._redirect(leader, answer)
            return
        self._where.heard(answer)
        self._sweeps = 0
        accepted = self._tail.accept(answer, now_ms=round(self._loop.now() * 1000))
        if accepted.release is not None:
            self._hand_on(accepted.release)
        if accepted.snapshot is not None:
            self._snapshot, self._snapshot_from = SnapshotTail(accepted.snapshot), leader
        if accepted.lost is not None:
            self._output.unseen(_unseen(leader, UnseenError(Reason.METADATA_LOST, accepted.lost)))
            self._tail.restart(START)
        if accepted.pause:
            await self._loop.sleep(_PAUSE_S)

    async def _take_piece(self, leader: Address, snapshot: SnapshotTail) -> None:
        if self._snapshot_from != leader:
            # The same id at another node has the same content, but not byte by byte: begin again.
            snapshot = self._snapshot = SnapshotTail(snapshot.snapshot)
            self._snapshot_from = leader
        request = fetch_snapshot(
            cluster_id=self._where.cluster_id,
            leader_epoch=self._where.leader_epoch,
            snapshot=snapshot.snapshot,
            position=snapshot.position,
            max_bytes=SNAPSHOT_BYTES,
        )
        answer = snapshot_fetched(await self._client.ask(leader, request, lane=ObservationSource.LOG))
        if answer.error in (SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE):
            self._snapshot = None  # a newer one took its place: Fetch tells which
            return
        if answer.error in (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH):
            self._lose(leader)
            return
        if answer.error:
            raise of_code(answer.error, "FetchSnapshot")
        batches = snapshot.receive(position=answer.position, size=answer.size, records=answer.records)
        if batches:
            self._output.piece(snapshot.snapshot, snapshot.pieces - 1, batches)
            self._row_at = self._loop.now()
        if snapshot.done:
            self._tail.restart(Resume(offset=snapshot.snapshot.end_offset, epoch=snapshot.snapshot.epoch))
            self._snapshot = None

    def _hand_on(self, release: Release) -> None:
        now = self._loop.now()
        if release.batches or now - self._row_at >= _EMPTY_ROW_S:
            self._output.release(release)
            self._row_at = now

    def _redirect(self, asked: Address, answer: FetchAnswer) -> None:
        """It does not lead (any more), or our epoch is old: go where it points, else ask around."""
        before = self._where.leader_epoch
        hinted = self._where.heard(answer)
        same = hinted == asked and self._where.leader_epoch == before
        if hinted is None or same or self._is_lost(answer):
            self._lose(asked)
        else:
            self._where.leader = hinted

    def _lose(self, leader: Address) -> None:
        self._lost = (leader, self._where.leader_epoch)
        if self._where.leader == leader:
            self._where.leader = None

    def _is_lost(self, answer: FetchAnswer) -> bool:
        """A controller goes on naming a leader that is gone until a newer epoch begins."""
        return self._lost is not None and (self._where.leader_of(answer), answer.leader_epoch or 0) == self._lost

    def _leads(self, answer: FetchAnswer) -> bool:
        return answer.error == 0 or (self._where.leader_of(answer) is not None and not self._is_lost(answer))

    async def _look_for_leader(self) -> None:
        await self._loop.sleep(self._next_sweep_at - self._loop.now())
        self._sweeps += 1
        candidates = self._where.candidates()
        pace = _SWEEP_EAGER_S if self._sweeps <= _EAGER_SWEEPS else _SWEEP_S
        self._next_sweep_at = self._loop.now() + max(pace, _PER_CANDIDATE_S * len(candidates))
        found = await self._sweep.round(candidates, seconds=_SWEEP_S, good=self._leads)
        known_epoch = self._where.leader_epoch
        self._choose(found)
        if self._where.leader is not None:
            return
        if self._where.leader_epoch > known_epoch:
            # Who finds our epoch too old does not say whether it leads: ask again, with the epoch just learned.
            self._next_sweep_at = self._loop.now()
            return
        self._next_sweep_at = max(self._next_sweep_at, self._loop.now() + _PAUSE_S)
        verdicts = {address: _without_leader(verdict) for address, verdict in found.items()}
        for address, problem in verdicts.items():
            self._output.unseen(_unseen(address, problem))
        # Not at once: where brokers alone are configured, the first poll names the controllers.
        if self._sweeps > 1 and all(problem.reason in _HOPELESS for problem in verdicts.values()):
            self._next_sweep_at = self._loop.now() + _HOPELESS_S

    def _choose(self, found: Mapping[Address, FetchAnswer | UnseenError]) -> None:
        failed = {address for address, verdict in found.items() if isinstance(verdict, UnseenError)}
        failed -= self._sweep.pending
        answers = [(address, verdict) for address, verdict in found.items() if not isinstance(verdict, UnseenError)]
        # The newest epoch last: what it says of the leader stands.
        for address, answer in sorted(answers, key=lambda one: one[1].leader_epoch or 0):
            hinted = self._where.heard(answer)
            if answer.error == 0:
                self._where.leader = address
            elif hinted is not None and hinted not in failed and not self._is_lost(answer):
                # A leader that only finds our epoch too old names itself.
                self._where.leader = hinted

    async def _ask_who_leads(self, address: Address) -> FetchAnswer:
        # From the beginning: that is valid whatever the leader's epoch is.
        request = self._request(START, max_wait_ms=0, max_bytes=1)
        return fetched(await self._client.ask(address, request, lane=ObservationSource.LOG))

    def _request(self, behind: Resume, *, max_wait_ms: int, max_bytes: int = MAX_BYTES) -> Any:
        return fetch(
            cluster_id=self._where.cluster_id,
            leader_epoch=self._where.leader_epoch,
            offset=behind.offset,
            last_epoch=behind.epoch,
            high_watermark=self._tail.high_watermark,
            max_wait_ms=max_wait_ms,
            max_bytes=max_bytes,
        )


def _unseen(address: Address, problem: UnseenError) -> ObservationFailed:
    return ObservationFailed(
        sight=ObservationSource.LOG, endpoint=str(address), reason=problem.reason, detail=problem.detail
    )


def _without_leader(verdict: FetchAnswer | UnseenError) -> UnseenError:
    if isinstance(verdict, UnseenError):
        return verdict
    if verdict.leader_id is None:
        return UnseenError(Reason.NO_LEADER, "it knows no leader")
    detail = f"it names node {verdict.leader_id} as leader of epoch {verdict.leader_epoch}, which does not answer us"
    return UnseenError(Reason.NO_LEADER, detail)
