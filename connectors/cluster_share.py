"""Divides the clusters by name: over processes that gather, and over Spark's input partitions."""

from hashlib import blake2b


def share_of(cluster: str, shares: int) -> int:
    """Returns the number of a cluster's share, from 0. It depends on the name alone."""
    # Not a checksum: of names that differ in one digit, its low bits are often the same.
    return int.from_bytes(blake2b(cluster.encode(), digest_size=8).digest(), "big") % shares
