"""An Oracle: what committed records come to, kept as dumbly as possible. It shares no line with the replay."""

from dataclasses import dataclass, field

from connectors.event import (
    BrokerChanged,
    BrokerRegistered,
    ControllerRegistered,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    VotersSet,
)
from rules.quorum import ReplicaKey


@dataclass(slots=True)
class Partition:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    recovering: bool


@dataclass(slots=True)
class Oracle:
    """`end` is the next offset to apply."""

    end: int = 0
    voters: frozenset[ReplicaKey] | None = None
    controllers: dict[int, str] = field(default_factory=dict)
    brokers: dict[int, tuple[str, bool]] = field(default_factory=dict)
    partitions: dict[tuple[str, int], Partition] = field(default_factory=dict)

    @property
    def recovering(self) -> set[tuple[str, int, tuple[int, ...], int | None]]:
        return {(*where, one.isr, one.leader) for where, one in self.partitions.items() if one.recovering}

    def apply(self, event: LogEvent | None) -> None:
        self.end += 1
        match event:
            case VotersSet():
                self.voters = frozenset(voter.key for voter in event.voters)
            case ControllerRegistered():
                self.controllers[event.id] = event.incarnation_id
            case BrokerRegistered():
                self.brokers[event.id] = (event.incarnation_id, event.fenced)
            case BrokerChanged():
                incarnation, fenced = self.brokers[event.id]
                self.brokers[event.id] = (incarnation, fenced if event.fenced is None else event.fenced)
            case PartitionSet():
                self.partitions[event.topic_id, event.partition] = Partition(
                    event.replicas, event.isr, event.leader, event.recovering
                )
            case PartitionChanged():
                one = self.partitions[event.topic_id, event.partition]
                one.isr = one.isr if event.isr is None else event.isr
                one.leader = event.leader if event.leader_set else one.leader
                one.recovering = one.recovering if event.recovering is None else event.recovering
            case _:
                pass
