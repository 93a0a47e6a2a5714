"""Limits of the values that Kafka writes: a value outside them makes its batch or record undecodable.

The limits of what one cluster may have are far above what any cluster has: with them, the time and the memory that one
cluster takes are bounded, whatever its controllers write.

Everything after the decoder relies on them. Numbers fit Arrow's 32 and 64 bits and are exact in pandas, which turns a
column of numbers with absent values into doubles. Times fit `datetime`, also rounded, in any time zone, and after a
duration is added. Node ids can be compared, and no id is listed twice.
"""

from collections.abc import Sequence
from typing import Final

from connectors.errors import UndecodableError
from rules.model.identifiers import NodeId

LARGEST_OFFSET: Final = 2**53
"""No log reaches it: a million records a second take 285 years. A double is exact up to here."""
LATEST_TIMESTAMP_MS: Final = 253_370_764_800_000
"""The beginning of the year 9999 in UTC: `datetime` ends with that year, so a year is left for sums and time zones."""
NO_TIMESTAMP: Final = -1
"""Kafka's RecordBatch.NO_TIMESTAMP."""
ABSENT: Final = -1
"""No leader (LeaderConstants.NO_LEADER), and the default of an epoch in Kafka's schemas."""
MOST_LISTENERS: Final = 100
"""More listeners than any node has."""
MOST_FEATURES: Final = 100
"""More features than a node supports, or a cluster has finalized: Kafka 4.3 knows eight."""
MOST_LOG_DIRECTORIES: Final = 1_000
"""More disks than any broker has."""
MOST_REPLICAS: Final = 1_000
"""More replicas than any partition has."""
MOST_BROKERS: Final = 10_000
"""Brokers that are registered at the same time."""
MOST_CONTROLLERS: Final = 1_000
"""Controllers that are registered: below metadata.version 33 no record removes one."""
MOST_REGISTERED: Final = 200_000
"""Listeners and features of all registered brokers and controllers together: 20 of each broker."""
MOST_PARTITIONS: Final = 4_000_000
"""Topics and partitions. Kafka's own goal for a cluster is a million partitions."""
MOST_OF_A_NAME: Final = 8
"""Topics that have one name: Kafka has at most one at a time."""
MOST_RECOVERING: Final = 10_000
"""Partitions that recover from an unclean election (KIP-704) at the same time."""
MOST_REASSIGNED: Final = 1_000
"""Partitions of which it is kept since when they are reassigned (KIP-455): the first ones of more."""
MOST_HELD: Final = 250_000
"""Records of an open transaction (KIP-868). Only a migration from ZooKeeper has many, and ZooKeeper had at most 200,000
partitions."""
LARGEST_STRING: Final = 2**15 - 1
"""Bytes of a string: Kafka's generated readers refuse a longer one."""
LARGEST_BODY: Final = 2**18
"""Bytes of one record: a VotersRecord of 100 voters with 50 listeners each is shorter."""
LARGEST_INT16: Final = 2**15 - 1
LARGEST_INT32: Final = 2**31 - 1


def valid_number(field: str, value: int, lowest: int = 0, highest: int = LARGEST_INT32) -> int:
    """Returns the value.

    Raises:
        UndecodableError: it is out of range; the reason names field, value and range.
    """
    if not lowest <= value <= highest:
        raise UndecodableError(f"has {field} {value}, expected {lowest} to {highest}")
    return value


def valid_node(field: str, value: int) -> NodeId:
    """Returns a node id.

    Raises:
        UndecodableError: it is negative: Kafka's `node.id` is 0 or more.
    """
    return NodeId(valid_number(field, value))


def valid_count(field: str, values: Sequence[object], most: int) -> None:
    """Checks the length of a list.

    Raises:
        UndecodableError: it has more than `most` elements.
    """
    if len(values) > most:
        raise UndecodableError(f"has {len(values)} {field}, expected at most {most}")


def valid_nodes(field: str, values: Sequence[int], most: int = MOST_REPLICAS) -> tuple[NodeId, ...]:
    """Returns node ids that differ from each other.

    Raises:
        UndecodableError: one is negative or listed twice (Kafka's Replicas.validateIsr, VoterSet), or there are more
            than `most`.
    """
    valid_count(f"values of {field}", values, most)
    nodes: dict[NodeId, None] = {}
    for value in values:
        node = valid_node(field, value)
        if node in nodes:
            raise UndecodableError(f"has {field} {node} twice")
        nodes[node] = None
    return tuple(nodes)
