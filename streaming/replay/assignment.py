"""Assignment: what the metadata log says about one partition."""

from typing import NamedTuple

from rules.model.identifiers import NodeId


class Assignment(NamedTuple):
    """A partition's replicas, in-sync replicas, eligible leader replicas (KIP-966) and leader.

    Kafka's PartitionRegistration without directories, adding replicas and removing replicas.
    """

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    last_known_elr: tuple[NodeId, ...]
    leader: NodeId | None
    leader_epoch: int | None
    """Raised by every change that sets the leader, also to no leader; None until a PartitionRecord is read."""
    partition_epoch: int | None
    """Raised by every change; None until a PartitionRecord is read."""
