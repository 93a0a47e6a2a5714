"""The row of a partition in the partition table: 32 bytes of numbers.

The replicas are four node ids of 16 bits. A list of nodes is stored as their indices among the replicas, four bits
each, so that its order is kept. An assignment that does not fit is kept as an `Assignment` beside the table.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from connectors.event_block import Flags, NodeLists, Numbers, Positions
from rules.model.identifiers import NodeId
from streaming.replay.assignment import Assignment

REPLICAS: Final = 4
"""Replicas of a partition that fit."""
EMPTY: Final = 0xFFFF
"""The code of an empty list."""
NO_NODE: Final = 0xFFFF
"""A replica that is not there; node ids from here on do not fit."""
NO_LEADER: Final = 0xF
LARGEST_EPOCH: Final = 2**31 - 1
NO_TOPIC: Final = -1
"""The topic of a free row."""

ODD: Final = 1
"""Flag: the assignment does not fit and is kept beside the table."""
RECOVERING: Final = 2
"""Flag: the partition's leader is recovering (KIP-704)."""

ROW: Final = np.dtype(
    [
        ("topic", "<i4"),
        ("partition", "<i4"),
        ("replicas", "<u8"),
        ("isr", "<u2"),
        ("elr", "<u2"),
        ("last_known_elr", "<u2"),
        ("leader", "u1"),
        ("flags", "u1"),
        ("leader_epoch", "<i4"),
        ("partition_epoch", "<i4"),
    ]
)
Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.void]]"
Codes: TypeAlias = npt.NDArray[np.uint16]
Indices: TypeAlias = npt.NDArray[np.uint8]
FREE_ROW: Final = (NO_TOPIC, -1, 0, EMPTY, EMPTY, EMPTY, NO_LEADER, 0, -1, -1)
_IDENTITY: Final = (0xFFFF, 0xFFF0, 0xFF10, 0xF210, 0x3210)
"""By length: the code of the first replicas in their order, as in nearly all lists."""
_NO_REPLICAS: Final = 0xFFFF_FFFF_FFFF_FFFF


def pack_row(topic: int, partition: int, flags: int, held: Assignment) -> tuple[int, ...] | None:
    """Returns the values of a row; None if the assignment does not fit."""
    replicas, isr, elr, last_known_elr, leader, leader_epoch, partition_epoch = held
    if leader_epoch is None or partition_epoch is None or max(leader_epoch, partition_epoch) > LARGEST_EPOCH:
        return None
    if len(replicas) > REPLICAS or max(replicas, default=0) >= NO_NODE or len({*replicas}) < len(replicas):
        return None
    at = {node: index for index, node in enumerate(replicas)}
    nodes = (*isr, *elr, *last_known_elr) if leader is None else (leader, *isr, *elr, *last_known_elr)
    if max(len(isr), len(elr), len(last_known_elr)) > REPLICAS or not at.keys() >= {*nodes}:
        return None
    packed = _NO_REPLICAS
    for node, index in at.items():
        packed ^= (NO_NODE ^ node) << 16 * index
    codes = (_code([at[node] for node in each]) for each in (isr, elr, last_known_elr))
    lead = NO_LEADER if leader is None else at[leader]
    return (topic, partition, packed, *codes, lead, flags, leader_epoch, partition_epoch)


def unpack_row(row: tuple[int, ...]) -> Assignment:
    """Returns the assignment of a row that is in use and not odd."""
    _, _, packed, isr, elr, last_known_elr, leader, _, leader_epoch, partition_epoch = row
    replicas = tuple(NodeId(node) for index in range(REPLICAS) if (node := packed >> 16 * index & 0xFFFF) != NO_NODE)
    return Assignment(
        replicas,
        _nodes(isr, replicas),
        _nodes(elr, replicas),
        _nodes(last_known_elr, replicas),
        None if leader == NO_LEADER else replicas[leader],
        leader_epoch,
        partition_epoch,
    )


def _code(indices: list[int]) -> int:
    code = EMPTY
    for place, index in enumerate(indices):
        code ^= (0xF ^ index) << 4 * place
    return code


def _nodes(code: int, replicas: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    if code == _IDENTITY[len(replicas)]:
        return replicas
    indices = (code >> 4 * place & 0xF for place in range(REPLICAS))
    return tuple(replicas[index] for index in indices if index != 0xF)


def list_length(codes: Codes) -> Numbers:
    """Returns the number of nodes in each list."""
    length: Numbers = np.zeros(len(codes), np.int32)
    for place in range(REPLICAS):
        length += (codes >> np.uint16(4 * place) & np.uint16(0xF)) != 0xF
    return length


class ListColumn:
    """One list of nodes for each of some events, which can be read at any index."""

    def __init__(self, lists: NodeLists) -> None:
        self.lengths = lists.lengths
        self._nodes = lists.nodes
        present = np.maximum(lists.lengths, 0).astype(np.int64)
        self._first: Positions = np.cumsum(present) - present

    def packed_replicas(self, at: Positions) -> tuple[npt.NDArray[np.uint64], Flags]:
        """Returns the lists at these indices as a row holds replicas, and which of them fit."""
        lengths = self.lengths[at]
        packed = np.full((len(at), REPLICAS), NO_NODE, np.uint16)
        fits: Flags = lengths <= REPLICAS
        for length in range(1, REPLICAS + 1):
            rows = np.flatnonzero(lengths == length)
            if rows.size:
                nodes = self._of_length(at[rows], length)
                packed[rows, :length] = nodes.astype(np.uint16)
                fits[rows] = ((nodes >= 0) & (nodes < NO_NODE)).all(axis=1)
        return packed.view("<u8").reshape(-1), fits

    def codes(self, at: Positions, replicas: npt.NDArray[np.uint64]) -> tuple[Codes, Flags]:
        """Returns the codes of the lists at these indices, and which of them fit.

        Args:
            at: indices; the lists there are not None.
            replicas: the replicas of each partition, as in a row.
        """
        lengths = self.lengths[at]
        codes: Codes = np.full(len(at), EMPTY, np.uint16)
        fits: Flags = lengths <= REPLICAS
        by_node = np.ascontiguousarray(replicas).view("<u2").reshape(-1, REPLICAS)
        for length in range(1, REPLICAS + 1):
            rows = np.flatnonzero(lengths == length)
            if not rows.size:
                continue
            nodes, known = self._of_length(at[rows], length), by_node[rows]
            same = ((nodes == known[:, :length]) & (nodes < NO_NODE)).all(axis=1)
            codes[rows] = _IDENTITY[length]
            others = np.flatnonzero(~same)
            if others.size:
                codes[rows[others]], fits[rows[others]] = _other_codes(nodes[others], known[others])
        return codes, fits

    def _of_length(self, at: Positions, length: int) -> Numbers:
        nodes: Numbers = self._nodes[self._first[at][:, None] + np.arange(length)]
        return nodes


def _other_codes(nodes: Numbers, replicas: Codes) -> tuple[Codes, Flags]:
    code: Codes = np.full(len(nodes), EMPTY, np.uint16)
    fits: Flags = np.asarray((nodes < NO_NODE).all(axis=1))
    for place in range(nodes.shape[1]):
        index, known = leader_index(nodes[:, place], replicas)
        fits &= known
        code ^= (index.astype(np.uint16) ^ np.uint16(0xF)) << np.uint16(4 * place)
    return code, fits


def leader_index(nodes: Numbers, replicas: Codes) -> tuple[Indices, Flags]:
    """Returns the index of each node among its partition's replicas, and whether it is one of them."""
    same = replicas == nodes[:, None]
    found: Flags = np.asarray(same.any(axis=1) & (nodes < NO_NODE))
    return same.argmax(axis=1).astype(np.uint8), found
