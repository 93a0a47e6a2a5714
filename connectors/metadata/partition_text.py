"""Renders the fields of partition records as text, as `json.dumps` renders what `json_rendering` makes of them."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct
from typing import Final, Literal, TypeAlias

import numpy as np

from connectors.event_block import UNCHANGED, UUID_TEXT, Numbers, Positions
from connectors.metadata.byte_views import uuid_texts
from connectors.metadata.field_readers import uuid_text
from connectors.metadata.partition_fast_path import UNCHANGED_LEADER
from connectors.metadata.partition_shape import (
    ADDING,
    ELR,
    ISR,
    LAST_KNOWN_ELR,
    REMOVING,
    REPLICAS,
    TOPIC_ID_AT,
    PartitionShape,
)
from connectors.metadata.record_table import RecordTable

FieldStyle: TypeAlias = Literal["json", "text"]
"""`{"leader":1,"isr":[1,2]}`, or `leader=1 isr=[1, 2]`."""

_NODE_SIZE: Final = 4
_UUID_SIZE: Final = 16
_ZERO_UUID: Final = "A" * UUID_TEXT
_PARTITION_JSON: Final = (
    '{"partitionId":%d,"topicId":"%s","replicas":%s,"isr":%s,"removingReplicas":%s,"addingReplicas":%s,"leader":%d,'
    '"leaderEpoch":%d,"partitionEpoch":%d}'
)
_PARTITION_DIRECTORIES_JSON: Final = _PARTITION_JSON[:-1] + ',"directories":%s}'
_PARTITION_TEXT: Final = (
    'partitionId=%d topicId="%s" replicas=%s isr=%s removingReplicas=%s addingReplicas=%s leader=%d leaderEpoch=%d '
    "partitionEpoch=%d"
)
_PARTITION_DIRECTORIES_TEXT: Final = _PARTITION_TEXT + " directories=%s"


def end_without_tags(shape: PartitionShape) -> Positions:
    """Returns where a PartitionRecord without tagged fields ends."""
    lists = sum(shape.lengths[which].astype(np.int64) for which in (REPLICAS, ISR, REMOVING, ADDING))
    directories = np.where(shape.directories < 0, 0, 1 + _UUID_SIZE * shape.directories.astype(np.int64))
    # Partition and topic id; four lists with their lengths; leader and epochs; the number of tagged fields.
    end: Positions = shape.body + 20 + 4 + _NODE_SIZE * np.asarray(lists) + 12 + directories + 1
    return end


class PartitionRenderer:
    """Renders the fields of partition records in Kafka's order."""

    def __init__(self, segment: bytes, table: RecordTable, shape: PartitionShape, style: FieldStyle) -> None:
        self._segment = segment
        self._origin = table.origin
        self._views = table.views
        self._shape = shape
        self._json = style == "json"

    def partitions(self, rows: Positions) -> Iterator[str]:
        """Yields the fields of PartitionRecords without tagged fields."""
        shape = self._shape
        lists = [self._lists(which, rows) for which in (REPLICAS, ISR, REMOVING, ADDING)]
        numbers = [each[rows].tolist() for each in (shape.leader, shape.partition_leader_epoch, shape.partition_epoch)]
        form = _PARTITION_JSON if self._json else _PARTITION_TEXT
        form_with_directories = _PARTITION_DIRECTORIES_JSON if self._json else _PARTITION_DIRECTORIES_TEXT
        for *fields, directories in zip(*self._keys(rows), *lists, *numbers, self._directories(rows), strict=True):
            yield form % tuple(fields) if directories is None else form_with_directories % (*fields, directories)

    def changes(self, rows: Positions) -> Iterator[str]:
        """Yields the fields of PartitionChangeRecords."""
        shape, is_json = self._shape, self._json
        form = '{"partitionId":%d,"topicId":"%s"%s}' if is_json else 'partitionId=%d topicId="%s"%s'
        names = ["isr", "leader", "replicas", "removingReplicas", "addingReplicas", "leaderRecoveryState"]
        names += ["directories", "eligibleLeaderReplicas", "lastKnownElr"]
        heads = [f',"{name}":' if is_json else f" {name}=" for name in names]
        leaders = [None if leader == UNCHANGED_LEADER else str(leader) for leader in shape.leader[rows].tolist()]
        states = [None if state == UNCHANGED else str(state) for state in shape.state[rows].tolist()]
        columns = (
            self._lists(ISR, rows),
            leaders,
            *(self._lists(which, rows) for which in (REPLICAS, REMOVING, ADDING)),
            states,
            self._directories(rows),
            *(self._lists(which, rows) for which in (ELR, LAST_KNOWN_ELR)),
        )
        tagged = [
            ["" if value is None else head + value for value in column]
            for head, column in zip(heads, columns, strict=True)
            if column.count(None) < len(column)
        ]
        others = map("".join, zip(*tagged, strict=True)) if tagged else iter([""] * len(rows))
        for key in zip(*self._keys(rows), others, strict=True):
            yield form % key

    def _keys(self, rows: Positions) -> tuple[list[int], list[str]]:
        """Returns partitions and topic ids."""
        body = self._shape.body[rows]
        text = uuid_texts(self._views.uuids(body + TOPIC_ID_AT)).tobytes().decode("ascii")
        ids = [text[at : at + UUID_TEXT] for at in range(0, len(text), UUID_TEXT)]
        return self._views.int32[body].tolist(), ids

    def _lists(self, which: int, rows: Positions) -> list[str | None]:
        """Returns one list of nodes of each record; None if it is absent."""
        shape = self._shape
        render = _nodes_json if self._json else _nodes_text
        return self._rendered(shape.firsts[which][rows], shape.lengths[which][rows] * _NODE_SIZE, render)

    def _directories(self, rows: Positions) -> list[str | None]:
        shape = self._shape
        render = _directories_json if self._json else _directories_text
        return self._rendered(shape.directories_first[rows], shape.directories[rows] * _UUID_SIZE, render)

    def _rendered(self, first: Positions, size: Numbers, render: Callable[[bytes], str]) -> list[str | None]:
        segment = self._segment
        starts = (first + self._origin).tolist()
        smallest, largest = (int(size.min()), int(size.max())) if size.size else (0, 0)
        if largest <= 0 and smallest == largest:
            return [render(b"") if largest == 0 else None] * len(starts)
        if smallest == largest:
            return [render(segment[start : start + largest]) for start in starts]
        return [
            render(segment[start : start + length]) if length >= 0 else None
            for start, length in zip(starts, size.tolist(), strict=True)
        ]


@lru_cache(maxsize=1 << 15)
def _nodes_json(packed: bytes) -> str:
    return f"[{','.join(map(str, _nodes(packed)))}]"


@lru_cache(maxsize=1 << 15)
def _nodes_text(packed: bytes) -> str:
    return f"[{', '.join(map(str, _nodes(packed)))}]"


def _nodes(packed: bytes) -> tuple[int, ...]:
    return Struct(f">{len(packed) // _NODE_SIZE}i").unpack(packed)


@lru_cache(maxsize=1 << 15)
def _directories_json(packed: bytes) -> str:
    return f"[{','.join(_directory_ids(packed))}]"


@lru_cache(maxsize=1 << 15)
def _directories_text(packed: bytes) -> str:
    return f"[{', '.join(_directory_ids(packed))}]"


def _directory_ids(packed: bytes) -> Iterator[str]:
    for at in range(0, len(packed), _UUID_SIZE):
        yield f'"{uuid_text(packed[at : at + _UUID_SIZE]) or _ZERO_UUID}"'
