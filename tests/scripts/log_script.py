"""A LogScript writes a metadata log, event by event, and divides it into observations, snapshots and polls."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from connectors.observations.log_event import (
    BrokerChanged,
    BrokerUnregistered,
    FeatureLevelSet,
    KRaftVersionSet,
    LeaderChanged,
    LogAdvanced,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    SnapshotBegan,
    SnapshotEnded,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    VotersReplaced,
    ZkMigrationChanged,
)
from connectors.observations.observation import Event
from rules.model.history import ZkMigrationState
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, TopicId
from rules.model.membership import BrokerRegistration, ControllerRegistration, FeatureRange, RecordPosition, Voter
from rules.model.monitoring import (
    ConnectionResult,
    FailedObservation,
    LeaderLog,
    LeaderView,
    ObservationSource,
    Probe,
    ProbeAnswer,
    Reason,
    Resolution,
)
from rules.model.quorum import Quorum
from rules.model.replica import Poll, Replica
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import Machine
from tests.commands import replica_key

START = Millis(1_000_000)
POLL_MS = Millis(50_000)
"""The leader's time in a poll, until a LogScript puts it into an observation."""
RecordT = TypeVar("RecordT", bound=LogEvent)


def ids(*nodes: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(node) for node in nodes)


key = replica_key
"""The key of `2-old`: node 2 with directory id old; of `2`: without one."""


def endpoint(node: int, port: int = 9093) -> Endpoint:
    return Endpoint(listener="CONTROLLER", host=f"c{node}", port=port)


def supporting(metadata_version: int) -> tuple[FeatureRange, ...]:
    """Returns the feature levels that a node up to this metadata.version supports."""
    return (
        FeatureRange(name="kraft.version", lowest=0, highest=1),
        FeatureRange(name="metadata.version", lowest=7, highest=metadata_version),
    )


def voter(name: str, port: int = 9093) -> Voter:
    return Voter(key=key(name), endpoints=(endpoint(key(name).id, port),))


def replica(name: str, end: int | None = 100, fetch: int | None = 0, caught_up: int | None = 0) -> Replica:
    """Returns a row of DescribeQuorum; times are milliseconds before the leader's current time."""
    return Replica(
        key=key(name),
        log_end_offset=None if end is None else Offset(end),
        last_fetch_ms=None if fetch is None else Millis(POLL_MS - fetch),
        last_caught_up_ms=None if caught_up is None else Millis(POLL_MS - caught_up),
    )


def poll(*voters: Replica, leader: int = 1, epoch: int = 1, hw: int | None = None, **more: object) -> Poll:
    polled = Poll(
        cluster_id="cluster-id",
        endpoint="c1:9093",
        leader_id=NodeId(leader),
        leader_epoch=Epoch(epoch),
        high_watermark=None if hw is None else Offset(hw),
        voters=voters,
        observers=(),
        nodes={row.key.id: (endpoint(row.key.id),) for row in voters},
    )
    return replace(polled, **more)  # type: ignore[arg-type]


def failed(
    reason: Reason, place: str = "c1:9093", source: ObservationSource = ObservationSource.LOG
) -> FailedObservation:
    return FailedObservation(source=source, endpoint=place, reason=reason, detail="in words")


def view(node: int, *, leader: int | None = 1, epoch: int = 1, log: LeaderLog | None = None) -> LeaderView:
    """Returns which leader a controller reports."""
    return LeaderView(
        endpoint=f"c{node}:9093",
        node=NodeId(node),
        this_cluster=True,
        leader_id=None if leader is None else NodeId(leader),
        leader_epoch=Epoch(epoch),
        log=log,
    )


def probed(node: int, *addresses: str, where: Endpoint | None = None) -> Probe:
    """Returns a probe of a node's endpoint that answers, or whose name does not resolve: without addresses."""
    return Probe(
        node=NodeId(node),
        endpoint=where or endpoint(node),
        resolution=Resolution.RESOLVED if addresses else Resolution.NAME_NOT_FOUND,
        addresses=addresses,
        connection=ConnectionResult.ACCEPTED if addresses else ConnectionResult.NOT_TRIED,
        answer=ProbeAnswer.THIS_CLUSTER if addresses else ProbeAnswer.NOT_ASKED,
        answered_by=NodeId(node) if addresses else None,
        detail="",
    )


SETTINGS = ClusterSettings(name="test", bootstrap=("c1:9093", "c2:9093", "c3:9093"))


def machine() -> Machine:
    return Machine(SETTINGS)


def again(blob: bytes) -> Machine:
    return Machine(SETTINGS, stored=blob)


def apply(to: Machine, rows: Iterable[DecodedRow]) -> Quorum:
    for row in rows:
        to.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms)
    return to.quorum()


@dataclass
class LogScript:
    """The next record gets `offset` in `epoch` at `now_ms`; observations are one second apart."""

    offset: int = 0
    epoch: int = 1
    now_ms: int = START
    sequence: int = 0
    events: list[LogEvent] = field(default_factory=list)
    """Records that are not read yet."""
    written: list[LogEvent] = field(default_factory=list)
    """Every record."""
    clock_ahead_ms: int = 0
    """How far the leader's clock is ahead of the gatherer's."""

    @property
    def log_ms(self) -> Millis:
        """The time of the leader's clock."""
        return Millis(self.now_ms + self.clock_ahead_ms)

    def at(self) -> RecordPosition:
        at = RecordPosition(offset=Offset(self.offset), leader_epoch=Epoch(self.epoch), timestamp_ms=self.log_ms)
        self.offset += 1
        return at

    def is_registered(self, broker: int) -> bool:
        """Returns whether the newest record of its registration is not its end."""
        ends = (BrokerRegistration, BrokerUnregistered)
        newest = (one for one in reversed(self.written) if isinstance(one, ends) and one.id == broker)
        return isinstance(next(newest, None), BrokerRegistration)

    def write(self, event: RecordT) -> RecordT:
        self.events.append(event)
        self.written.append(event)
        return event

    def leader(
        self, node: int, epoch: int | None = None, *, voters: tuple[int, ...] = (), granted: tuple[int, ...] = ()
    ) -> LeaderChanged:
        self.epoch = self.epoch if epoch is None else epoch
        return self.write(
            LeaderChanged(
                at=self.at(), leader_id=NodeId(node), voter_ids=ids(*voters), granting_voter_ids=ids(*granted)
            )
        )

    def kraft(self, version: int) -> KRaftVersionSet:
        return self.write(KRaftVersionSet(at=self.at(), version=version))

    def voters(self, *voters: str | Voter) -> VotersReplaced:
        """Writes these voters; one that is named listens at its host's port 9093."""
        whole = tuple(voter(each) if isinstance(each, str) else each for each in voters)
        return self.write(VotersReplaced(at=self.at(), voters=whole))

    def feature(self, name: str, level: int) -> FeatureLevelSet:
        return self.write(FeatureLevelSet(at=self.at(), name=name, level=level))

    def controller(
        self,
        node: int,
        port: int = 9093,
        *,
        where: Endpoint | tuple[Endpoint, ...] | None = None,
        incarnation: str | None = None,
        features: tuple[FeatureRange, ...] = (),
    ) -> ControllerRegistration:
        at = self.at()
        return self.write(
            ControllerRegistration(
                at=at,
                id=NodeId(node),
                incarnation_id=incarnation or f"i{self.offset}",
                endpoints=where if isinstance(where, tuple) else (where or endpoint(node, port),),
                features=features,
            )
        )

    def broker(
        self,
        node: int,
        *,
        fenced: bool = True,
        where: tuple[Endpoint, ...] = (),
        incarnation: str | None = None,
        features: tuple[FeatureRange, ...] = (),
        log_dirs: tuple[DirectoryId, ...] = (),
        zookeeper_mode: bool = False,
        rack: str | None = None,
    ) -> BrokerRegistration:
        at = self.at()
        return self.write(
            BrokerRegistration(
                at=at,
                id=NodeId(node),
                incarnation_id=incarnation or f"i{self.offset}",
                endpoints=where or (Endpoint(listener="PLAINTEXT", host=f"b{node}", port=9092),),
                fenced=fenced,
                in_controlled_shutdown=False,
                features=features,
                log_dirs=log_dirs,
                zookeeper_mode=zookeeper_mode,
                rack=rack,
            )
        )

    def broker_change(
        self,
        node: int,
        *,
        fenced: bool | None = None,
        shutdown: bool | None = None,
        log_dirs: tuple[DirectoryId, ...] | None = None,
    ) -> BrokerChanged:
        return self.write(
            BrokerChanged(
                at=self.at(), id=NodeId(node), fenced=fenced, in_controlled_shutdown=shutdown, log_dirs=log_dirs
            )
        )

    def topic(self, name: str) -> TopicCreated:
        return self.write(TopicCreated(at=self.at(), topic_id=TopicId(f"id-of-{name}"), name=name))

    def remove_topic(self, name: str) -> TopicRemoved:
        return self.write(TopicRemoved(at=self.at(), topic_id=TopicId(f"id-of-{name}")))

    def partition(
        self,
        topic: str,
        number: int,
        *replicas: int,
        elr: tuple[int, ...] = (),
        recovering: bool = False,
        directories: tuple[DirectoryId | None, ...] = (),
    ) -> PartitionSet:
        return self.write(
            PartitionSet(
                at=self.at(),
                topic_id=TopicId(f"id-of-{topic}"),
                partition=number,
                replicas=ids(*replicas),
                isr=ids(*replicas),
                elr=ids(*elr),
                leader=NodeId(replicas[0]),
                partition_leader_epoch=0,
                partition_epoch=0,
                recovering=recovering,
                directories=directories,
            )
        )

    def change(
        self,
        topic: str,
        number: int,
        *,
        replicas: tuple[int, ...] | None = None,
        isr: tuple[int, ...] | None = None,
        elr: tuple[int, ...] | None = None,
        last_known_elr: tuple[int, ...] | None = None,
        leader: int | None = None,
        leaderless: bool = False,
        recovering: bool | None = None,
        directories: tuple[DirectoryId | None, ...] | None = None,
        adding: tuple[int, ...] | None = None,
        removing: tuple[int, ...] | None = None,
    ) -> PartitionChanged:
        """Writes what is given; `leaderless`: no replica leads from now on."""
        return self.write(
            PartitionChanged(
                at=self.at(),
                topic_id=TopicId(f"id-of-{topic}"),
                partition=number,
                replicas=None if replicas is None else ids(*replicas),
                isr=None if isr is None else ids(*isr),
                elr=None if elr is None else ids(*elr),
                leader=None if leader is None else NodeId(leader),
                leader_set=leaderless or leader is not None,
                recovering=recovering,
                last_known_elr=None if last_known_elr is None else ids(*last_known_elr),
                directories=directories,
                adding=None if adding is None else ids(*adding),
                removing=None if removing is None else ids(*removing),
            )
        )

    def zk_migration(self, state: str) -> ZkMigrationChanged:
        return self.write(ZkMigrationChanged(at=self.at(), state=ZkMigrationState(state)))

    def begin(self, name: str | None = "t") -> TransactionBegan:
        return self.write(TransactionBegan(at=self.at(), name=name))

    def end(self, *, aborted: bool = False) -> TransactionEnded:
        return self.write(TransactionEnded(at=self.at(), aborted=aborted))

    def noops(self, count: int) -> None:
        self.offset += count

    def advanced(self, high_watermark: int | None) -> LogAdvanced:
        return LogAdvanced(
            last_offset=Offset(self.offset - 1) if self.offset else None,
            leader_epoch=Epoch(self.epoch),
            high_watermark=None if high_watermark is None else Offset(high_watermark),
            newest_timestamp_ms=self.log_ms,
        )

    def row(self, *events: Event, after_ms: int = 1_000) -> DecodedRow:
        """Returns these events as the next observation; the leader's clock shows its time in a poll."""
        self.sequence += 1
        self.now_ms += after_ms
        events = tuple(self._moved(event) if isinstance(event, Poll) else event for event in events)
        return DecodedRow(self.sequence, Millis(self.now_ms), events)

    def _moved(self, polled: Poll) -> Poll:
        def moved(at_ms: Millis | None) -> Millis | None:
            return None if at_ms is None else Millis(at_ms + self.log_ms - POLL_MS)

        def rows(of: tuple[Replica, ...]) -> tuple[Replica, ...]:
            return tuple(
                replace(one, last_fetch_ms=moved(one.last_fetch_ms), last_caught_up_ms=moved(one.last_caught_up_ms))
                for one in of
            )

        return replace(polled, voters=rows(polled.voters), observers=rows(polled.observers))

    def read(self, *, behind: int = 0, after_ms: int = 1_000) -> DecodedRow:
        """Returns the records written since as one observation; the high watermark is `behind` records further."""
        events = (*self.events, self.advanced(self.offset + behind))
        self.events = []
        return self.row(*events, after_ms=after_ms)

    def snapshot(
        self, events: Iterable[LogEvent], *, end_offset: int | None = None, chunks: int = 1
    ) -> list[DecodedRow]:
        """Returns these records (their offsets are ignored) as a snapshot that ends at `end_offset`, in chunks."""
        return [self.row(*chunk) for chunk in self.snapshot_chunks(events, end_offset=end_offset, chunks=chunks)]

    def snapshot_chunks(
        self, events: Iterable[LogEvent], *, end_offset: int | None = None, chunks: int = 1
    ) -> list[list[LogEvent]]:
        """Returns header, records and footer of a snapshot in chunks that are not observed yet."""
        end = Offset(self.offset if end_offset is None else end_offset)
        epoch, last = Epoch(self.epoch), self.log_ms
        place = RecordPosition(offset=Offset(0), leader_epoch=epoch, timestamp_ms=last, snapshot=True)
        inside = [
            replace(event, at=replace(place, offset=Offset(number)))  # type: ignore[arg-type]
            for number, event in enumerate(events, 1)
        ]
        footer_at = replace(place, offset=Offset(len(inside) + 1))
        whole: list[LogEvent] = [
            SnapshotBegan(at=place, end_offset=end, epoch=epoch, last_contained_timestamp_ms=last),
            *inside,
            SnapshotEnded(at=footer_at, end_offset=end, epoch=epoch),
        ]
        size = max(1, -(-len(whole) // chunks))
        return [whole[start : start + size] for start in range(0, len(whole), size)]


def begun() -> tuple[LogScript, Machine]:
    """Returns a log that begins with the election of controller 1, and a machine that has read nothing of it."""
    script = LogScript()
    script.leader(1)
    return script, machine()


def formed_quorum(*names: str) -> tuple[LogScript, Machine]:
    """Returns a log in which controller 1 leads these voters, and a machine that has read nothing of it."""
    script, replay = begun()
    script.kraft(1)
    script.voters(*names)
    return script, replay
