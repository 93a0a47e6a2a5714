"""A Network that delays, loses and parts, by the seed."""

import heapq
from random import Random
from typing import NamedTuple

from tests.simulation.messages import Message


class Letter(NamedTuple):
    sender: int
    receiver: int
    message: Message


class Network:
    """Letters under way. `islands` parts the nodes: who is on different islands cannot talk."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.loss = 0.0
        self.slow = 0.0
        self.islands: dict[int, int] = {}
        self.one_way: set[tuple[int, int]] = set()
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
