"""The views: each controller asked who leads (KIP-595), and the leader what its log begins with (KIP-630).

DescribeQuorum is answered by the leader alone. A Fetch is answered by every controller, in error too, with the leader
and the epoch that it believes in. The leader's answer to a Fetch of offset 0 names its newest snapshot, of which the
header tells up to when it reaches. One request a controller each interval, and one more when the snapshot is a new one.
"""

from connectors.errors import UnseenError
from connectors.event import LeaderViewPolled, SnapshotBegan
from connectors.gather.node_directory import Whereabouts
from connectors.gather.observation_output import Output
from connectors.kafka.client import Address, Client
from connectors.kafka.error_classification import FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
from connectors.kafka.event_loop import Loop
from connectors.kafka.messages import FetchAnswer, SnapshotId, fetch_snapshot, fetched, knock, snapshot_fetched
from connectors.metadata.batches import Batch, scan
from connectors.metadata.decoder import decode
from connectors.observation import Kind
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import LeaderLog, ObservationSource, Reason, Snapshot

_TELLS_ABSENCE = 16
"""The Fetch version that only a Kafka speaks which answers a Fetch of offset 0 with its snapshot (KAFKA-15078, 3.6;
version 15 is also 3.5's)."""
_HEADER_BYTES = 64 * 1024
"""Enough for the first batch of a snapshot: its header, kraft.version and the voters."""
_UNWILLING = frozenset({Reason.UNSUPPORTED, Reason.DENIED, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED})
"""A broker, or a controller that does not let us: asked again only after a while."""
_UNWILLING_S = 60.0
_UNKNOWN_S = 60.0
"""How often a configured address is asked of which nobody says that a controller is there."""
_FIRST_S = 0.5
_FIRST_ROUNDS = 20


class Views:
    """Asks one cluster's controllers. `run` ends only by an exception, and may then be run again."""

    def __init__(self, loop: Loop, client: Client, where: Whereabouts, output: Output, *, interval_ms: int) -> None:
        self._loop = loop
        self._client = client
        self._where = where
        self._output = output
        self._interval_s = interval_ms / 1000
        self._not_before: dict[tuple[Address, NodeId | None], float] = {}
        self._headers: dict[tuple[Address, SnapshotId], Millis] = {}
        """Up to when the newest snapshot of a leader reaches, by its header."""
        self._known = False
        """Whether anybody told where a controller is."""

    async def run(self) -> None:
        """Ask until cancelled.

        Raises:
            Exception: a fault of ours; nothing that a cluster does.
        """
        rounds = 0
        while True:
            started = self._loop.now()
            controllers = self._where.controllers()
            due = [each for each in controllers.items() if started >= self._not_before.get(each, started)]
            self._known = any(node is not None for node in controllers.values())
            await self._loop.gather(self._look(address, node) for address, node in due)
            rounds += 1
            # Until somebody told us of the voters there is more to ask than is known: look again soon.
            pause = self._interval_s if self._known or rounds > _FIRST_ROUNDS else _FIRST_S
            await self._loop.sleep(started + pause - self._loop.now())

    async def _look(self, address: Address, node: NodeId | None) -> None:
        try:
            answer, version = await self._ask(address, node)
            log = None if answer.error else await self._log(address, answer, version)
        except UnseenError as problem:
            if problem.reason is Reason.WRONG_CLUSTER:
                self._say(address, node, this_cluster=False)
            elif problem.reason in _UNWILLING:
                self._not_before[address, node] = self._loop.now() + _UNWILLING_S
            # Why the others do not answer, follower, poll and probe say: a view that is not renewed grows old.
            return
        if node is None:
            self._not_before[address, node] = self._loop.now() + (_UNKNOWN_S if self._known else self._interval_s)
        leader = answer.leader_id
        self._say(
            address,
            node,
            leader=None if leader is None else NodeId(leader),
            epoch=None if answer.leader_epoch is None else Epoch(answer.leader_epoch),
            log=log,
        )

    async def _ask(self, address: Address, node: NodeId | None) -> tuple[FetchAnswer, int]:
        """What it says, and in which version of Fetch. A leader is asked again with its own epoch."""
        answer, version = await self._fetch(address, self._where.leader_epoch)
        wrong_epoch = answer.error in (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH)
        leads = answer.leader_id is not None and node in (answer.leader_id, None)
        if wrong_epoch and leads and answer.leader_epoch is not None:
            return await self._fetch(address, answer.leader_epoch)
        return answer, version

    async def _fetch(self, address: Address, epoch: int) -> tuple[FetchAnswer, int]:
        request = knock(self._where.cluster_id, leader_epoch=epoch)
        answer = fetched(await self._client.ask(address, request, lane=ObservationSource.VIEW))
        return answer, request.API_VERSION or 0

    async def _log(self, address: Address, answer: FetchAnswer, version: int) -> LeaderLog:
        """What a leader's log begins with."""
        snapshot = None
        if answer.snapshot is not None:
            snapshot = Snapshot(
                end_offset=Offset(answer.snapshot.end_offset),
                epoch=Epoch(answer.snapshot.epoch),
                last_contained_timestamp_ms=await self._header(address, answer.snapshot, answer.leader_epoch or 0),
            )
        first = next((batch for batch in scan(answer.records) if isinstance(batch, Batch)), None)
        return LeaderLog(
            start_offset=None if answer.start_offset is None else Offset(answer.start_offset),
            snapshot=snapshot,
            tells_absence=version >= _TELLS_ABSENCE,
            begins_timestamp_ms=None if first is None else Millis(first.base_timestamp),
        )

    async def _header(self, address: Address, snapshot: SnapshotId, leader_epoch: int) -> Millis | None:
        known = self._headers.get((address, snapshot))
        if known is None:
            request = fetch_snapshot(
                cluster_id=self._where.cluster_id,
                leader_epoch=leader_epoch,
                snapshot=snapshot,
                position=0,
                max_bytes=_HEADER_BYTES,
            )
            answer = snapshot_fetched(await self._client.ask(address, request, lane=ObservationSource.VIEW))
            known = None if answer.error else _last_contained(answer.records, snapshot)
            self._headers = {} if known is None else {(address, snapshot): known}
        return known

    def _say(
        self,
        address: Address,
        node: NodeId | None,
        *,
        this_cluster: bool = True,
        leader: NodeId | None = None,
        epoch: Epoch | None = None,
        log: LeaderLog | None = None,
    ) -> None:
        self._output.viewed(
            LeaderViewPolled(
                endpoint=str(address),
                node=node,
                this_cluster=this_cluster,
                leader_id=leader,
                leader_epoch=epoch,
                log=log,
            )
        )


def _last_contained(records: bytes, snapshot: SnapshotId) -> Millis | None:
    """What the header at the beginning of a snapshot says; None where it is none."""
    first = next((batch for batch in scan(records) if isinstance(batch, Batch)), None)
    if first is None:
        return None
    events = decode(
        records[: first.end],
        kind=Kind.SNAPSHOT,
        base_offset=snapshot.end_offset,
        last_offset=0,
        leader_epoch=snapshot.epoch,
        high_watermark=None,
    )
    began = (event for event in events.events() if isinstance(event, SnapshotBegan))
    return next((event.last_contained_timestamp_ms for event in began), None)
