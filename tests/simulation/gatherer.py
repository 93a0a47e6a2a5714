"""A Gatherer: what an anonymous follower, a poll a second and probes would record of the simulated quorum.

It sees what the network lets it see: a leader that was replaced unawares answers it as one that leads. Its clock is
its own. Polls and probes are answered when they are, at times after the log that was asked for later.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from connectors.event import (
    EndpointProbed,
    Event,
    LeaderViewPolled,
    LogAdvanced,
    LogEvent,
    NodeEndpoints,
    ObservationFailed,
    QuorumPolled,
)
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import Answer, Connection, ObservationSource, Reason, Resolution
from rules.model.poll import Replica
from streaming.replay.cluster_monitor import Row
from tests.scripts.compaction import snapshot
from tests.simulation.controller import Controller
from tests.simulation.network import Network, Place

ME = 0
OBSERVED_MS = 300_000
"""How long a leader lists an observer that fetches no more."""
ANSWER_RECORDS = 60


@dataclass(slots=True)
class Gatherer:
    """`position` is the next offset to read; `last_epoch` the epoch of the record before it."""

    random: Random
    nodes: list[Controller]
    network: Network
    polls_only: bool = False
    position: int = 0
    last_epoch: int = 0
    leader_epoch: int = 0
    sequence: int = 0
    skew_ms: int = 0
    slow: float = 0.05
    """How likely an answer comes only with the next look."""
    late: list[list[Event]] = field(default_factory=list)
    lates: int = 0
    snapshots: int = 0
    found: Controller | None = None
    """Who answered the newest look as a leader."""

    def look(self, now_ms: int) -> Iterator[Row]:
        """One second's observations."""
        found = self.found = self._leader()
        looks, self.late = self.late, []
        if found is None:
            looks += [
                [self._unseen(sight, node)]
                for node in self.nodes
                for sight in (ObservationSource.LOG, ObservationSource.QUORUM)
            ]
        else:
            if not self.polls_only and found.epoch >= self.leader_epoch:
                self.leader_epoch = found.epoch
                looks += [*self._read(found)]
            self._answered(looks, [self._poll(now_ms, found)])
        if now_ms // 1_000 % 5 == 0:
            for node, endpoint in self.recorded():
                self._answered(looks, [self._probe(node, endpoint)])
        if now_ms // 1_000 % 10 == 1 and not self.polls_only:
            looks += [[self._view(node)] for node in self.nodes if self._reached(node)]
        for events in looks:
            self.sequence += 1
            yield Row(self.sequence, Millis(now_ms + self.skew_ms), events)

    def _answered(self, looks: list[list[Event]], events: list[Event]) -> None:
        late = self.random.random() < self.slow
        self.lates += late
        (self.late if late else looks).append(events)

    @property
    def bootstrap(self) -> tuple[str, ...]:
        return tuple(f"c{node.id}.test:9093" for node in self.nodes)

    def _leader(self) -> Controller | None:
        """Whoever answers as a leader, asked in any order: the newest of them or not."""
        asked = [*self.nodes]
        self.random.shuffle(asked)
        return next((node for node in asked if self._reached(node) and node.leads), None)

    def _reached(self, node: Controller) -> bool:
        return node.up and self.network.open(ME, node.id)

    def _view(self, node: Controller) -> LeaderViewPolled:
        return LeaderViewPolled(
            endpoint=f"c{node.id}.test:9093",
            node=NodeId(node.id),
            this_cluster=True,
            leader_id=None if node.leader is None else NodeId(node.leader),
            leader_epoch=Epoch(node.epoch),
            log=None,
        )

    def _unseen(self, sight: ObservationSource, node: Controller) -> ObservationFailed:
        if not self.network.open(ME, node.id):
            reason = Reason.TIMED_OUT
        else:
            reason = Reason.NO_LEADER if node.up else Reason.REFUSED
        return ObservationFailed(sight=sight, endpoint=f"c{node.id}.test:9093", reason=reason, detail=f"{reason}")

    def _read(self, leader: Controller) -> Iterator[list[Event]]:
        log = leader.log
        if self.position < log.start:
            yield from self._snapshot(leader)
        epoch, end = log.end_of(self.last_epoch)
        if self.position and (epoch != self.last_epoch or end < self.position):
            # DivergingEpoch, though only committed records were read.
            yield [
                ObservationFailed(
                    sight=ObservationSource.LOG,
                    endpoint=str(leader.endpoint),
                    reason=Reason.METADATA_LOST,
                    detail=f"the logs part at offset {end}",
                )
            ]
            self.position = self.last_epoch = 0
            return
        while True:
            end = min(self.position + ANSWER_RECORDS, leader.high_watermark)
            entries = log.entries[self.position : end]
            self.position = max(self.position, end)
            self.last_epoch = log.entries[self.position - 1].epoch if self.position else 0
            events: list[Event] = [entry.event for entry in entries if entry.event is not None]
            known = leader.high_watermark > leader.epoch_start
            yield [
                *events,
                LogAdvanced(
                    last_offset=Offset(self.position - 1) if entries else None,
                    leader_epoch=Epoch(leader.epoch),
                    high_watermark=Offset(leader.high_watermark) if known else None,
                    newest_timestamp_ms=Millis(entries[-1].timestamp_ms) if entries else None,
                ),
            ]
            if self.position >= leader.high_watermark:
                return

    def _snapshot(self, leader: Controller) -> Iterator[list[Event]]:
        self.snapshots += 1
        last = leader.log.entries[leader.log.start - 1]
        records: list[LogEvent] = [
            entry.event for entry in leader.log.entries[: leader.log.start] if entry.event is not None
        ]
        whole = snapshot(records, end_offset=leader.log.start, epoch=last.epoch, timestamp_ms=last.timestamp_ms)
        size = -(-len(whole) // 2)
        for start in range(0, len(whole), size):
            yield [*whole[start : start + size]]
        self.position, self.last_epoch = leader.log.start, last.epoch

    def _poll(self, now_ms: int, leader: Controller) -> QuorumPolled:
        clock = now_ms + leader.skew_ms
        voters = leader.log.voters
        observers = [
            key
            for key, progress in leader.progress.items()
            if key not in leader.log.keys and clock - progress.fetched_at_ms < OBSERVED_MS
        ]
        known = leader.high_watermark > leader.epoch_start
        return QuorumPolled(
            cluster_id="simulated",
            endpoint=str(leader.endpoint),
            leader_id=NodeId(leader.id),
            leader_epoch=Epoch(leader.epoch),
            high_watermark=Offset(leader.high_watermark) if known else None,
            voters=tuple(self._voter(leader, voter.key, clock) for voter in voters),
            observers=tuple(self._row(leader, key, clock) for key in observers),
            nodes=tuple(NodeEndpoints(id=voter.key.id, endpoints=voter.endpoints) for voter in voters),
        )

    def _voter(self, leader: Controller, key: ReplicaKey, clock: int) -> Replica:
        row = self._row(leader, key, clock)
        return replace(row, key=ReplicaKey(id=key.id, directory_id=None)) if leader.log.static else row

    def _row(self, leader: Controller, key: ReplicaKey, clock: int) -> Replica:
        if key == leader.key:
            now = Millis(clock)
            return Replica(key=key, log_end_offset=Offset(len(leader.log)), last_fetch_ms=now, last_caught_up_ms=now)
        progress = leader.progress.get(key)
        if progress is None:
            return Replica(key=key, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None)
        return Replica(
            key=key,
            log_end_offset=Offset(progress.end_offset),
            last_fetch_ms=Millis(progress.fetched_at_ms),
            last_caught_up_ms=Millis(progress.caught_up_at_ms) if progress.caught_up_at_ms else None,
        )

    def recorded(self) -> list[tuple[Controller, Endpoint]]:
        """Each voter where the newest voter set has it."""
        newest = max(self.nodes, key=lambda node: (node.epoch, len(node.log)))
        by_id = {node.id: node for node in self.nodes}
        return [(by_id[voter.key.id], voter.endpoints[0]) for voter in newest.log.voters]

    def _probe(self, node: Controller, endpoint: Endpoint) -> EndpointProbed:
        place = self.network.places.get(endpoint)
        resolution, connection, answer, by = Resolution.RESOLVED, Connection.REFUSED, Answer.NOT_ASKED, None
        if place is Place.NAME_GONE:
            resolution, connection = Resolution.NAME_GONE, Connection.NOT_TRIED
        elif place is Place.TAKEN:
            connection, answer, by = Connection.ACCEPTED, Answer.OTHER_NODE, NodeId(99)
        elif not self.network.open(ME, node.id):
            connection = Connection.TIMED_OUT
        elif node.up and node.endpoint == endpoint and place is None:
            connection, answer, by = Connection.ACCEPTED, Answer.THIS_CLUSTER, NodeId(node.id)
        return EndpointProbed(
            node=NodeId(node.id),
            endpoint=endpoint,
            resolution=resolution,
            addresses=(f"10.0.0.{node.id}",) if resolution is Resolution.RESOLVED else (),
            connection=connection,
            answer=answer,
            answered_by=by,
            detail="",
        )
