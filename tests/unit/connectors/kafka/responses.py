"""Responses of a node."""

import struct

from tests.unit.connectors.metadata.metadata_bytes import uvarint

METADATA = b"\x13__cluster_metadata"


def array(count: int, content: bytes = b"") -> bytes:
    return uvarint(count + 1) + content


def quorum(*, voters: bytes = b"\x01", observers: bytes = b"\x01", nodes: bytes = b"\x01") -> bytes:
    """The body of a DescribeQuorum v2 response."""
    partition = struct.pack(">ih", 0, 0) + b"\0" + struct.pack(">iiq", 1, 7, 39) + voters + observers + b"\0"
    return struct.pack(">h", 0) + b"\0" + array(1, METADATA + array(1, partition) + b"\0") + nodes + b"\0"


def fetched(before: bytes = b"", *, records: bytes = b"", after: bytes = b"\0\0\0") -> bytes:
    """The body of a Fetch v18 response: one partition with these aborted transactions and records, and what follows."""
    partition = struct.pack(">ihqqq", 0, 0, 5, 5, 0) + (before or b"\0") + struct.pack(">i", -1)
    return bytes(10) + array(1, bytes(16) + array(1, partition + uvarint(len(records) + 1) + records)) + after
