"""Identifiers of nodes, directories and topics; offsets, epochs and times; addresses."""

from dataclasses import dataclass, field
from typing import NewType

NodeId = NewType("NodeId", int)
"""A controller's or broker's `node.id`."""


Epoch = NewType("Epoch", int)
"""A leader epoch (Raft's term)."""


Offset = NewType("Offset", int)
"""A position in `__cluster_metadata-0`."""


DirectoryId = NewType("DirectoryId", str)
"""The UUID of a metadata log directory (KIP-853), 22 characters of URL-safe base64 as Kafka prints it."""


TopicId = NewType("TopicId", str)
"""A topic's UUID, 22 characters of URL-safe base64 as Kafka prints it."""


Millis = NewType("Millis", int)
"""Milliseconds: since the Unix epoch where the name ends in `_at_ms` or `timestamp_ms`, else a duration."""


def host_and_port(host: str, port: int) -> str:
    """HOST:PORT as Kafka writes and takes it: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """The host of such a HOST:PORT, without brackets."""
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Endpoint:
    """Where a listener says it can be reached."""

    listener: str
    host: str
    port: int
    protocol: str | None = field(default=None, compare=False)
    """What is spoken there, such as SASL_SSL: registrations tell it, VotersRecord and DescribeQuorum do not."""

    def __str__(self) -> str:
        """HOST:PORT, as Kafka's tools take it."""
        return host_and_port(self.host, self.port)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReplicaKey:
    """Who a replica is (KIP-853): a node *and* the directory its log lives in; None before Kafka 3.9."""

    id: NodeId
    directory_id: DirectoryId | None = None

    def __str__(self) -> str:
        """`2-Ab3...` with a directory id, `2` without."""
        return f"{self.id}" if self.directory_id is None else f"{self.id}-{self.directory_id}"
