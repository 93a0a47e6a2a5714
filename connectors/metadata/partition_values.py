"""PartitionValues: the values of many partition records as columns of events."""

from typing import Final

import numpy as np

from connectors.event_block import (
    NO_LEADER,
    UNCHANGED,
    Flags,
    NodeLists,
    Numbers,
    Octets,
    PartitionColumns,
    Positions,
    States,
)
from connectors.metadata.byte_views import ByteViews, uuid_texts
from connectors.metadata.partition_layout import (
    ELR,
    ISR,
    KEY_SIZE,
    LAST_KNOWN_ELR,
    NODE_SIZE,
    REPLICAS,
    TOPIC_ID_AT,
    UniformPartitions,
    uniform_partitions,
)
from connectors.metadata.partition_rows import UNCHANGED_LEADER

_LISTS: Final = (REPLICAS, ISR, ELR, LAST_KNOWN_ELR)
_FEW_NODES: Final = 8
"""Lists up to this length are put side by side in a matrix of this width."""


class PartitionValues:
    """The values of partition records, and which records hold only values that Kafka writes (see `value_limits`)."""

    def __init__(self, views: ByteViews, type_: Octets, version: Octets, body: Positions, end: Positions) -> None:
        count = len(body)
        self.valid: Flags = np.zeros(count, np.bool_)
        self._changed: Flags = np.zeros(count, np.bool_)
        self._partition: Numbers = np.zeros(count, np.int32)
        self._topic_id: Octets = np.zeros((count, KEY_SIZE - TOPIC_ID_AT), np.uint8)
        self._leader: Numbers = np.full(count, UNCHANGED_LEADER, np.int32)
        self._epochs: list[Numbers] = [np.full(count, NO_LEADER, np.int32) for _ in range(2)]
        """The leader's epoch and the partition epoch."""
        self._state: States = np.full(count, UNCHANGED, np.int8)
        self._lengths: dict[int, Numbers] = {which: np.full(count, UNCHANGED, np.int32) for which in _LISTS}
        self._nodes: dict[int, list[tuple[Positions, Numbers]]] = {which: [] for which in _LISTS}
        """Of some records each: their indices, and their lists of nodes of one length above 0, one row each."""
        for each in uniform_partitions(views, type_, version, body, end):
            self._add_uniform(each)

    def _add_uniform(self, of: UniformPartitions) -> None:
        rows, bodies, layout = of.rows, of.bodies, of.layout
        partition, topic_id = _number(bodies, 0), bodies[:, TOPIC_ID_AT:KEY_SIZE]
        words = topic_id.view(np.uint64)
        valid = (partition >= 0) & ((words[:, 0] | words[:, 1]) != 0)
        self._changed[rows] = of.changed
        self._partition[rows] = partition
        self._topic_id[rows] = topic_id
        if layout.leader is not None:
            leader = _number(bodies, layout.leader)
            valid &= leader >= (UNCHANGED_LEADER if of.changed else NO_LEADER)
            self._leader[rows] = leader
        if not of.changed:
            assert layout.leader is not None
            for number, column in enumerate(self._epochs, 1):
                epoch = _number(bodies, layout.leader + number * NODE_SIZE)
                valid &= epoch >= NO_LEADER
                column[rows] = epoch
            self._state[rows] = 0
        if layout.state is not None:
            state = bodies[:, layout.state].view(np.int8)
            valid &= (state <= 1) & (state >= (UNCHANGED if of.changed else 0))
            self._state[rows] = state
        for which, (first, length) in layout.lists.items():
            if which in self._lengths:
                self._lengths[which][rows] = length
            if length:
                nodes = _numbers(bodies, first, length)
                valid &= _are_nodes(nodes)
                if which in self._nodes:
                    self._nodes[which].append((rows, nodes))
            elif which == REPLICAS:
                valid[:] = False
        self.valid[rows] = valid

    def columns(self, *, offset: Positions, epoch: Numbers, timestamp: Positions) -> PartitionColumns:
        """Returns the events of the valid records; the arrays have one element for each of them."""
        rows = slice(None) if self.valid.all() else np.flatnonzero(self.valid)
        leader = self._leader[rows]
        replicas, isr, elr, last_known_elr = map(self._node_lists, _LISTS)
        return PartitionColumns(
            changed=self._changed[rows],
            offset=offset,
            leader_epoch=epoch,
            timestamp_ms=timestamp,
            topic_id=uuid_texts(self._topic_id[rows]),
            partition=self._partition[rows],
            replicas=replicas,
            isr=isr,
            elr=elr,
            last_known_elr=last_known_elr,
            leader=leader,
            leader_set=leader != UNCHANGED_LEADER,
            partition_leader_epoch=self._epochs[0][rows],
            partition_epoch=self._epochs[1][rows],
            recovering=self._state[rows],
        )

    def _node_lists(self, which: int) -> NodeLists:
        """Returns one list of each valid record."""
        lengths, parts = self._lengths[which], self._nodes[which]
        if not self.valid.all():
            lengths = lengths[self.valid]
            place = np.cumsum(self.valid) - 1
            parts = [(place[rows[self.valid[rows]]], nodes[self.valid[rows]]) for rows, nodes in parts]
        longest = max((nodes.shape[1] for _, nodes in parts), default=0)
        if longest <= _FEW_NODES:
            side_by_side: Numbers = np.empty((len(lengths), longest), np.int32)
            for rows, nodes in parts:
                side_by_side[rows, : nodes.shape[1]] = nodes
            if (lengths == longest).all():
                return NodeLists(lengths=lengths, nodes=side_by_side.reshape(-1))
            return NodeLists(lengths=lengths, nodes=side_by_side[np.arange(longest) < lengths[:, None]])
        after = np.cumsum(np.maximum(lengths, 0).astype(np.int64))
        all_nodes: Numbers = np.empty(int(after[-1]) if len(after) else 0, np.int32)
        for rows, nodes in parts:
            length = nodes.shape[1]
            all_nodes[(after[rows] - length)[:, None] + np.arange(length)] = nodes
        return NodeLists(lengths=lengths, nodes=all_nodes)


def _number(bodies: Octets, at: int) -> Numbers:
    """Returns the int32 at one place in each body."""
    return _numbers(bodies, at, 1)[:, 0]


def _numbers(bodies: Octets, at: int, count: int) -> Numbers:
    """Returns `count` int32 from one place in each body on."""
    numbers: Numbers = bodies[:, at : at + NODE_SIZE * count].view(">i4").astype(np.int32)
    return numbers


def _are_nodes(nodes: Numbers) -> Flags:
    """Returns which rows hold no negative id and none twice."""
    good: Flags = np.ones(len(nodes), np.bool_)
    count = nodes.shape[1]
    if count > _FEW_NODES:
        ordered = np.sort(nodes, axis=1)
        good &= (ordered[:, 0] >= 0) & (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
        return good
    for one in range(count):
        good &= nodes[:, one] >= 0
        for other in range(one):
            good &= nodes[:, one] != nodes[:, other]
    return good
