"""The committed voter set (KIP-853) and the replicas that left it."""

from dataclasses import dataclass

from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter of a VotersRecord. Invariant: the first endpoint is the one other voters dial."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterSet:
    """A committed VotersRecord, whole, and where it stands in the log."""

    voters: tuple[Voter, ...]
    offset: Offset
    leader_epoch: Epoch | None
    timestamp_ms: Millis | None

    @property
    def majority(self) -> int:
        """Votes that win an election, and replicas that commit a record."""
        return len(self.voters) // 2 + 1

    @property
    def ids(self) -> frozenset[NodeId]:
        """The voters' node ids."""
        return frozenset(voter.key.id for voter in self.voters)

    @property
    def keys(self) -> frozenset[ReplicaKey]:
        """The voters' (id, directory id) pairs."""
        return frozenset(voter.key for voter in self.voters)

    def by_id(self, node: NodeId) -> Voter | None:
        """The voter with this node id (Kafka allows one directory per id), or None."""
        return next((voter for voter in self.voters if voter.key.id == node), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterRemoval:
    """A replica that a committed VotersRecord no longer lists."""

    key: ReplicaKey
    removed_at_ms: Millis
    """When the gatherer first showed us the set without it."""
