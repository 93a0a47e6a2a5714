"""Metadata that the active controller writes, as ReplicationControlManager and PartitionChangeBuilder do."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from connectors.observations.log_event import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ElrCleared,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    RecordPosition,
    TopicCreated,
    TopicRemoved,
)
from rules.model.identifiers import Endpoint, NodeId, TopicId
from rules.model.membership import FeatureRange
from tests.simulation.oracle import Oracle, OraclePartition

BROKERS = (101, 102, 103)
TOPICS_MAX = 12
MIN_ISR = 2
"""A replica that leaves an ISR of fewer than this many becomes eligible to lead (KIP-966)."""


class RecordWriter(Protocol):
    """The active controller, which appends records."""

    def write(self, now_ms: int, event: LogEvent | None) -> None:
        """Appends a record."""

    def at(self, now_ms: int) -> RecordPosition:
        """Returns the position of the next record."""


@dataclass(slots=True)
class MetadataActivity:
    """Writes records that fit the committed records and those of the open transaction (`known`)."""

    random: Random
    faults: frozenset[str] = frozenset()
    created: int = 0

    def register_brokers(self, now_ms: int, writer: RecordWriter) -> None:
        """Registers the initial brokers, all unfenced."""
        for broker in BROKERS:
            self._register(now_ms, writer, broker, fenced=False)

    def random_change(self, now_ms: int, writer: RecordWriter, known: Oracle) -> None:
        """Changes a broker, a topic or a partition, or nothing, at random."""
        dice = self.random.random() * (0.5 if self.faults else 1.0)
        if dice < 0.06 and len(known.topics) < TOPICS_MAX:
            self._create(now_ms, writer, known)
        elif dice < 0.07 and known.topics:
            gone = TopicId(self.random.choice(sorted(known.topics)))
            writer.write(now_ms, TopicRemoved(at=writer.at(now_ms), topic_id=gone))
        elif dice < 0.08:
            topic = self.random.choice([None, *known.topics.values()])
            writer.write(now_ms, ElrCleared(at=writer.at(now_ms), topic=topic))
        elif dice < 0.16:
            self._broker(now_ms, writer, known, self.random.choice(BROKERS))
        elif dice < 0.4 and known.partitions:
            some = (known.recovering if self.faults else None) or known.partitions
            partition = self.random.choice(sorted(some))
            self._partition(now_ms, writer, known, partition)

    def repair(self, now_ms: int, writer: RecordWriter, known: Oracle) -> bool:
        """Takes one step to a cluster with unfenced brokers and partitions in sync; returns False if it is one."""
        for broker in BROKERS:
            if known.brokers.get(broker, ("", True, False))[1]:
                self._unfence(now_ms, writer, known, broker)
                return True
        for partition, one in known.partitions.items():
            if one.leader is None:
                self._elect(now_ms, writer, partition, one, BROKERS)
                return True
            if one.isr != one.replicas or one.recovering:
                self._change(now_ms, writer, partition, one, isr=one.replicas, elr=(), recovering=_ends(one))
                return True
        return False

    # --- brokers -------------------------------------------------------------------------------------------------

    def _broker(self, now_ms: int, writer: RecordWriter, known: Oracle, broker: int) -> None:
        held = known.brokers.get(broker)
        dice = self.random.random()
        if held is None or (held[1] and dice < 0.5):
            self._register(now_ms, writer, broker, fenced=True)
        elif held[1] and dice < 0.6 and not any(broker in one.replicas for one in known.partitions.values()):
            writer.write(now_ms, BrokerUnregistered(at=writer.at(now_ms), id=NodeId(broker)))
        elif held[1]:
            self._unfence(now_ms, writer, known, broker)
        elif dice < 0.5 and not held[2]:
            leaving = BrokerChanged(at=writer.at(now_ms), id=NodeId(broker), fenced=None, in_controlled_shutdown=True)
            writer.write(now_ms, leaving)
            self._leave(now_ms, writer, known, broker)
        else:
            gone = BrokerChanged(at=writer.at(now_ms), id=NodeId(broker), fenced=True, in_controlled_shutdown=None)
            writer.write(now_ms, gone)
            self._leave(now_ms, writer, known, broker)

    def _register(self, now_ms: int, writer: RecordWriter, broker: int, *, fenced: bool) -> None:
        """Registers a new incarnation of a broker, fenced until its heartbeats arrive."""
        at = writer.at(now_ms)
        record = BrokerRegistered(
            at=at,
            id=NodeId(broker),
            incarnation_id=f"b{broker}-{at.leader_epoch}-{at.offset}",
            endpoints=(Endpoint(listener="PLAINTEXT", host=f"b{broker}.test", port=9092),),
            fenced=fenced,
            in_controlled_shutdown=False,
            features=(
                FeatureRange(name="kraft.version", lowest=0, highest=1),
                FeatureRange(name="metadata.version", lowest=7, highest=27),
            ),
        )
        writer.write(now_ms, record)

    def _unfence(self, now_ms: int, writer: RecordWriter, known: Oracle, broker: int) -> None:
        if broker not in known.brokers or known.brokers[broker][2]:
            # A broker that shut down cleanly returns as another incarnation.
            self._register(now_ms, writer, broker, fenced=False)
            return
        back = BrokerChanged(at=writer.at(now_ms), id=NodeId(broker), fenced=False, in_controlled_shutdown=None)
        writer.write(now_ms, back)

    def _leave(self, now_ms: int, writer: RecordWriter, known: Oracle, broker: int) -> None:
        """Removes a broker from every ISR; from a small ISR it becomes eligible (KIP-966)."""
        for partition, one in sorted(known.partitions.items()):
            if broker not in one.isr:
                continue
            isr = tuple(node for node in one.isr if node != broker)
            small = len(isr) < min(MIN_ISR, len(one.replicas)) and not one.recovering
            elr = (*one.elr, broker) if small and broker not in one.elr else one.elr
            leader = one.leader if one.leader in isr else (isr[0] if isr else None)
            self._change(now_ms, writer, partition, one, isr=isr, elr=elr, leader=leader)

    # --- partitions ----------------------------------------------------------------------------------------------

    def _create(self, now_ms: int, writer: RecordWriter, known: Oracle) -> None:
        self.created += 1
        at = writer.at(now_ms)
        # A name may be reused with another id.
        name = self.random.choice([f"t{self.created}", "again"])
        topic_id = TopicId(f"id-{at.leader_epoch}-{at.offset}")
        if name in known.topics.values():
            return
        replicas = tuple(NodeId(one) for one in self.random.sample(BROKERS, self.random.randint(1, 3)))
        writer.write(now_ms, TopicCreated(at=at, topic_id=topic_id, name=name))
        for number in range(self.random.randint(1, 2)):
            record = PartitionSet(
                at=writer.at(now_ms),
                topic_id=topic_id,
                partition=number,
                replicas=replicas,
                isr=replicas,
                elr=(),
                leader=replicas[0],
                partition_leader_epoch=0,
                partition_epoch=0,
                recovering=False,
            )
            writer.write(now_ms, record)

    def _partition(self, now_ms: int, writer: RecordWriter, known: Oracle, partition: tuple[str, int]) -> None:
        """Elects a leader for a partition without one; otherwise grows the ISR or changes the leader."""
        one = known.partitions[partition]
        living = [node for node in one.replicas if not known.brokers.get(node, ("", True, False))[1]]
        if one.leader is None or (len(one.replicas) > 1 and self.random.random() < 0.3):
            self._elect(now_ms, writer, partition, one, living)
        elif one.recovering and "isr-grows" in self.faults and len(one.replicas) > 1:
            self._change(now_ms, writer, partition, one, isr=one.replicas)
        elif one.recovering and "leader-alone" in self.faults and len(one.replicas) > 1:
            other = next(node for node in one.replicas if node != one.leader)
            self._change(now_ms, writer, partition, one, isr=one.isr, leader=other)
        else:
            isr = tuple(node for node in one.replicas if node in living or node in one.isr)
            full = len(isr) >= min(MIN_ISR, len(one.replicas))
            # Only its leader alone cannot end RECOVERING, unless it is the only replica there is.
            ends = _ends(one) if isr != one.isr or len(one.replicas) == 1 else None
            self._change(now_ms, writer, partition, one, isr=isr, elr=() if full else one.elr, recovering=ends)

    def _elect(
        self,
        now_ms: int,
        writer: RecordWriter,
        partition: tuple[str, int],
        one: OraclePartition,
        living: Collection[int],
    ) -> None:
        """Elects from the ISR or the ELR cleanly; otherwise elects any live replica uncleanly."""
        eligible_leaders = [node for node in (*one.isr, *one.elr) if node in living]
        if eligible_leaders and (one.leader is None or self.random.random() < 0.5):
            isr = one.isr or (eligible_leaders[0],)
            elr = tuple(node for node in one.elr if node not in isr)
            self._change(
                now_ms,
                writer,
                partition,
                one,
                isr=isr,
                elr=elr,
                leader=eligible_leaders[0] if eligible_leaders[0] in isr else isr[0],
            )
            return
        others = [node for node in one.replicas if node in living and node not in (*one.isr, *one.elr)]
        if others or (not one.isr and not one.elr and living):
            chosen = self.random.choice(others or [node for node in one.replicas if node in living] or [*one.replicas])
            # The record of a further unclean election does not repeat the recovery state.
            recovering = None if one.recovering else True
            self._change(now_ms, writer, partition, one, isr=(chosen,), elr=(), leader=chosen, recovering=recovering)

    def _change(
        self,
        now_ms: int,
        writer: RecordWriter,
        partition: tuple[str, int],
        one: OraclePartition,
        *,
        isr: Iterable[int],
        elr: Iterable[int] | None = None,
        leader: int | None = -1,
        recovering: bool | None = None,
    ) -> None:
        """Writes a PartitionChangeRecord with the changed fields only."""
        nodes = tuple(NodeId(node) for node in isr)
        eligible = one.elr if elr is None else tuple(elr)
        after = one.leader if leader == -1 else leader
        record = PartitionChanged(
            at=writer.at(now_ms),
            topic_id=TopicId(partition[0]),
            partition=partition[1],
            replicas=None,
            isr=None if nodes == one.isr else nodes,
            elr=None if eligible == one.elr else tuple(NodeId(node) for node in eligible),
            leader=None if after is None or after == one.leader else NodeId(after),
            leader_set=after != one.leader,
            recovering=recovering,
            last_known_elr=self._last_known(one, nodes, eligible, after),
        )
        if record != replace(record, isr=None, elr=None, leader_set=False, recovering=None):
            writer.write(now_ms, record)

    def _last_known(
        self, one: OraclePartition, isr: tuple[int, ...], elr: tuple[int, ...], leader: int | None
    ) -> tuple[NodeId, ...] | None:
        """Returns the last known leader if no replica is in sync or eligible; None: unchanged."""
        if not isr and not elr and one.leader is not None:
            after: tuple[int, ...] = (one.leader,)
        else:
            after = one.last_known_elr if leader is None else ()
        return None if after == one.last_known_elr else tuple(NodeId(node) for node in after)


def _ends(one: OraclePartition) -> bool | None:
    return False if one.recovering else None
