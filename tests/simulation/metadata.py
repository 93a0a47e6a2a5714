"""Metadata that the active controller writes, as ReplicationControlManager and PartitionChangeBuilder do."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from random import Random

from connectors.observations.log_event import (
    BrokerChanged,
    BrokerUnregistered,
    ElrCleared,
    LogEvent,
    MinInSyncReplicasSet,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
)
from rules.model.identifiers import Endpoint, NodeId, TopicId
from rules.model.membership import BrokerRegistration, FeatureRange
from tests.record_image import Position, RecordImage
from tests.scripts.log_script import supporting
from tests.simulation.controller import SimulatedController

BROKERS = (101, 102, 103)
TOPICS_MAX = 12
MIN_ISR = 2
"""min.insync.replicas. A replica that leaves an ISR of fewer becomes eligible to lead (KIP-966)."""


@dataclass(slots=True)
class MetadataActivity:
    """Writes records that fit the committed records and those of the open transaction (`known`)."""

    random: Random
    faults: frozenset[str]
    now_ms: int
    leader: SimulatedController
    known: RecordImage

    def register_brokers(self) -> None:
        """Registers the initial brokers, all unfenced."""
        for broker in BROKERS:
            self._register(broker, fenced=False)

    def random_change(self) -> None:
        """Changes a broker, a topic or a partition, or nothing, at random."""
        known, dice = self.known, self.random.random() * (0.5 if self.faults else 1.0)
        if dice < 0.06 and len(known.topics) < TOPICS_MAX:
            self._create()
        elif dice < 0.07 and known.topics:
            self._write(TopicRemoved, topic_id=TopicId(self.random.choice(sorted(known.topics))))
        elif dice < 0.08:
            self._write(ElrCleared, topic=self.random.choice([None, *known.topic_names]))
        elif dice < 0.16:
            self._broker(self.random.choice(BROKERS))
        elif dice < 0.4 and known.partitions:
            some = (known.recovering if self.faults else None) or known.partitions
            self._partition(self.random.choice(sorted(some)))

    def repair(self) -> None:
        """Takes one step to a cluster with unfenced brokers and partitions in sync, if it is none."""
        for broker in BROKERS:
            # A broker that began to shut down returns as another process.
            if not self._lives(broker) or self.known.brokers[broker].in_controlled_shutdown:
                self._unfence(broker)
                return
        for partition, one in self.known.partitions.items():
            if one.leader is None:
                self._elect(partition, one, BROKERS)
                return
            if one.isr != one.replicas or one.recovering:
                self._change(partition, one, isr=one.replicas, elr=(), recovering=_ends(one))
                return

    def _write(self, record: Callable[..., LogEvent], **fields: object) -> None:
        self.leader.write_record(self.now_ms, record, **fields)

    def _lives(self, broker: int) -> bool:
        """Whether a broker is registered and not fenced."""
        return broker in self.known.brokers and not self.known.brokers[broker].fenced

    # --- brokers -------------------------------------------------------------------------------------------------

    def _broker(self, broker: int) -> None:
        held = self.known.brokers.get(broker)
        dice = self.random.random()
        if held is None or (held.fenced and dice < 0.5):
            self._register(broker, fenced=True)
        elif held.fenced and dice < 0.6 and not any(broker in one.replicas for one in self.known.partitions.values()):
            self._write(BrokerUnregistered, id=NodeId(broker))
        elif held.fenced:
            self._unfence(broker)
        else:
            leaves = dice < 0.5 and not held.in_controlled_shutdown
            shutdown, fenced = (True, None) if leaves else (None, True)
            self._write(BrokerChanged, id=NodeId(broker), fenced=fenced, in_controlled_shutdown=shutdown)
            self._leave(broker)

    def _register(self, broker: int, *, fenced: bool) -> None:
        """Registers a new incarnation of a broker, fenced until its heartbeats arrive."""
        at = self.leader.at(self.now_ms)
        incarnation = f"b{broker}-{at.leader_epoch}-{at.offset}"
        self._write(BrokerRegistration, **new_broker(broker, incarnation, fenced=fenced, features=supporting(27)))

    def _unfence(self, broker: int) -> None:
        if broker not in self.known.brokers or self.known.brokers[broker].in_controlled_shutdown:
            # A broker that shut down cleanly returns as another incarnation.
            self._register(broker, fenced=False)
        else:
            self._write(BrokerChanged, id=NodeId(broker), fenced=False, in_controlled_shutdown=None)

    def _leave(self, broker: int) -> None:
        """Removes a broker from every ISR; from a small ISR it becomes eligible (KIP-966)."""
        for partition, one in sorted(self.known.partitions.items()):
            if broker not in one.isr:
                continue
            isr = tuple(node for node in one.isr if node != broker)
            small = len(isr) < min(MIN_ISR, len(one.replicas)) and not one.recovering
            elr = (*one.elr, broker) if small and broker not in one.elr else one.elr
            leader = one.leader if one.leader in isr else (isr[0] if isr else None)
            self._change(partition, one, isr=isr, elr=elr, leader=leader)

    # --- partitions ----------------------------------------------------------------------------------------------

    def _create(self) -> None:
        at = self.leader.at(self.now_ms)
        # A name may be reused with another id.
        name = self.random.choice([f"t{at.offset}", "again"])
        topic_id = TopicId(f"id-{at.leader_epoch}-{at.offset}")
        if name in self.known.topic_names:
            return
        replicas = tuple(NodeId(one) for one in self.random.sample(BROKERS, self.random.randint(1, 3)))
        self._write(TopicCreated, topic_id=topic_id, name=name)
        if not self.faults and self.random.random() < 0.8:
            self._write(MinInSyncReplicasSet, topic=name, value=MIN_ISR)
        for number in range(self.random.randint(1, 2)):
            self._write(PartitionSet, **new_partition(topic_id, number, replicas))

    def _partition(self, partition: Position) -> None:
        """Elects a leader for a partition without one; otherwise grows the ISR or changes the leader."""
        one = self.known.partitions[partition]
        living = [node for node in one.replicas if self._lives(node)]
        if one.leader is None or (len(one.replicas) > 1 and self.random.random() < 0.3):
            self._elect(partition, one, living)
        elif one.recovering and "isr-grows" in self.faults and len(one.replicas) > 1:
            self._change(partition, one, isr=one.replicas)
        elif one.recovering and "leader-alone" in self.faults and len(one.replicas) > 1:
            self._change(partition, one, isr=one.isr, leader=next(node for node in one.replicas if node != one.leader))
        else:
            isr = tuple(node for node in one.replicas if node in living or node in one.isr)
            full = len(isr) >= min(MIN_ISR, len(one.replicas))
            # Only its leader alone cannot end RECOVERING, unless it is the only replica there is.
            ends = _ends(one) if isr != one.isr or len(one.replicas) == 1 else None
            self._change(partition, one, isr=isr, elr=() if full else one.elr, recovering=ends)

    def _elect(self, partition: Position, one: PartitionSet, living: Collection[int]) -> None:
        """Elects from the ISR or the ELR cleanly; otherwise elects any live replica uncleanly."""
        eligible = [node for node in (*one.isr, *one.elr) if node in living]
        if eligible and (one.leader is None or self.random.random() < 0.5):
            isr = one.isr or (eligible[0],)
            elr = tuple(node for node in one.elr if node not in isr)
            self._change(partition, one, isr=isr, elr=elr, leader=eligible[0] if eligible[0] in isr else isr[0])
            return
        others = [node for node in one.replicas if node in living and node not in (*one.isr, *one.elr)]
        if others or (not one.isr and not one.elr and living):
            chosen = self.random.choice(others or [node for node in one.replicas if node in living] or [*one.replicas])
            # The record of a further unclean election does not repeat the recovery state.
            recovering = None if one.recovering else True
            self._change(partition, one, isr=(chosen,), elr=(), leader=chosen, recovering=recovering)

    def _change(
        self,
        partition: Position,
        one: PartitionSet,
        *,
        isr: Iterable[int],
        elr: Iterable[int] | None = None,
        leader: int | None = -1,
        recovering: bool | None = None,
    ) -> None:
        """Writes a PartitionChangeRecord with the changed fields only, if there are any."""
        nodes = tuple(NodeId(node) for node in isr)
        eligible = one.elr if elr is None else tuple(elr)
        after = one.leader if leader == -1 else leader
        changed = {
            "isr": None if nodes == one.isr else nodes,
            "elr": None if eligible == one.elr else tuple(NodeId(node) for node in eligible),
            "recovering": recovering,
        }
        if after != one.leader or any(value is not None for value in changed.values()):
            self._write(
                PartitionChanged,
                topic_id=TopicId(partition[0]),
                partition=partition[1],
                replicas=None,
                leader=None if after is None or after == one.leader else NodeId(after),
                leader_set=after != one.leader,
                last_known_elr=self._last_known(one, nodes, eligible, after),
                **changed,
            )

    def _last_known(
        self, one: PartitionSet, isr: tuple[int, ...], elr: tuple[int, ...], leader: int | None
    ) -> tuple[NodeId, ...] | None:
        """Returns the last known leader if no replica is in sync or eligible; None: unchanged."""
        if not isr and not elr and one.leader is not None:
            after: tuple[int, ...] = (one.leader,)
        else:
            after = one.last_known_elr if leader is None else ()
        return None if after == one.last_known_elr else tuple(NodeId(node) for node in after)


def new_broker(broker: int, incarnation: str, *, fenced: bool, features: tuple[FeatureRange, ...]) -> dict[str, object]:
    """Returns the fields of the registration of a broker that starts."""
    return {
        "id": NodeId(broker),
        "incarnation_id": incarnation,
        "endpoints": (Endpoint(listener="PLAINTEXT", host=f"b{broker}.test", port=9092),),
        "fenced": fenced,
        "in_controlled_shutdown": False,
        "features": features,
    }


def new_partition(topic_id: TopicId, number: int, replicas: tuple[NodeId, ...], in_sync: int = 3) -> dict[str, object]:
    """Returns the fields of the record of a new partition, led by its first replica."""
    return {
        "topic_id": topic_id,
        "partition": number,
        "replicas": replicas,
        "isr": replicas[:in_sync],
        "elr": (),
        "leader": replicas[0],
        "partition_leader_epoch": 0,
        "partition_epoch": 0,
        "recovering": False,
    }


def _ends(one: PartitionSet) -> bool | None:
    return False if one.recovering else None
