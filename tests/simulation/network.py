"""A Network that delays and loses messages and can be partitioned, by the seed."""

import heapq
from enum import Enum
from random import Random
from typing import NamedTuple

from rules.model.identifiers import Endpoint
from tests.simulation.raft_messages import Message


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
