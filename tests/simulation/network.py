"""A Network: which controllers reach each other. It can be partitioned, loses and delays requests by the seed."""

from enum import Enum
from random import Random

from rules.model.identifiers import Endpoint


class EndpointState(Enum):
    """Why a recorded endpoint does not reach its controller."""

    NAME_NOT_FOUND = "name gone"
    CLOSED = "closed"
    """No process listens there, although the controller runs."""
    TAKEN = "taken"
    """Another node answers there."""


class Network:
    """Nodes in different `network_partitions` cannot reach each other.

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

    def answers(self, sender: int, receiver: int, endpoint: Endpoint) -> bool:
        """Returns whether a request to this endpoint and its answer arrive; connects if there is no connection."""
        if not self.open(sender, receiver) or not self.open(receiver, sender):
            return False
        if (sender, receiver) not in self.connected and endpoint in self.endpoint_states:
            return False
        self.connected.add((sender, receiver))
        return self.random.random() >= self.loss_probability and self.random.random() >= self.loss_probability

    def disconnect(self, node: int) -> None:
        """Closes a stopped process's connections."""
        self.connected = {pair for pair in self.connected if node not in pair}

    def open(self, sender: int, receiver: int) -> bool:
        same = self.network_partitions.get(sender, 0) == self.network_partitions.get(receiver, 0)
        return same and (sender, receiver) not in self.one_way

    def restore(self) -> None:
        self.loss_probability = self.slow_probability = 0.0
        self.network_partitions.clear()
        self.one_way.clear()
