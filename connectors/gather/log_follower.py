"""The log follower: reads `__cluster_metadata-0` from the leader with replica id -1 (KIP-595, KIP-630).

It finds the leader by sending a Fetch to any controller, long-polls the leader, writes committed records
(`commit_buffer`), fetches a snapshot if the log starts after its position, and searches the leader again when a
connection fails or the leader changes. It sends only Fetch and FetchSnapshot, and a DescribeQuorum to a new leader and
to one whose log contradicts what was read: it may lead another quorum with the same cluster id.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from connectors.errors import DamagedLogError, ObservationError
from connectors.gather.commit_buffer import (
    CommitBuffer,
    CommittedRecords,
    FetchPosition,
    SnapshotBuffer,
)
from connectors.gather.node_directory import OTHER_QUORUM, NodeDirectory
from connectors.gather.observation_writer import ObservationWriter, RedactedBatches, failure, redacted_batches
from connectors.kafka.client import Client
from connectors.kafka.cluster_connection import Address
from connectors.kafka.concurrent_query import ConcurrentQuery
from connectors.kafka.error_classification import error_from_code
from connectors.kafka.error_code import NOT_LEADER, ErrorCode
from connectors.kafka.messages import (
    FetchResult,
    describe_quorum_request,
    fetch_request,
    fetch_snapshot_request,
    parse_describe_quorum,
    parse_fetch,
    parse_fetch_snapshot,
)
from rules.model.identifiers import Offset, SnapshotId
from rules.model.monitoring import DamagedBatch, FailedObservation, ObservationSource, Reason

START = FetchPosition(offset=0, epoch=0)
MAX_BYTES = 8 * 1024 * 1024
SNAPSHOT_BYTES = 2 * 1024 * 1024
_MAX_WAIT_MS = 1_000
_MAX_WAIT_OLD_MS = 250
"""Before Fetch v18 the leader does not know the fetcher's high watermark, so its advance does not end a long poll."""
_SEARCH_INTERVAL_S = 1.0
_SEARCH_INITIAL_INTERVAL_S = 0.5
_INITIAL_SEARCHES = 10
_PER_CANDIDATE_S = 0.15
_PERSISTENT_RETRY_S = 5.0
_PERSISTENT = frozenset(
    {Reason.DENIED, Reason.UNSUPPORTED, Reason.WRONG_CLUSTER, Reason.WRONG_PROTOCOL, Reason.NOT_AUTHENTICATED}
)
_SNAPSHOT_REPLACED = frozenset(
    {ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE, ErrorCode.UNKNOWN_SERVER_ERROR}
)
"""Also UNKNOWN_SERVER_ERROR, as which Kafka's own errors arrive: a Fetch says whether the node leads."""
_EMPTY_ROW_S = 1.0
_CHANGES_TOGETHER_S = 1.0
"""After a row with changes the next Fetch waits for the next of these seconds, which are those of all clusters: while
changes keep coming, a row holds those of a second. The first change after a quiet second is read at once.

In a job of many clusters the next Fetch waits for so long after each row, also after one with NoOps only, of which an
idle leader appends two a second: the job has the time to evaluate the changes of the others. It waits from its own
time, so that not all clusters are read at once; and before the Fetch, because the leader ignores MinBytes (4.4.0)."""
_PAUSE_S = 0.25


class LogFollower:
    """Follows one cluster's log. `run` ends only because of a bug, and can then be called again."""

    def __init__(
        self,
        client: Client,
        nodes: NodeDirectory,
        output: ObservationWriter,
        *,
        start: FetchPosition = START,
        one_of_many: bool = False,
    ) -> None:
        """`start` is the position of the first fetch; `one_of_many`: the job has many clusters."""
        self._loop = client.loop
        self._client = client
        self._nodes = nodes
        self._output = output
        self._buffer = CommitBuffer(start)
        self.position = start
        """The position after the last committed batch that was written."""
        self._one_of_many = one_of_many
        self._snapshot: SnapshotBuffer | None = None
        self._snapshot_from: Address | None = None
        self._refused_snapshot: tuple[Address, SnapshotId] | None = None
        """The last one that a leader refused to send."""
        self._torn_snapshot: SnapshotBuffer | None = None
        """One that cannot be read further, because a batch in it is damaged."""
        self._query: ConcurrentQuery[FetchResult] = ConcurrentQuery(client.loop, self._query_leader)
        self._next_search_at = 0.0
        self._searches = 0
        self._last_write_at = 0.0
        self._verified_leader: Address | None = None
        """The leader that leads the gathered quorum, as far as it tells: only its log is read."""
        self._failed_leader: tuple[Address, int] | None = None
        """The last leader that failed to answer, and its epoch."""
        self._wait_ms = _MAX_WAIT_MS
        self._paused_until = self._next_fetch_at = 0.0
        self._damaged_by: Address | None = None
        """The leader of which damaged batches were recorded: what is in them is read again from another one."""
        self._high_watermark: int | None = None
        """The newest one in an answer of a leader."""
        self._other_quorums = nodes.other_quorums

    def pause(self, pause_s: float) -> None:
        """Sends no further request for some seconds from now on; 0 ends a pause."""
        self._paused_until = self._loop.now() + pause_s

    async def run(self) -> None:
        """Follows the log until cancelled."""
        # What the task had taken and not written when it failed is fetched again.
        self._buffer.restart(self.position)
        self._snapshot = None
        while True:
            while self._loop.now() < self._paused_until:
                await self._loop.sleep(_PAUSE_S)
            if (wait_s := self._next_fetch_at - self._loop.now()) > 0:
                await self._loop.sleep(wait_s)
            leader = self._nodes.leader
            if leader is None:
                await self._find_leader()
                continue
            try:
                await self._follow(leader)
            except ObservationError as problem:
                self._write_failure(leader, problem)
                if problem.reason is Reason.INVALID_RESPONSE:
                    self._snapshot = None
                    await self._loop.sleep(_SEARCH_INTERVAL_S)
                self._drop_leader(leader)
            except DamagedLogError as problem:
                self._write_damage(leader, str(problem), problem.damage)
                # The leader may have a newer snapshot since.
                self._torn_snapshot, self._snapshot = self._snapshot, None
                await self._loop.sleep(_SEARCH_INTERVAL_S)

    async def _follow(self, leader: Address) -> None:
        """Fetches once from this leader, after it was found to lead the gathered quorum."""
        if self._other_quorums != self._nodes.other_quorums:
            self._leave_log(leader)
        if leader != self._verified_leader:
            await self._require_this_quorum(leader)
            await self._compare_newest_batch(leader)
            self._verified_leader = leader
        if self._snapshot is not None:
            await self._fetch_snapshot_piece(leader, self._snapshot)
        else:
            await self._fetch(leader)
        self.position = FetchPosition(offset=self._buffer.committed_end, epoch=self._buffer.committed_epoch)

    async def _fetch(self, leader: Address) -> None:
        position = self._buffer.fetch_position(self._nodes.leader_epoch)
        request = fetch_request(
            cluster_id=self._nodes.cluster_id,
            leader_epoch=self._nodes.leader_epoch,
            offset=position.offset,
            last_epoch=position.epoch,
            high_watermark=self._buffer.high_watermark,
            max_wait_ms=self._wait_ms,
            max_bytes=MAX_BYTES,
        )
        response = parse_fetch(
            await self._client.send(
                leader, request, source=ObservationSource.LOG, timeout_ms=self._wait_ms + self._client.timeout_ms
            ),
            leader,
        )
        self._wait_ms = _MAX_WAIT_MS if (request.API_VERSION or 0) >= 18 else _MAX_WAIT_OLD_MS
        if response.error == ErrorCode.UNKNOWN_SERVER_ERROR:
            with suppress(ObservationError):
                # This answer has no high watermark; one about the beginning of the log has.
                self._high_watermark = (await self._query_leader(leader)).high_watermark or self._high_watermark
            why = f"the leader cannot read its log at offset {position.offset} ({ErrorCode(response.error).name})"
            raise DamagedLogError(why, DamagedBatch(offset=Offset(position.offset)))
        if response.error:
            self._refused_snapshot = None
            self._redirect(leader, response)
            return
        if response.diverging is not None or (response.leader_epoch or 0) < self._buffer.committed_epoch:
            # The leader's log lacks what was read: that of another quorum does.
            await self._require_this_quorum(leader)
        self._nodes.update_from_fetch(response)
        self._searches = 0
        self._high_watermark = response.high_watermark or self._high_watermark
        if self._damaged_by not in (None, leader):
            self._read_again(f"{leader} leads now, and {self._damaged_by} had served damaged batches")
            return
        now_ms = round(self._loop.now() * 1000)
        result = await self._loop.work_on(len(response.records), lambda: self._buffer.accept(response, now_ms=now_ms))
        for why, damage in result.damaged:
            self._write_damage(leader, why, damage)
            self._damaged_by = leader
        if result.committed is not None:
            await self._write(result.committed)
        if result.snapshot is not None:
            self._begin_snapshot(result.snapshot, leader)
        if result.lost is not None:
            self._write_failure(leader, ObservationError(Reason.METADATA_LOST, result.lost))
            self._buffer.restart(START)
        if result.pause:
            await self._loop.sleep(_PAUSE_S)

    async def _require_this_quorum(self, leader: Address) -> None:
        """Raises ObservationError if a leader leads another quorum with this cluster id, as far as it tells."""
        try:
            answer = await self._client.send(leader, describe_quorum_request(), source=ObservationSource.LOG)
            polled = parse_describe_quorum(answer, cluster_id=self._nodes.cluster_id, address=leader)
        except ObservationError:
            return
        if not self._nodes.leads_this_quorum(leader, polled):
            raise ObservationError(Reason.WRONG_CLUSTER, OTHER_QUORUM)

    async def _compare_newest_batch(self, leader: Address) -> None:
        """Reads the log from its start if a leader's has another batch where the newest committed one was."""
        newest, epoch = self._buffer.newest, self._nodes.leader_epoch
        # A leader rejects an epoch that is newer than its own.
        if newest is None or self._damaged_by is not None or epoch < newest.leader_epoch:
            return
        request = fetch_request(
            cluster_id=self._nodes.cluster_id,
            leader_epoch=epoch,
            offset=newest.base_offset,
            last_epoch=newest.leader_epoch,
        )
        response = parse_fetch(await self._client.send(leader, request, source=ObservationSource.LOG), leader)
        if (lost := self._buffer.loss_shown_by(response)) is not None:
            self._write_failure(leader, ObservationError(Reason.METADATA_LOST, lost))
            self._buffer.restart(START)

    async def _fetch_snapshot_piece(self, leader: Address, snapshot: SnapshotBuffer) -> None:
        if self._snapshot_from != leader:
            # The same snapshot of another node has the same records but not the same bytes: start again at byte 0.
            snapshot = self._snapshot = SnapshotBuffer(snapshot.snapshot)
            self._snapshot_from = leader
        request = fetch_snapshot_request(
            cluster_id=self._nodes.cluster_id,
            leader_epoch=self._nodes.leader_epoch,
            snapshot=snapshot.snapshot,
            position=snapshot.position,
            max_bytes=SNAPSHOT_BYTES,
        )
        response = parse_fetch_snapshot(await self._client.send(leader, request, source=ObservationSource.LOG))
        if response.error in _SNAPSHOT_REPLACED:
            self._snapshot = None  # replaced by a newer snapshot; the next Fetch response names it
            before, self._refused_snapshot = self._refused_snapshot, (leader, snapshot.snapshot)
            if self._refused_snapshot == before:
                why = f"the leader names this snapshot and does not send it ({ErrorCode(response.error).name})"
                raise DamagedLogError(why, DamagedBatch(snapshot=snapshot.snapshot, position=snapshot.position))
            return
        if response.error in NOT_LEADER:
            self._drop_leader(leader)
            return
        if response.error:
            raise error_from_code(response.error, "FetchSnapshot")
        self._refused_snapshot = None
        batches = await self._loop.work_on(
            len(response.records),
            lambda: snapshot.receive(position=response.position, size=response.size, records=response.records),
        )
        if snapshot.damaged is not None:
            self._write_damage(leader, *snapshot.damaged)
            snapshot.damaged, self._damaged_by = None, leader
        if batches:
            redacted = await self._redacted(batches)
            self._output.write_snapshot_pieces(snapshot.snapshot, snapshot.written, redacted)
            snapshot.written += len(redacted.pieces)
            self._last_write_at = self._loop.now()
        if snapshot.done:
            self._buffer.restart(FetchPosition(offset=snapshot.snapshot.end_offset, epoch=snapshot.snapshot.epoch))
            self._snapshot = None

    def _begin_snapshot(self, snapshot: SnapshotId, leader: Address) -> None:
        """Begins to read a snapshot; a torn one goes on where it is torn, so that its sound part is not read again."""
        torn, self._torn_snapshot = self._torn_snapshot, None
        if torn is not None and (torn.snapshot, self._snapshot_from) == (snapshot, leader):
            self._snapshot = torn
        else:
            self._snapshot, self._snapshot_from = SnapshotBuffer(snapshot), leader

    async def _write(self, records: CommittedRecords) -> None:
        now = self._loop.now()
        if records.batches or now - self._last_write_at >= _EMPTY_ROW_S:
            redacted = await self._redacted(records.batches)
            self._output.write_records(records, redacted)
            self._last_write_at = now
            caught_up = records.high_watermark is not None and records.last_offset + 1 >= records.high_watermark
            if caught_up and self._one_of_many and records.batches:
                self._next_fetch_at = self._loop.now() + _CHANGES_TOGETHER_S
            elif caught_up and redacted.has_records:
                self._next_fetch_at = (self._loop.now() // _CHANGES_TOGETHER_S + 1) * _CHANGES_TOGETHER_S

    def _write_failure(self, address: Address, problem: ObservationError) -> None:
        node = self._nodes.node_at(address)
        self._output.write_failure(failure(ObservationSource.LOG, address, problem, node=node))

    def _write_damage(self, leader: Address, why: str, damage: DamagedBatch) -> None:
        """Reports that the leader serves a damaged batch: it reads its own disk, and TCP has a checksum of its own."""
        node, problem = self._nodes.node_at(leader), ObservationError(Reason.LOG_DAMAGED, why)
        if self._high_watermark is not None:
            damage = replace(damage, high_watermark=Offset(self._high_watermark))
        self._output.write_failure(replace(failure(ObservationSource.LOG, leader, problem, node=node), damage=damage))

    def _leave_log(self, leader: Address) -> None:
        """Reads the log of another quorum from its start: it may be longer than what was read, and have its epoch."""
        self._other_quorums = self._nodes.other_quorums
        if self._buffer.committed_end > 0:
            why = "most controllers follow another quorum with this cluster id, whose log is another one"
            self._write_failure(leader, ObservationError(Reason.METADATA_LOST, why))
        self._buffer.restart(START)
        self._snapshot = None

    def _read_again(self, why: str) -> None:
        failed = FailedObservation(
            source=ObservationSource.LOG,
            endpoint="",
            reason=Reason.RECORDS_KNOWN,
            detail=f"the log is read again: {why}",
        )
        self._output.write_failure(failed)
        self._buffer.restart(START)
        self._damaged_by = None

    async def _redacted(self, batches: bytes) -> RedactedBatches:
        return await self._loop.work_on(len(batches), lambda: redacted_batches(batches))

    def _redirect(self, queried: Address, response: FetchResult) -> None:
        """The node is not the leader, or the sent epoch is old: use the reported leader, else search the leader."""
        before = self._nodes.leader_epoch
        reported = self._nodes.update_from_fetch(response)
        same = reported == queried and self._nodes.leader_epoch == before
        if reported is None or same or self._is_failed(response) or reported in self._nodes.others:
            self._drop_leader(queried)
        else:
            self._nodes.leader = reported

    def _drop_leader(self, leader: Address) -> None:
        self._failed_leader = (leader, self._nodes.leader_epoch)
        self._verified_leader = None
        if self._nodes.leader == leader:
            self._nodes.leader = None

    def _is_failed(self, response: FetchResult) -> bool:
        """Whether a response reports the failed leader: controllers report it until a newer epoch begins."""
        return (
            self._failed_leader is not None
            and (self._nodes.leader_address(response), response.leader_epoch or 0) == self._failed_leader
        )

    def _reports_leader(self, response: FetchResult) -> bool:
        return response.error == ErrorCode.NONE or (
            self._nodes.leader_address(response) is not None and not self._is_failed(response)
        )

    async def _find_leader(self) -> None:
        await self._loop.sleep(self._next_search_at - self._loop.now())
        self._searches += 1
        candidates = self._nodes.candidates()
        interval_s = _SEARCH_INITIAL_INTERVAL_S if self._searches <= _INITIAL_SEARCHES else _SEARCH_INTERVAL_S
        self._next_search_at = self._loop.now() + max(interval_s, _PER_CANDIDATE_S * len(candidates))
        results = await self._query.query(candidates, timeout_s=_SEARCH_INTERVAL_S, accept=self._reports_leader)
        known_epoch = self._nodes.leader_epoch
        self._set_leader(results)
        if self._nodes.leader is not None:
            return
        if self._nodes.leader_epoch > known_epoch:
            # A node that rejects the sent epoch as old does not report whether it leads: retry with the new epoch.
            self._next_search_at = self._loop.now()
            return
        self._next_search_at = max(self._next_search_at, self._loop.now() + _PAUSE_S)
        failures = {address: _no_leader(result) for address, result in results.items()}
        for address, problem in failures.items():
            self._client.ask_another(ObservationSource.LOG, address)
            named = results[address]
            leader_id = named.leader_id if isinstance(named, FetchResult) else None
            failed = failure(ObservationSource.LOG, address, problem, node=self._nodes.named_at(address))
            self._output.write_failure(replace(failed, leader_id=leader_id))
        # Not in the first search: if only brokers are configured, the first poll reports the controllers.
        if self._searches > 1 and all(problem.reason in _PERSISTENT for problem in failures.values()):
            self._next_search_at = self._loop.now() + _PERSISTENT_RETRY_S

    def _set_leader(self, results: Mapping[Address, FetchResult | ObservationError]) -> None:
        failed = {address for address, result in results.items() if isinstance(result, ObservationError)}
        failed -= self._query.pending
        responses = [
            (address, result) for address, result in results.items() if not isinstance(result, ObservationError)
        ]
        # Sorted by epoch, so that the response with the newest epoch determines the leader.
        for address, response in sorted(responses, key=lambda one: one[1].leader_epoch or 0):
            reported = self._nodes.update_from_fetch(response)
            if address in self._nodes.others or reported in self._nodes.others:
                continue
            if response.error == ErrorCode.NONE:
                self._nodes.leader = address
            elif reported is not None and reported not in failed and not self._is_failed(response):
                # Includes a leader that rejects the sent epoch as old: it reports itself.
                self._nodes.leader = reported

    async def _query_leader(self, address: Address) -> FetchResult:
        request = fetch_request(cluster_id=self._nodes.cluster_id, leader_epoch=self._nodes.leader_epoch)
        return parse_fetch(await self._client.send(address, request, source=ObservationSource.LOG), address)


def _no_leader(result: FetchResult | ObservationError) -> ObservationError:
    if isinstance(result, ObservationError):
        return result
    if result.leader_id is None:
        return ObservationError(Reason.NO_LEADER, "the node knows no leader")
    detail = (
        f"the node names node {result.leader_id} as leader of epoch {result.leader_epoch}, "
        "which does not answer kraftwatch"
    )
    return ObservationError(Reason.NO_LEADER, detail)
