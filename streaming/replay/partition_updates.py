"""Applies many partition events to the partition table by column, where that gives what one by one would give.

The events of some partitions have to go through `Partitions` one by one: of partitions that are recovering or become
so, that are reassigned, that do not fit into a row, or of which only a change is known.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from connectors.event_block import Flags, Numbers, PartitionColumns, Positions
from streaming.replay.partition_row import (
    LARGEST_EPOCH,
    NO_LEADER,
    REPLICAS,
    Codes,
    Indices,
    ListColumn,
    leader_index,
)
from streaming.replay.partition_table import PartitionTable
from streaming.replay.slot_index import NO_SLOT, partition_keys

_LISTS = ("isr", "elr", "last_known_elr")
_Replicas: TypeAlias = npt.NDArray[np.uint64]
"""As a row holds them."""


@dataclass(slots=True, kw_only=True)
class _Update:
    """Some consecutive events; each array has one element for each of them."""

    at: Positions
    """Indices among all events of the columns."""
    topic: Numbers
    partition: Numbers
    slot: Numbers
    group: Positions
    """Events of the same partition have the same group."""
    first: Positions
    """By group: the index of its first event in these arrays."""
    is_set: Flags
    alone: Flags
    """Whether the event has to be applied one by one."""

    def spread(self) -> None:
        """If one event of a partition has to be applied one by one, all have to."""
        if len(self.first) == len(self.alone):
            return
        alone = np.zeros(len(self.first), np.bool_)
        alone[self.group[self.alone]] = True
        self.alone = alone[self.group]


class ColumnUpdates:
    """The partition events of one block, which are applied in consecutive slices."""

    def __init__(self, columns: PartitionColumns) -> None:
        self._columns = columns
        self._replicas = ListColumn(columns.replicas)
        self._lists = {name: ListColumn(getattr(columns, name)) for name in _LISTS}

    def apply(self, table: PartitionTable, start: int, stop: int) -> list[int]:
        """Applies the events from `start` to `stop`, except those that have to be applied one by one.

        Returns:
            The indices of the events that were not applied. No event of the same partition was.
        """
        if start == stop:
            return []
        update = self._update(table, start, stop)
        set_replicas = self._find_alone(table, update)
        update.spread()
        replicas = self._replicas_of(table, update, set_replicas)
        codes, leaders = self._encode(update, replicas)
        update.spread()
        self._write(table, update, replicas, codes, leaders)
        alone: list[int] = update.at[update.alone].tolist()
        return alone

    def _update(self, table: PartitionTable, start: int, stop: int) -> _Update:
        columns = self._columns
        topic = table.topics.numbers(columns.topic_id[start:stop])
        partition = columns.partition[start:stop]
        keys = partition_keys(topic, partition)
        if (keys[1:] > keys[:-1]).all():
            group = first = np.arange(len(keys))
        else:
            _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        return _Update(
            at=np.arange(start, stop),
            topic=topic,
            partition=partition,
            slot=table.index.find(keys),
            group=group,
            first=first,
            is_set=~columns.changed[start:stop],
            alone=columns.recovering[start:stop] == 1,
        )

    def _find_alone(self, table: PartitionTable, update: _Update) -> tuple[Positions, _Replicas]:
        """Marks the events that cannot be applied by column; returns which set a partition, and their replicas."""
        columns, at = self._columns, update.at
        is_first = np.zeros(len(at), np.bool_)
        is_first[update.first] = True
        known = np.flatnonzero(update.slot != NO_SLOT)
        held = table.rows[update.slot[known]]
        # A change raises the epochs; one event of each partition at most is near the largest epoch in practice.
        near = LARGEST_EPOCH - len(at)
        update.alone[known] |= (held["flags"] != 0) | (held["partition_epoch"] > near) | (held["leader_epoch"] > near)
        update.alone |= update.is_set & ~is_first
        update.alone |= ~update.is_set & (self._replicas.lengths[at] >= 0)
        update.alone |= (update.slot == NO_SLOT) & is_first & ~update.is_set
        sets = np.flatnonzero(update.is_set)
        packed, fits = self._replicas.packed_replicas(at[sets])
        epochs = np.maximum(columns.partition_leader_epoch[at[sets]], columns.partition_epoch[at[sets]])
        update.alone[sets[~fits | (epochs > near)]] = True
        return sets, packed

    def _replicas_of(
        self, table: PartitionTable, update: _Update, set_replicas: tuple[Positions, _Replicas]
    ) -> _Replicas:
        """Returns the replicas of each event's partition; of events that are applied one by one, anything."""
        by_group = table.rows["replicas"][update.slot[update.first]]
        sets, packed = set_replicas
        by_group[update.group[sets]] = packed
        return by_group[update.group]

    def _encode(
        self, update: _Update, replicas: _Replicas
    ) -> tuple[dict[str, tuple[Positions, Codes]], tuple[Positions, Indices]]:
        """Returns the events that set a list or the leader, with the code of each; marks those that do not fit."""
        codes: dict[str, tuple[Positions, Codes]] = {}
        for name, column in self._lists.items():
            given = np.flatnonzero((column.lengths[update.at] >= 0) & ~update.alone)
            code, fits = column.codes(update.at[given], replicas[given])
            update.alone[given[~fits]] = True
            codes[name] = given, code
        given = np.flatnonzero(self._columns.leader_set[update.at] & ~update.alone)
        leader = self._columns.leader[update.at[given]]
        index, known = leader_index(leader, replicas[given].view("<u2").reshape(-1, REPLICAS))
        update.alone[given[~known & (leader >= 0)]] = True
        index[leader < 0] = NO_LEADER
        return codes, (given, index)

    def _write(
        self,
        table: PartitionTable,
        update: _Update,
        replicas: _Replicas,
        codes: dict[str, tuple[Positions, Codes]],
        leaders: tuple[Positions, Indices],
    ) -> None:
        columns, rows = self._columns, update.first[~update.alone[update.first]]
        fresh = rows[update.slot[rows] == NO_SLOT]
        if fresh.size:
            slots = table.allocate(update.topic[fresh], update.partition[fresh])
            by_group = np.full(len(update.first), NO_SLOT, np.int32)
            by_group[update.group[fresh]] = slots
            update.slot = np.where(update.slot == NO_SLOT, by_group[update.group], update.slot)
        row, applied = table.rows, ~update.alone
        sets = np.flatnonzero(update.is_set & applied)
        row["replicas"][update.slot[sets]] = replicas[sets]
        row["leader_epoch"][update.slot[sets]] = columns.partition_leader_epoch[update.at[sets]]
        row["partition_epoch"][update.slot[sets]] = columns.partition_epoch[update.at[sets]]
        # Where a partition has several events, the last value remains.
        for name, (given, code) in codes.items():
            kept = applied[given]
            row[name][update.slot[given[kept]]] = code[kept]
        given, index = leaders
        kept = applied[given]
        row["leader"][update.slot[given[kept]]] = index[kept]
        changes = np.flatnonzero(~update.is_set & applied)
        if changes.size:
            np.add.at(row["partition_epoch"], update.slot[changes], 1)
            led = changes[columns.leader_set[update.at[changes]]]
            np.add.at(row["leader_epoch"], update.slot[led], 1)
        table.mark_changed(update.slot[update.first[applied[update.first]]])
