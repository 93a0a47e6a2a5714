"""Identifiers of nodes, directories and topics; offsets, epochs and times; addresses; patterns of names."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import NewType, TypeAlias

NodeId = NewType("NodeId", int)
"""A controller's or broker's `node.id`."""


Epoch = NewType("Epoch", int)
"""A leader epoch (Raft's term)."""


Offset = NewType("Offset", int)
"""A position in `__cluster_metadata-0`."""


LogEnd: TypeAlias = tuple[Epoch, Offset]
"""Where a log ends, compared as an election compares logs: epoch first."""


DirectoryId = NewType("DirectoryId", str)
"""The UUID of a log directory (KIP-853, KIP-858), 22 characters of URL-safe base64 as Kafka prints it."""


TopicId = NewType("TopicId", str)
"""A topic's UUID, 22 characters of URL-safe base64 as Kafka prints it."""


Millis = NewType("Millis", int)
"""Milliseconds: since the Unix epoch if the name ends in `_at_ms` or `timestamp_ms`, else a duration."""


START = Millis(0)
"""Before every observation."""


def host_and_port(host: str, port: int) -> str:
    """Returns HOST:PORT as Kafka writes and reads it: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """Returns the host of a HOST:PORT, without brackets."""
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Endpoint:
    """A listener's advertised address."""

    listener: str
    """Name of the listener."""
    host: str
    """Host name or IP address."""
    port: int
    """Port."""
    protocol: str | None = field(default=None, compare=False)
    """The security protocol, such as SASL_SSL: registrations contain it, VotersRecord and DescribeQuorum do not."""

    def __str__(self) -> str:
        """Returns HOST:PORT, as Kafka's tools take it."""
        return host_and_port(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether it leads each host to itself: localhost, or a loopback address."""
        with suppress(ValueError):
            return ip_address(self.host).is_loopback
        return self.host.lower().rstrip(".") == "localhost"

    def same_address(self, other: "Endpoint") -> bool:
        """Returns whether both are one host and port; DNS compares names without regard to case."""
        return (self.host.lower(), self.port) == (other.host.lower(), other.port)


def at_listener(endpoints: Iterable[Endpoint], listener: str) -> Endpoint | None:
    """Returns the endpoint of a listener, whose name Kafka compares without regard to case; None if there is none."""
    return next((endpoint for endpoint in endpoints if endpoint.listener.lower() == listener.lower()), None)


def in_dial_order(endpoints: tuple[Endpoint, ...], registered: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """Returns a controller's endpoints with the one that other controllers dial first.

    Controllers dial the first of `controller.listener.names`. A registration lists its listeners in that order (Kafka's
    ListenerInfo). VotersRecord and DescribeQuorum list them in any order (the HashMap in Kafka's Endpoints). So does a
    registration in a snapshot (the HashMap in ControllerRegistration), which therefore does not give the order.

    `registered`: the endpoints of its newest registration, or of another controller's if it has none.
    """
    if len(endpoints) < 2:
        return endpoints
    order = {endpoint.listener.lower(): index for index, endpoint in enumerate(registered)}
    return tuple(sorted(endpoints, key=lambda one: order.get(one.listener.lower(), len(order))))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotId:
    """Identifies a `.checkpoint`: it covers all offsets below `end_offset`; its last record has epoch `epoch`."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaKey:
    """The identity of a replica (KIP-853): a node id *and* the directory id of its log; None before Kafka 3.9.

    Sorted by both; a key without a directory id comes before those with one.
    """

    id: NodeId
    """Node id."""
    directory_id: DirectoryId | None = None
    """Directory id as Kafka prints it; none in a static quorum."""

    def __lt__(self, other: "ReplicaKey") -> bool:
        """Returns whether this key is sorted before the other one: lists from Kafka may mix both kinds of keys."""
        return (self.id, self.directory_id or "") < (other.id, other.directory_id or "")

    def __str__(self) -> str:
        """Returns `2-Ab3...` with a directory id, `2` without."""
        return f"{self.id}" if self.directory_id is None else f"{self.id}-{self.directory_id}"


NOT = "!"
"""A pattern that begins with it excludes the names that the rest matches."""


def selects(patterns: Sequence[str], name: str) -> bool:
    """Whether patterns (`*`, `?`, `[abc]`) select a name: one of them matches it, and none that begins with `!` does.

    If all of them begin with `!`, they select every other name.
    """
    included = [pattern for pattern in patterns if not pattern.startswith(NOT)]
    excluded = [pattern.removeprefix(NOT) for pattern in patterns if pattern.startswith(NOT)]
    return any(fnmatchcase(name, each) for each in included or "*") and not any(
        fnmatchcase(name, each) for each in excluded
    )
