"""What controllers say to each other: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch (KIP-595, KIP-853)."""

from typing import NamedTuple, TypeAlias

from rules.model.identifiers import ReplicaKey
from tests.simulation.metadata_log import Entry


class Vote(NamedTuple):
    candidate: ReplicaKey
    voter: ReplicaKey
    epoch: int
    last_epoch: int
    end_offset: int
    pre: bool
    """A Pre-Vote (KIP-996): asks whether a vote would be given, and changes nothing."""


class Voted(NamedTuple):
    voter: ReplicaKey
    epoch: int
    granted: bool
    pre: bool


class BeginQuorumEpoch(NamedTuple):
    voter: ReplicaKey
    leader: int
    epoch: int


class EndQuorumEpoch(NamedTuple):
    voter: ReplicaKey
    epoch: int
    successors: tuple[ReplicaKey, ...]
    """Who should stand next: the longest logs first."""


class Fetch(NamedTuple):
    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int


class Fetched(NamedTuple):
    """Records, or where the logs part, or a whole snapshot; from who does not lead only whom it knows as leader."""

    leader: int | None
    epoch: int
    offset: int = 0
    last_epoch: int = 0
    """With `offset`: what was asked. An answer to an older question is dropped."""
    entries: tuple[Entry, ...] = ()
    high_watermark: int = 0
    diverging: tuple[int, int] | None = None
    snapshot: tuple[Entry, ...] | None = None
    served: bool = False


Message: TypeAlias = Vote | Voted | BeginQuorumEpoch | EndQuorumEpoch | Fetch | Fetched
