"""The messages between controllers: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch (KIP-595, KIP-853)."""

from typing import NamedTuple, TypeAlias

from rules.model.identifiers import ReplicaKey
from tests.simulation.metadata_log import LogEntry


class VoteRequest(NamedTuple):
    candidate: ReplicaKey
    voter: ReplicaKey
    epoch: int
    last_epoch: int
    end_offset: int
    pre: bool
    """A pre-vote (KIP-996): asks whether the voter would grant its vote, and changes nothing."""


class VoteResponse(NamedTuple):
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
    """The preferred successors, longest logs first."""


class FetchRequest(NamedTuple):
    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int


class FetchResponse(NamedTuple):
    """Records, a diverging epoch, or a whole snapshot; from a non-leader only the leader that it knows."""

    leader: int | None
    epoch: int
    offset: int = 0
    last_epoch: int = 0
    """With `offset`: the position in the request. A response to an older request is dropped."""
    entries: tuple[LogEntry, ...] = ()
    high_watermark: int = 0
    diverging: tuple[int, int] | None = None
    snapshot: tuple[LogEntry, ...] | None = None
    served: bool = False


Message: TypeAlias = VoteRequest | VoteResponse | BeginQuorumEpoch | EndQuorumEpoch | FetchRequest | FetchResponse
