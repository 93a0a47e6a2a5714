"""An Oracle: what committed records come to, kept as dumbly as possible. It shares no line with the replay."""

import copy
from collections import Counter
from dataclasses import dataclass, field

from connectors.event import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ControllerRegistered,
    ElrCleared,
    KRaftVersionSet,
    LeaderChanged,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    VotersSet,
)
from rules.model.identifiers import Endpoint, ReplicaKey


@dataclass(slots=True)
class Partition:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leader: int | None
    recovering: bool
    leader_epoch: int
    """Raised by each change of the leader, to none as well."""
    partition_epoch: int
    """Raised by each change."""
    since: int = -1
    """The offset of the record that made it RECOVERING."""
    before: frozenset[int] = frozenset()
    """Who was in sync before that, and before any further unclean election."""


@dataclass(slots=True)
class Transaction:
    """Begun and not ended: what it holds does not count."""

    offset: int
    epoch: int
    held: list[LogEvent] = field(default_factory=list)


@dataclass(slots=True)
class Oracle:
    """`end` is the next offset to apply."""

    end: int = 0
    kraft_version: int = 0
    voters: frozenset[ReplicaKey] | None = None
    controllers: dict[int, tuple[str, Endpoint]] = field(default_factory=dict)
    brokers: dict[int, tuple[str, bool, bool]] = field(default_factory=dict)
    """Incarnation, fenced, in controlled shutdown."""
    topics: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], Partition] = field(default_factory=dict)
    transaction: Transaction | None = None
    tally: Counter[str] = field(default_factory=Counter)
    """What was committed, and how often."""

    @property
    def recovering(self) -> dict[tuple[str, int], Partition]:
        return {where: one for where, one in self.partitions.items() if one.recovering}

    def as_if_ended(self) -> "Oracle":
        """What would be, did the open transaction end now: what its own writer goes by."""
        if self.transaction is None:
            return self
        other = copy.deepcopy(self)
        for event in self.transaction.held:
            other.count(event)
        return other

    def apply(self, event: LogEvent | None) -> None:
        """The record at `end`."""
        self.end += 1
        match event:
            case None:
                return
            case LeaderChanged():
                self.tally["elections"] += 1
            case KRaftVersionSet():
                self.tally["upgrades to kraft.version 1"] += event.version > self.kraft_version and self.end > 3
                self.kraft_version = event.version
            case VotersSet():
                self.voters = frozenset(voter.key for voter in event.voters)
                self.tally["voter sets"] += 1
            case TransactionBegan():
                self.transaction = Transaction(event.at.offset, event.at.leader_epoch)
            case TransactionEnded():
                self.tally["transactions aborted" if event.aborted else "transactions ended"] += 1
                held, self.transaction = self.transaction, None
                for record in held.held if held and not event.aborted else ():
                    self.count(record)
            case _ if self.transaction is not None:
                self.transaction.held.append(event)
            case _:
                self.count(event)

    def count(self, event: LogEvent) -> None:
        """A record that counts from now on."""
        match event:
            case ControllerRegistered():
                self.controllers[event.id] = (event.incarnation_id, event.endpoints[0])
            case BrokerRegistered():
                self.brokers[event.id] = (event.incarnation_id, event.fenced, event.in_controlled_shutdown)
                self.tally["brokers registered"] += 1
            case BrokerChanged():
                incarnation, fenced, leaving = self.brokers[event.id]
                fenced = fenced if event.fenced is None else event.fenced
                leaving = leaving if event.in_controlled_shutdown is None else event.in_controlled_shutdown
                self.brokers[event.id] = (incarnation, fenced, leaving)
                self.tally["brokers fenced"] += bool(event.fenced)
                self.tally["controlled shutdowns"] += bool(event.in_controlled_shutdown)
            case BrokerUnregistered():
                del self.brokers[event.id]
                self.tally["brokers unregistered"] += 1
            case PartitionChanged():
                self._change(event, self.partitions[event.topic_id, event.partition])
            case _:
                self._topic(event)

    def _topic(self, event: LogEvent) -> None:
        match event:
            case TopicCreated():
                self.topics[event.topic_id] = event.name
                self.tally["topics created"] += 1
            case TopicRemoved():
                del self.topics[event.topic_id]
                self.partitions = {where: one for where, one in self.partitions.items() if where[0] != event.topic_id}
                self.tally["topics removed"] += 1
            case ElrCleared():
                for (topic, _), one in self.partitions.items():
                    if event.topic in (None, self.topics[topic]) and (one.elr or one.last_known_elr):
                        one.elr = one.last_known_elr = ()
                        one.partition_epoch += 1
                self.tally["ELRs cleared"] += 1
            case PartitionSet():
                self.partitions[event.topic_id, event.partition] = Partition(
                    event.replicas,
                    event.isr,
                    event.elr,
                    event.last_known_elr,
                    event.leader,
                    event.recovering,
                    event.partition_leader_epoch,
                    event.partition_epoch or 0,
                )
            case _:
                pass

    def _change(self, event: PartitionChanged, one: Partition) -> None:
        was, isr, elr = one.recovering, one.isr, one.elr
        one.isr = isr if event.isr is None else event.isr
        one.elr = elr if event.elr is None else event.elr
        one.leader = event.leader if event.leader_set else one.leader
        one.last_known_elr = one.last_known_elr if event.last_known_elr is None else event.last_known_elr
        one.leader_epoch += event.leader_set
        one.partition_epoch += 1
        one.recovering = was if event.recovering is None else event.recovering
        if one.recovering and not was:
            one.since, one.before = event.at.offset, frozenset(isr)
            self.tally["unclean elections"] += 1
        elif one.recovering and one.isr and {*isr, *elr} and not {*isr, *elr} & {*one.isr}:
            one.before |= frozenset(isr)
            self.tally["unclean elections"] += 1
        elif was and not one.recovering:
            self.tally["partitions recovered"] += 1
        elif event.leader_set and one.leader in elr and not was:
            self.tally["clean elections from the ELR"] += 1
