"""Which disks hold a voter's log under another directory id: the label is new, and the log is the voter's.

`kafka-storage format` formats over a metadata log if `meta.properties` is missing, and Kafka makes a directory id if
that line is missing. The node is then no voter (KIP-853), and has lost nothing. With the recorded id written back it is
the voter again.

An empty disk that fetched the log after the voter's own was lost looks the same, and lacks what only the lost one had.
So a log counts only if it is a beginning of the most complete one. While a majority of the voters' own disks is there,
none is needed. Otherwise as many as the majority needs are given their id back, the most complete first, and those that
hold every record: each other vote is then needed, and no log without the end of the most complete one wins. The others
fetch first.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.membership import VoterSet
from rules.rescue.node_decisions import StoppedDisk, is_beginning


class OtherIds(NamedTuple):
    """The voters' logs under other directory ids."""

    keys: Mapping[ReplicaKey, ReplicaKey]
    """The voter that each such disk becomes with its recorded directory id, by the key that the disk has now."""
    later: frozenset[ReplicaKey]
    """Those of the voters that fetch first: with their id now, they could elect a leader that lacks records."""


def other_ids(disks: Sequence[StoppedDisk], voters: VoterSet) -> OtherIds:
    """Returns the disks without which the voters are no majority, and with which they are one; else none."""
    own = [disk for disk in disks if disk.key in voters.keys and disk.damage is None]
    others = [disk for disk in disks if _may_be_voters(disk, disks, voters)]
    whole = max((*own, *others), key=lambda disk: disk.position, default=None)
    of_node: dict[NodeId, StoppedDisk] = {}
    for disk in sorted(others, key=lambda disk: disk.position, reverse=True):
        if whole is not None and is_beginning(disk, whole):
            of_node.setdefault(disk.key.id, disk)
    lacking = voters.majority - len(own)
    if whole is None or not 0 < lacking <= len(of_node):
        return OtherIds({}, frozenset())
    recorded = {key.id: key for key in voters.keys}
    later = [node for node in [*of_node][lacking:] if of_node[node].position < whole.position]
    return OtherIds(
        {disk.key: recorded[node] for node, disk in of_node.items()}, frozenset(recorded[node] for node in later)
    )


def is_copy(disk: StoppedDisk, disks: Sequence[StoppedDisk], voters: VoterSet) -> bool:
    """Returns whether its directory id is that of another node: the disk, or its meta.properties, was copied."""
    directory = disk.key.directory_id
    known = {*voters.keys, *(one.key for one in disks)}
    return directory is not None and any(key.directory_id == directory and key.id != disk.key.id for key in known)


def _may_be_voters(disk: StoppedDisk, disks: Sequence[StoppedDisk], voters: VoterSet) -> bool:
    """Returns whether this disk may be that of a voter whose own directory id is on none of the disks."""
    voter = voters.by_id(disk.key.id)
    return (
        voter is not None
        and voter.key not in {one.key for one in disks}
        and disk.damage is None
        and disk.unreadable is None
        and not is_copy(disk, disks, voters)
    )
