"""A Network that delays and loses messages and can be partitioned, by the seed; the messages between controllers.

Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch: KIP-595, KIP-853.
"""

import heapq
from enum import Enum
from random import Random
from typing import NamedTuple, TypeAlias

from rules.model.identifiers import Endpoint, ReplicaKey
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


class EndpointState(Enum):
    """Why a recorded endpoint does not reach its controller."""

    NAME_NOT_FOUND = "name gone"
    CLOSED = "closed"
    """No process listens there, although the controller runs."""
    TAKEN = "taken"
    """Another node answers there."""


class Envelope(NamedTuple):
    sender: int
    receiver: int
    message: Message


class Network:
    """Messages in transit. Nodes in different `network_partitions` cannot reach each other.

    An endpoint's state affects only new connections, not established ones.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.loss_probability = 0.0
        self.slow_probability = 0.0
        self.network_partitions: dict[int, int] = {}
        self.one_way: set[tuple[int, int]] = set()
        self.endpoint_states: dict[Endpoint, EndpointState] = {}
        self.connected: set[tuple[int, int]] = set()
        self._in_transit: list[tuple[int, int, Envelope]] = []
        self._number = 0

    def send(self, now_ms: int, sender: int, receiver: int, message: Message) -> None:
        if not self.open(sender, receiver) or self.random.random() < self.loss_probability:
            return
        delay = self.random.randint(1, 20)
        if self.slow_probability and self.random.random() < self.slow_probability:
            delay = self.random.randint(100, 3_000)
        self._number += 1
        heapq.heappush(self._in_transit, (now_ms + delay, self._number, Envelope(sender, receiver, message)))

    def connect(self, sender: int, receiver: int, endpoint: Endpoint) -> bool:
        """Returns whether a message to this endpoint reaches its controller, by an established or a new connection."""
        if (sender, receiver) in self.connected:
            return True
        if endpoint in self.endpoint_states:
            return False
        self.connected.add((sender, receiver))
        return True

    def disconnect(self, node: int) -> None:
        """Closes a stopped process's connections."""
        self.connected = {pair for pair in self.connected if node not in pair}

    def open(self, sender: int, receiver: int) -> bool:
        same = self.network_partitions.get(sender, 0) == self.network_partitions.get(receiver, 0)
        return same and (sender, receiver) not in self.one_way

    def next_ms(self) -> int | None:
        return self._in_transit[0][0] if self._in_transit else None

    def take(self) -> Envelope:
        return heapq.heappop(self._in_transit)[2]

    def suspended(self, ms: int) -> None:
        """Moves the times of messages in transit."""
        self._in_transit = [(at_ms + ms, number, envelope) for at_ms, number, envelope in self._in_transit]

    def restore(self) -> None:
        self.loss_probability = self.slow_probability = 0.0
        self.network_partitions.clear()
        self.one_way.clear()
