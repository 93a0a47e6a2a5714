"""A Network: which nodes reach, trust and permit each other. It can be partitioned, loses and delays requests.

Each fact about two nodes is one of an ordered pair: the sender of a request, and its receiver.
"""

from copy import copy
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

    An endpoint's state, a name, a certificate and a login affect only new connections, a denial each request.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.loss_probability = 0.0
        self.slow_probability = 0.0
        self.network_partitions: dict[int, int] = {}
        self.one_way: set[tuple[int, int]] = set()
        self.endpoint_states: dict[Endpoint, EndpointState] = {}
        self.connected: set[tuple[int, int]] = set()
        self.distrusted: set[tuple[int, int]] = set()
        """The sender does not trust the receiver's certificate."""
        self.rejected: set[tuple[int, int]] = set()
        """The receiver does not accept the sender's login."""
        self.denied: set[tuple[int, int]] = set()
        """The receiver's authorizer denies the sender's requests."""
        self.unresolved: set[tuple[int, int]] = set()
        """The resolver of the sender's host does not answer for the receiver's name."""

    def answers(self, sender: int, receiver: int, endpoint: Endpoint) -> bool:
        """Returns whether a request to this endpoint and its answer arrive; connects if there is no connection."""
        if not self.open(sender, receiver) or not self.open(receiver, sender):
            return False
        if (sender, receiver) not in self.connected and not self.connects(sender, receiver, endpoint):
            return False
        self.connected.add((sender, receiver))
        return self.random.random() >= self.loss_probability and self.random.random() >= self.loss_probability

    def connects(self, sender: int, receiver: int, endpoint: Endpoint) -> bool:
        """Returns whether a new connection over an open path would lead to the receiver, with TLS and login."""
        pair = (sender, receiver)
        failing = (self.distrusted, self.rejected, self.unresolved)
        return endpoint not in self.endpoint_states and not any(pair in pairs for pairs in failing)

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

    def restore_access(self) -> None:
        """Makes all nodes trust, permit and resolve each other again."""
        for pairs in (self.distrusted, self.rejected, self.denied, self.unresolved):
            pairs.clear()

    def copied(self, random: Random) -> "Network":
        """Returns a network in the same state, which does not change with this one."""
        copied = copy(self)
        copied.random = random
        for name, state in vars(self).items():
            if isinstance(state, dict | set):
                setattr(copied, name, copy(state))
        return copied
