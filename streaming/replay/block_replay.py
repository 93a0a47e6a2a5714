"""Applies a block of events to a log: partition and topic records here, by column; all others by the machine.

What it leaves is what applying the block's events one after the other would leave.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from connectors.event import Event
from connectors.event_block import TOPIC_CREATED, EventBlock, Positions
from connectors.event_columns import block_events, events_from_rows
from connectors.log_event import PartitionChanged, PartitionSet
from rules.model.identifiers import Epoch, TopicId
from streaming.replay.log import Log
from streaming.replay.partition_updates import ColumnUpdates
from streaming.replay.partitions import Partitions

_ANY_ORDER: Final = frozenset(
    (
        TOPIC_CREATED,
        "undecodable",
        "feature-level-set",
        "controller-registered",
        "broker-registered",
        "broker-changed",
        "broker-unregistered",
    )
)
"""Events that change no partition. A TopicCreated gives a topic its name, which only recoveries record."""


def apply_block(log: Log, block: EventBlock) -> Iterator[Event]:
    """Applies the block to the log; yields each event that the machine has to apply before the next is asked for.

    Args:
        log: the metadata log, or the snapshot that is being read.
        block: the next events of the observation.
    """
    epoch = None
    if log.origin is None:
        epoch = _epoch(log, block)
        if epoch is None:
            yield from block_events(block)
            return
    updates = ColumnUpdates(block.partitions)
    start = topic = other = 0
    for at in [*_boundaries(block), None]:
        end = len(block) if at is None else int(block.other_at[at])
        stop, last = _before(block.partition_at, end), _before(block.topic_at, end)
        until = len(block.others) if at is None else at
        if log.transaction is not None:
            yield from _events(block, range(start, stop), range(topic, last), range(other, until))
        else:
            if epoch is not None and (stop > start or last > topic):
                log.epoch = epoch
            alone = log.partitions.apply_columns(updates, start, stop)
            yield from _apply_in_order(log, block, alone, range(topic, last), range(other, until))
        if at is not None:
            yield from events_from_rows([block.others[at]])
            until += 1
        start, topic, other = stop, last, until


def left_out_events(block: EventBlock) -> Iterator[Event]:
    """Yields the events of a block of a snapshot that is not read: those of its records change nothing."""
    return events_from_rows([row for row in block.others if row[0] == "undecodable"])


def _epoch(log: Log, block: EventBlock) -> Epoch | None:
    """Returns the epoch of all records of a block; None if they are not simply the next ones of the log."""
    positions = [(row[1], row[2]) for row in block.others if row[2] is not None]
    of, topics = block.partitions, block.topics
    offsets = np.concatenate((of.offset, topics.offset, np.array([offset for offset, _ in positions], np.int64)))
    epochs = np.concatenate(
        (of.leader_epoch, topics.leader_epoch, np.array([epoch for _, epoch in positions], np.int64))
    )
    if not len(offsets) or offsets.min() <= log.position or epochs.min() != epochs.max() or epochs[0] < log.epoch:
        return None
    return Epoch(int(epochs[0]))


def _boundaries(block: EventBlock) -> list[int]:
    """Returns the indices of the other events before which all partition events must have been applied."""
    return [index for index, row in enumerate(block.others) if row[0] not in _ANY_ORDER]


def _before(ascending: Positions, end: int) -> int:
    """Returns how many of the indices are before `end`."""
    return int(np.searchsorted(ascending, end))


def _apply_in_order(log: Log, block: EventBlock, alone: list[int], topics: range, others: range) -> Iterator[Event]:
    """Applies partition events one by one, and topic names; yields the other events."""
    partitions = log.partitions
    origin = log.origin
    one_by_one = zip(block.partition_at[alone].tolist(), _events(block, alone, (), ()), strict=True)
    following = next(one_by_one, None)
    named = topics.start
    for index in [*others, None]:
        at = len(block) if index is None else int(block.other_at[index])
        while following is not None and following[0] < at:
            named = _name_topics(partitions, block, range(named, _before(block.topic_at, following[0])))
            event = following[1]
            match event:
                case PartitionSet():
                    partitions.set(event, origin or event.at)
                case PartitionChanged():
                    partitions.change(event, origin or event.at)
                case _:
                    raise AssertionError(event.type)
            following = next(one_by_one, None)
        named = _name_topics(partitions, block, range(named, min(_before(block.topic_at, at), topics.stop)))
        if index is None:
            return
        row = block.others[index]
        if row[0] == TOPIC_CREATED:
            topic = json.loads(row[-1])
            if origin is None:
                log.epoch = Epoch(row[2])
            partitions.create(TopicId(topic["topic_id"]), topic["name"])
        else:
            yield from events_from_rows([row])


def _name_topics(partitions: Partitions, block: EventBlock, topics: range) -> int:
    """Applies these TopicCreated events; returns the index of the next."""
    for topic_id, name in block.topics.ids_and_names(topics) if topics else ():
        partitions.create(topic_id, name)
    return topics.stop


def _events(
    block: EventBlock, partitions: range | list[int], topics: range | tuple[()], others: range | tuple[()]
) -> Iterator[Event]:
    """Returns some of the block's events, in order."""
    at, topic, other = (np.array(indices, np.int64) for indices in (partitions, topics, others))
    rows: list[tuple[Any, ...]] = block.topics.rows(topics, snapshot=block.snapshot) if topics else []
    rows += [block.others[index] for index in others]
    places = np.concatenate((block.topic_at[topic], block.other_at[other]))
    order = np.argsort(places)
    both = np.concatenate((block.partition_at[at], places[order]))
    place = np.empty(len(both), np.int64)
    place[np.argsort(both)] = np.arange(len(both))
    chosen = EventBlock(
        snapshot=block.snapshot,
        partitions=block.partitions.take(at),
        partition_at=place[: len(at)],
        others=[rows[index] for index in order.tolist()],
        other_at=place[len(at) :],
    )
    return block_events(chosen)
