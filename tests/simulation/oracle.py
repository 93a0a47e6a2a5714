"""An Oracle: a simple reference for the state after the committed records. It shares no code with the replay."""

import copy
from dataclasses import dataclass, field, fields

from connectors.observations.log_event import (
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
    VotersReplaced,
)
from rules.model.identifiers import Endpoint, ReplicaKey
from rules.model.membership import FeatureRange


@dataclass(slots=True)
class OraclePartition:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leader: int | None
    recovering: bool
    leader_epoch: int
    """Raised by each change of the leader, also to no leader."""
    partition_epoch: int
    """Raised by each change."""
    since: int = -1
    """The offset of the record that made it RECOVERING."""
    before: frozenset[int] = frozenset()
    """The in-sync replicas before that, and before any further unclean election."""


@dataclass(slots=True)
class OracleTransaction:
    """An open transaction: its records do not count yet."""

    offset: int
    epoch: int
    held: list[LogEvent] = field(default_factory=list)


@dataclass(slots=True)
class Oracle:
    """`end` is the next offset to apply."""

    end: int = 0
    kraft_version: int = 0
    voters: frozenset[ReplicaKey] | None = None
    features: dict[tuple[str, int], tuple[FeatureRange, ...]] = field(default_factory=dict)
    """The feature levels that a node supports, by role and node id."""
    controllers: dict[int, tuple[str, Endpoint]] = field(default_factory=dict)
    brokers: dict[int, tuple[str, bool, bool]] = field(default_factory=dict)
    """Incarnation, fenced, in controlled shutdown."""
    topics: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], OraclePartition] = field(default_factory=dict)
    transaction: OracleTransaction | None = None

    @property
    def recovering(self) -> dict[tuple[str, int], OraclePartition]:
        return {key: one for key, one in self.partitions.items() if one.recovering}

    def reset(self) -> None:
        """Forgets all records, in place."""
        empty = Oracle()
        for each in fields(empty):
            setattr(self, each.name, getattr(empty, each.name))

    def with_transaction_applied(self) -> "Oracle":
        """Returns the state as if the open transaction ended now: the active controller's own view."""
        if self.transaction is None:
            return self
        other = copy.deepcopy(self)
        for event in self.transaction.held:
            other.apply_effective(event)
        return other

    def apply(self, event: LogEvent | None) -> None:
        """Applies the record at `end`."""
        self.end += 1
        match event:
            case None | LeaderChanged():
                return
            case KRaftVersionSet():
                self.kraft_version = event.version
            case VotersReplaced():
                self.voters = frozenset(voter.key for voter in event.voters)
            case TransactionBegan():
                self.transaction = OracleTransaction(event.at.offset, event.at.leader_epoch)
            case TransactionEnded():
                held, self.transaction = self.transaction, None
                for record in held.held if held and not event.aborted else ():
                    self.apply_effective(record)
            case _ if self.transaction is not None:
                self.transaction.held.append(event)
            case _:
                self.apply_effective(event)

    def apply_effective(self, event: LogEvent) -> None:
        """Applies a record that is not held in a transaction."""
        match event:
            case ControllerRegistered():
                self.controllers[event.id] = (event.incarnation_id, event.endpoints[0])
                self.features["controller", event.id] = event.features
            case BrokerRegistered():
                self.features["broker", event.id] = event.features
                self.brokers[event.id] = (event.incarnation_id, event.fenced, event.in_controlled_shutdown)
            case BrokerChanged():
                incarnation, fenced, leaving = self.brokers[event.id]
                fenced = fenced if event.fenced is None else event.fenced
                leaving = leaving if event.in_controlled_shutdown is None else event.in_controlled_shutdown
                self.brokers[event.id] = (incarnation, fenced, leaving)
            case BrokerUnregistered():
                del self.brokers[event.id]
                del self.features["broker", event.id]
            case PartitionChanged():
                self._change(event, self.partitions[event.topic_id, event.partition])
            case _:
                self._topic(event)

    def _topic(self, event: LogEvent) -> None:
        match event:
            case TopicCreated():
                self.topics[event.topic_id] = event.name
            case TopicRemoved():
                del self.topics[event.topic_id]
                self.partitions = {key: one for key, one in self.partitions.items() if key[0] != event.topic_id}
            case ElrCleared():
                for (topic, _), one in self.partitions.items():
                    if event.topic in (None, self.topics[topic]) and (one.elr or one.last_known_elr):
                        one.elr = one.last_known_elr = ()
                        one.partition_epoch += 1
            case PartitionSet():
                self.partitions[event.topic_id, event.partition] = OraclePartition(
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

    def _change(self, event: PartitionChanged, one: OraclePartition) -> None:
        was, isr, elr, led_last = one.recovering, one.isr, one.elr, one.last_known_elr
        one.isr = isr if event.isr is None else event.isr
        one.elr = elr if event.elr is None else event.elr
        one.leader = event.leader if event.leader_set else one.leader
        one.last_known_elr = one.last_known_elr if event.last_known_elr is None else event.last_known_elr
        one.leader_epoch += event.leader_set
        one.partition_epoch += 1
        one.recovering = was if event.recovering is None else event.recovering
        if one.recovering and not was:
            one.since, one.before = event.at.offset, frozenset(isr)
        elif one.recovering and one.isr and (held := {*isr, *elr} or {*led_last}) and not held & {*one.isr}:
            one.before |= frozenset(isr)
