"""A Network that delays, loses and parts, by the seed."""

import heapq
from enum import Enum
from random import Random
from typing import NamedTuple

from rules.model.identifiers import Endpoint
from tests.simulation.raft_messages import Message


class Place(Enum):
    """What stands at an endpoint that no longer leads to its controller."""

    NAME_GONE = "name gone"
    CLOSED = "closed"
    """Nobody listens there, though the controller runs."""
    TAKEN = "taken"
    """Another node answers there."""


class Letter(NamedTuple):
    sender: int
    receiver: int
    message: Message


class Network:
    """Letters under way. `islands` parts the nodes: who is on different islands cannot talk.

    Established connections do not ask what stands at an endpoint: only who dials anew finds out.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.loss = 0.0
        self.slow = 0.0
        self.islands: dict[int, int] = {}
        self.one_way: set[tuple[int, int]] = set()
        self.places: dict[Endpoint, Place] = {}
        self.connected: set[tuple[int, int]] = set()
        self._under_way: list[tuple[int, int, Letter]] = []
        self._number = 0

    def send(self, now_ms: int, sender: int, receiver: int, message: Message) -> None:
        if not self.open(sender, receiver) or self.random.random() < self.loss:
            return
        delay = self.random.randint(1, 20)
        if self.slow and self.random.random() < self.slow:
            delay = self.random.randint(100, 3_000)
        self._number += 1
        heapq.heappush(self._under_way, (now_ms + delay, self._number, Letter(sender, receiver, message)))

    def dial(self, sender: int, receiver: int, endpoint: Endpoint) -> bool:
        """Whether a letter to this endpoint reaches its controller: by a connection that stands, or a new one."""
        if (sender, receiver) in self.connected:
            return True
        if endpoint in self.places:
            return False
        self.connected.add((sender, receiver))
        return True

    def hang_up(self, node: int) -> None:
        """A process ended, and its connections with it."""
        self.connected = {pair for pair in self.connected if node not in pair}

    def open(self, sender: int, receiver: int) -> bool:
        same = self.islands.get(sender, 0) == self.islands.get(receiver, 0)
        return same and (sender, receiver) not in self.one_way

    def next_ms(self) -> int | None:
        return self._under_way[0][0] if self._under_way else None

    def take(self) -> Letter:
        return heapq.heappop(self._under_way)[2]

    def heal(self) -> None:
        self.loss = self.slow = 0.0
        self.islands.clear()
        self.one_way.clear()
