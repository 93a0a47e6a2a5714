"""The committed voter set (KIP-853) and the replicas that left it."""

from dataclasses import dataclass

from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey

MOST_VOTERS = 1_000
"""More voters than any quorum has: a VotersRecord or a poll that names more is refused. Kafka recommends 3 or 5."""


def majority(voters: int) -> int:
    """Returns how many of so many voters win an election and commit a record."""
    return voters // 2 + 1


def tolerated_failures(voters: int) -> int:
    """Returns how many of so many voters may fail while the others are still a majority."""
    return max(0, voters - majority(voters))


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter of a VotersRecord. Invariant: the first endpoint is the one that other voters dial."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterSet:
    """A committed VotersRecord and its place in the log."""

    voters: tuple[Voter, ...]
    offset: Offset
    leader_epoch: Epoch | None
    timestamp_ms: Millis | None

    @property
    def majority(self) -> int:
        """How many votes win an election, and how many replicas commit a record."""
        return majority(len(self.voters))

    @property
    def ids(self) -> frozenset[NodeId]:
        """The voters' node ids."""
        return frozenset(voter.key.id for voter in self.voters)

    @property
    def keys(self) -> frozenset[ReplicaKey]:
        """The voters' (id, directory id) pairs."""
        return frozenset(voter.key for voter in self.voters)

    def by_id(self, node: NodeId) -> Voter | None:
        """Returns the voter with this node id, or None: Kafka allows one directory per id."""
        return next((voter for voter in self.voters if voter.key.id == node), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterRemoval:
    """A replica that a committed VotersRecord no longer lists."""

    key: ReplicaKey
    removed_at_ms: Millis
    """When the gatherer first observed the voter set without it."""
