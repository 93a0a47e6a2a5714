"""Polls each controller's view of the leader (KIP-595), and the start of the leader's log (KIP-630).

Only the leader answers DescribeQuorum. Every controller answers a Fetch, also with an error, and the response contains
the leader and epoch that it knows. The leader's response to a Fetch of offset 0 contains its newest snapshot; the
snapshot's first batch contains the timestamp of its last record, and the voters. One request per controller and
interval, one more for a new snapshot, and a DescribeQuorum to each controller that leads beside the known leader: it
may lead another quorum with the same cluster id.

A configured address that nothing reports may be another name of a controller. The leader's answer shows which one; a
follower is identified by a DescribeConfigs, once a minute.
"""

from collections import Counter

from connectors.errors import ObservationError
from connectors.gather.node_directory import NodeDirectory
from connectors.gather.observation_writer import ObservationWriter, failure
from connectors.kafka.client import Client
from connectors.kafka.cluster_connection import Address
from connectors.kafka.error_code import WRONG_EPOCH
from connectors.kafka.messages import (
    FetchResult,
    describe_node_request,
    describe_quorum_request,
    fetch_request,
    fetch_snapshot_request,
    parse_describe_quorum,
    parse_fetch,
    parse_fetch_snapshot,
    parse_node_id,
)
from connectors.kafka.response_limits import optional
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_snapshot_piece
from connectors.observations.log_event import SnapshotBegan, VotersReplaced
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, ReplicaKey, SnapshotId
from rules.model.membership import majority
from rules.model.monitoring import (
    UNRECORDED_VIEW_EVERY_MS,
    LeaderLog,
    LeaderView,
    ObservationSource,
    Reason,
    Snapshot,
)

_SNAPSHOT_FETCH_VERSION = 16
"""From this Fetch version on, Kafka answers a Fetch of offset 0 with its snapshot (KAFKA-15078, Kafka 3.6; version 15
exists in 3.5 too)."""
_HEADER_BYTES = 64 * 1024
"""Enough for the first batch of a snapshot: header, kraft.version and voters."""
_REFUSED = frozenset(
    {Reason.UNSUPPORTED, Reason.DENIED, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.WRONG_PROTOCOL}
)
"""Answers of a broker, or of a controller that denies access: polled again only after _REFUSED_RETRY_S."""
_PROBED = frozenset({Reason.REFUSED, Reason.UNRESOLVABLE, Reason.RESOLVER_FAILED, Reason.TOO_FEW_DESCRIPTORS})
"""Failures that the endpoint probe reports."""
_REFUSED_RETRY_S = 25.0
"""Shorter than a failure is kept: it must be repeated while it lasts."""
_UNKNOWN_NODE_INTERVAL_S = UNRECORDED_VIEW_EVERY_MS / 1000
"""Poll interval of a configured address that no node reports as a controller's endpoint, unless it disagrees."""
_STARTUP_INTERVAL_S = 0.5
_STARTUP_ROUNDS = 20


class LeaderViewPoll:
    """Polls one cluster's controllers. `run` ends only because of a bug, and can then be called again."""

    def __init__(self, client: Client, nodes: NodeDirectory, output: ObservationWriter, *, interval_ms: int) -> None:
        self._loop = client.loop
        self._client = client
        self._nodes = nodes
        self._output = output
        self._interval_s = interval_ms / 1000
        self._not_before: dict[tuple[Address, NodeId | None], float] = {}
        self._identify_at: dict[Address, float] = {}
        """When the controller at an address that nothing reports is identified again."""
        self._snapshots: dict[tuple[Address, SnapshotId], Snapshot] = {}
        """The leader's newest snapshot, if its first batch could be read."""
        self._controllers_known = False
        """True once the address of a controller was reported."""
        self._answered = False
        """True once a controller answered."""
        self._following_others: Counter[frozenset[ReplicaKey]] = Counter()
        """How many controllers lead or follow the leader of each other quorum, in this round."""

    async def run(self) -> None:
        """Polls until cancelled."""
        rounds = 0
        while True:
            started = self._loop.now()
            controllers = self._nodes.controllers()
            self._not_before = {each: at for each, at in self._not_before.items() if each in controllers.items()}
            due = [each for each in controllers.items() if started >= self._not_before.get(each, started)]
            self._controllers_known = any(node is not None for node in controllers.values())
            self._following_others.clear()
            await self._loop.gather(self._poll(address, node) for address, node in due)
            for voters, following in self._following_others.items():
                if following >= majority(len(controllers)):
                    self._nodes.gather_another_quorum(voters)
            rounds += 1
            # Before the voters are known, more controllers are to be expected: poll again soon.
            pause = self._interval_s if self._controllers_known or rounds > _STARTUP_ROUNDS else _STARTUP_INTERVAL_S
            await self._loop.sleep(started + pause - self._loop.now())

    async def _poll(self, address: Address, node: NodeId | None) -> None:
        try:
            response, version = await self._fetch_view(address, node)
            voters = await self._other_voters(address, leads=not response.error)
            # The log of another quorum is no part of this one's.
            leads_this = not response.error and not voters
            log = await self._leader_log(address, response, version) if leads_this else None
        except ObservationError as problem:
            self._failed(address, node, problem)
            return
        if node is None and self._controllers_known:
            await self._identify(address, response)
        node = self._nodes.node_at(address)
        if node is None and not voters and self._agrees(response):
            self._not_before[address, node] = self._loop.now() + (
                _UNKNOWN_NODE_INTERVAL_S if self._controllers_known else self._interval_s
            )
        self._answered, self._nodes.views_at = True, self._loop.now()
        others = self._nodes.others
        if (other := others.get(address) or others.get(self._nodes.leader_address(response) or address)) is not None:
            self._following_others[other] += 1
        self._output.write_leader_view(
            LeaderView(
                endpoint=str(address),
                node=node,
                this_cluster=True,
                leader_id=response.leader_id,
                leader_epoch=response.leader_epoch,
                log=log,
                other_voters=voters,
            )
        )

    async def _identify(self, address: Address, response: FetchResult) -> None:
        """Notes which controller answers at an address that nothing reports, if its answers show that."""
        if self._loop.now() < self._identify_at.get(address, 0.0):
            return
        self._identify_at[address] = self._loop.now() + _UNKNOWN_NODE_INTERVAL_S
        node = None if response.error else response.leader_id
        if node is None:
            try:
                # Any id will do: a node names its own in the error for another one.
                request = describe_node_request(0)
                answer = await self._client.send(address, request, source=ObservationSource.LEADER_VIEW)
            except ObservationError:
                return
            node = parse_node_id(answer, requested=0)
        if node is not None:
            self._nodes.answered_as(address, node)
        # A load balancer may lead the next connection to another one.
        self._client.disconnect(ObservationSource.LEADER_VIEW, address)

    def _agrees(self, response: FetchResult) -> bool:
        """Returns whether a controller follows the known leader: if not, it is asked again soon."""
        leader, named = self._nodes.leader, self._nodes.leader_address(response)
        same = leader is None or named == leader
        return same and response.leader_id is not None and response.leader_epoch == self._nodes.leader_epoch

    async def _other_voters(self, address: Address, *, leads: bool) -> tuple[ReplicaKey, ...]:
        """Returns the voters of another quorum that a controller leads; none if it leads the gathered one, or none."""
        if not leads:
            self._nodes.others.pop(address, None)
            return ()
        if address not in self._nodes.others and self._nodes.leader == self._nodes.verified == address:
            return ()
        try:
            answer = await self._client.send(address, describe_quorum_request(), source=ObservationSource.LEADER_VIEW)
            polled = parse_describe_quorum(answer, cluster_id=self._nodes.cluster_id, address=address)
        except ObservationError:
            return tuple(sorted(self._nodes.others.get(address, ())))
        own = self._nodes.leads_this_quorum(address, polled)
        return () if own else tuple(sorted(polled.voter_keys))

    def _failed(self, address: Address, node: NodeId | None, problem: ObservationError) -> None:
        """Writes why a controller did not answer; its last view expires."""
        if problem.reason is Reason.WRONG_CLUSTER:
            self._output.write_leader_view(
                LeaderView(
                    endpoint=str(address), node=node, this_cluster=False, leader_id=None, leader_epoch=None, log=None
                )
            )
            return
        if problem.reason in _REFUSED:
            pause = _UNKNOWN_NODE_INTERVAL_S if node is None else _REFUSED_RETRY_S
            self._not_before[address, node] = self._loop.now() + pause
        # A configured address without a node may be a broker's: log follower and quorum poll report what fails there.
        # A monitor without CLUSTER_ACTION is denied by every controller.
        denied_everywhere = problem.reason is Reason.DENIED and not self._answered
        if node is not None and problem.reason not in _PROBED and not denied_everywhere:
            self._output.write_failure(failure(ObservationSource.LEADER_VIEW, address, problem, node=node))

    async def _fetch_view(self, address: Address, node: NodeId | None) -> tuple[FetchResult, int]:
        """Returns the response and the Fetch version. A leader with another epoch is queried again with its epoch."""
        response, version = await self._fetch(address, self._nodes.leader_epoch)
        wrong_epoch = response.error in WRONG_EPOCH
        leads = response.leader_id is not None and node in (response.leader_id, None)
        if wrong_epoch and leads and response.leader_epoch is not None:
            return await self._fetch(address, response.leader_epoch)
        return response, version

    async def _fetch(self, address: Address, epoch: int) -> tuple[FetchResult, int]:
        request = fetch_request(cluster_id=self._nodes.cluster_id, leader_epoch=epoch)
        answer = await self._client.send(address, request, source=ObservationSource.LEADER_VIEW)
        response = parse_fetch(answer, address)
        return response, request.API_VERSION or 0

    async def _leader_log(self, address: Address, response: FetchResult, version: int) -> LeaderLog:
        """Returns the start of the leader's log: start offset, newest snapshot, first timestamp."""
        snapshot = None
        if response.snapshot is not None:
            snapshot = await self._snapshot(address, response.snapshot, response.leader_epoch or 0)
        first = next(scan(response.records), None)
        return LeaderLog(
            start_offset=response.start_offset,
            snapshot=snapshot,
            tells_absence=version >= _SNAPSHOT_FETCH_VERSION,
            begins_timestamp_ms=optional(Millis, first.base_timestamp, "Fetch: base_timestamp")
            if isinstance(first, RecordBatch)
            else None,
        )

    async def _snapshot(self, address: Address, id_: SnapshotId, leader_epoch: int) -> Snapshot:
        known = self._snapshots.get((address, id_))
        if known is not None:
            return known
        request = fetch_snapshot_request(
            cluster_id=self._nodes.cluster_id,
            leader_epoch=leader_epoch,
            snapshot=id_,
            position=0,
            max_bytes=_HEADER_BYTES,
        )
        response = parse_fetch_snapshot(await self._client.send(address, request, source=ObservationSource.LEADER_VIEW))
        snapshot = _described(b"" if response.error else response.records, id_)
        self._snapshots = {} if snapshot.last_contained_timestamp_ms is None else {(address, id_): snapshot}
        return snapshot


def _described(records: bytes, id_: SnapshotId) -> Snapshot:
    """Returns a snapshot as its first batch describes it."""
    first = next(scan(records), None)
    events = (
        [*decode_snapshot_piece(records[: first.end], end_offset=id_.end_offset, epoch=id_.epoch).events()]
        if isinstance(first, RecordBatch)
        else []
    )
    contained = next((event.last_contained_timestamp_ms for event in events if isinstance(event, SnapshotBegan)), None)
    return Snapshot(
        end_offset=Offset(id_.end_offset),
        epoch=Epoch(id_.epoch),
        last_contained_timestamp_ms=optional(Millis, contained, "FetchSnapshot: last_contained_timestamp"),
        voters=next((event.voters for event in events if isinstance(event, VotersReplaced)), None),
    )
