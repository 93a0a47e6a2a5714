"""Elections, voter changes, restarts and partition recoveries in a cluster status."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rules.model.identifiers import Epoch, Millis, NodeId, Offset, ReplicaKey
from streaming.status.voter_types import UtcTime


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionStatus:
    """A LeaderChangeMessage of the metadata log."""

    leader_id: NodeId
    """The elected controller."""
    leader_epoch: Epoch
    """Its leader epoch."""
    voter_ids: tuple[NodeId, ...] = ()
    """The voters of its voter set."""
    granting_voter_ids: tuple[NodeId, ...] = ()
    """The voters that voted for it."""
    offset: Offset
    """Offset of the LeaderChangeMessage."""
    at_ms: Annotated[UtcTime, Field(alias="at")]
    """When it was written, by the controllers' clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeStatus:
    """A VotersRecord of the metadata log, compared with the one before it."""

    added: tuple[ReplicaKey, ...]
    """Voters that it added."""
    removed: tuple[ReplicaKey, ...]
    """Voters that it removed."""
    moved: tuple[NodeId, ...]
    """Voters whose endpoints it changed."""
    leader_epoch: Epoch
    """Leader epoch of its batch."""
    offset: Offset
    """Its offset."""
    at_ms: Annotated[UtcTime, Field(alias="at")]
    """When it was written, by the controllers' clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedReconfigurationStatus:
    """Two consecutive VotersRecords that differ by more than one voter: AddRaftVoter and RemoveRaftVoter change one."""

    at_ms: Millis
    """When the second VotersRecord was written, by the controllers' clock."""
    offset: Offset
    """Offset of the second VotersRecord."""
    before: tuple[NodeId, ...]
    """Node ids of the voters in the first record."""
    after: tuple[NodeId, ...]
    """Node ids of the voters in the second record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStartStatus:
    """The registration that a controller writes at its start."""

    at_ms: Millis
    """When it was written, by the controllers' clock."""
    offset: Offset
    """Offset of the registration."""
    id: NodeId
    """Node id of the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElectionStatus:
    """Unclean leader elections of one topic."""

    topic: str | None
    """Topic name; null where the log does not hold it."""
    topic_id: str
    """Topic id."""
    elections: int
    """Number of elections."""
    first_at_ms: Millis
    """When the first one was written, by the controllers' clock."""
    last_at_ms: Millis
    """When the last one was written, by the controllers' clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveringPartition:
    """A partition whose LeaderRecoveryState is RECOVERING (KIP-704)."""

    topic: str | None
    """Topic name; null where the log does not hold it."""
    topic_id: str
    """Topic id."""
    partition: int
    """Partition number."""
    since_ms: Annotated[UtcTime, Field(alias="since")]
    """When the state was written, by the controllers' clock."""
    since_offset: Offset
    """Offset of the record that set the state."""
    at_least: bool
    """The partition was RECOVERING already at `since`: the beginning is unknown."""
    for_ms: Millis | None
    """Time from `since` to the newest record of the log."""
    leader: NodeId | None
    """Node id of the leader; null where the partition has none."""
    leader_epoch: int | None
    """The partition's leader epoch; null where the log does not hold it."""
    partition_epoch: int | None
    """The partition's partition epoch; null where the log does not hold it."""
    leader_changes: int
    """Number of other leaders since the unclean election."""
    isr: tuple[NodeId, ...]
    """In-sync replicas."""
    replicas: tuple[NodeId, ...]
    """Assigned replicas."""
    replicas_alive: tuple[NodeId, ...]
    """Assigned replicas whose broker is registered and not fenced."""
    previous_isr: tuple[NodeId, ...] | None
    """In-sync replicas before the unclean election; null where the log does not hold them."""
    previous_elr: tuple[NodeId, ...] | None
    """Eligible leader replicas (KIP-966) before the unclean election; null where the log does not hold them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecovery:
    """The recovering partitions of one topic."""

    topic: str | None
    """Topic name; null where the log does not hold it."""
    topic_id: str
    """Topic id."""
    since_ms: Millis
    """Since when the topic's oldest recovering partition is RECOVERING, by the controllers' clock."""
    at_least: bool
    """That partition was RECOVERING already at `since_ms`: the beginning is unknown."""
    partitions: int
    """Number of recovering partitions."""
