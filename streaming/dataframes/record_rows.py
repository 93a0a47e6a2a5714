"""The rows of `kraft-metadata`: one for each record, and one for each part of a file that cannot be read."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from connectors.logdir.log_byte_ranges import LogByteRange
from connectors.metadata.dump_log import (
    CONTROL_NAMES,
    UNKNOWN,
    DumpedRecord,
    DumpGap,
    dump_records,
)
from connectors.metadata.value_limits import LARGEST_INT32
from streaming.dataframes.requested_data import timestamp_us

RECORD = StructType(
    [
        StructField("file", StringType(), nullable=False),
        StructField("snapshot", BooleanType(), nullable=False),
        StructField("offset", LongType()),
        StructField("leader_epoch", IntegerType()),
        StructField("timestamp", TimestampType()),
        StructField("timestamp_ms", LongType()),
        StructField("control", BooleanType()),
        StructField("type", StringType()),
        StructField("version", IntegerType()),
        StructField("data", StringType()),
        StructField("length", LongType(), nullable=False),
        StructField("reason", StringType()),
        StructField("topic_id", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("leader", IntegerType()),
        StructField("replicas", ArrayType(IntegerType())),
        StructField("isr", ArrayType(IntegerType())),
        StructField("leader_recovery_state", IntegerType()),
    ]
)
"""docs/dataframes.md describes each column."""

ROWS_PER_BATCH: Final = 4096
_CONTROL_TYPES: Final = frozenset(CONTROL_NAMES.values())
_TOPIC_RESOURCE: Final = 2
"""org.apache.kafka.common.config.ConfigResource.Type.TOPIC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    part: LogByteRange
    record: DumpedRecord
    data: Mapping[str, Any]
    """The record's data; empty if it cannot be read."""
    topics: Mapping[str, str]


def record_batches(
    content: bytes,
    part: LogByteRange,
    schema: pa.Schema,
    *,
    topics: Mapping[str, str],
    types: Collection[object] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one byte range as Arrow batches. Never raises for invalid content: it becomes a reason.

    Args:
        types: only records of these types are needed; None = all.
    """
    rows = (
        _Row(part=part, record=record, data=record.data or {}, topics=topics)
        for record in _records(content, part)
        if types is None or record.type in types
    )
    while some := list(islice(rows, ROWS_PER_BATCH)):
        columns = [pa.array([*map(_COLUMNS[field.name], some)], type=field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _records(content: bytes, part: LogByteRange) -> Iterator[DumpedRecord]:
    # Zeros at the end are space that Kafka allocated in advance (log.preallocate).
    written = len(content.rstrip(b"\0"))
    for entry in dump_records(content):
        match entry:
            case DumpedRecord():
                yield entry
            case DumpGap():
                if entry.position < written:
                    yield _unread(entry, part)


def _unread(gap: DumpGap, part: LogByteRange) -> DumpedRecord:
    """Returns a part of the file that cannot be read as a record without a type."""
    return DumpedRecord(
        offset=-1 if gap.offset is None else gap.offset,
        epoch=-1,
        timestamp=-1,
        type=None,
        version=None,
        data=None,
        length=gap.size,
        reason=f"position {part.start + gap.position}: {gap.reason}",
        damaged=True,
    )


def _data(row: _Row) -> str | None:
    return None if row.record.data is None else json.dumps(row.record.data, separators=(",", ":"))


def _control(row: _Row) -> bool | None:
    type_ = row.record.type
    return None if type_ is None or type_ == UNKNOWN else type_ in _CONTROL_TYPES


def _topic_id(row: _Row) -> str | None:
    found: str | None = row.data.get("topicId")
    return found


def _topic(row: _Row) -> str | None:
    found: str | None
    match row.record.type:
        case "TOPIC_RECORD":
            found = row.data.get("name")
        case "CLEAR_ELR_RECORD":
            found = row.data.get("topicName")
        case "CONFIG_RECORD" if row.data.get("resourceType") == _TOPIC_RESOURCE:
            found = row.data.get("resourceName")
        case _:
            found = row.topics.get(str(row.data.get("topicId")))
    return found


def _leader(row: _Row) -> int | None:
    found: int | None = row.data.get("leaderId" if row.record.type == "LeaderChange" else "leader")
    return found


def _leader_recovery_state(row: _Row) -> int | None:
    # A PartitionRecord omits the default, 0.
    default = 0 if row.record.type == "PARTITION_RECORD" and row.data else None
    found: int | None = row.data.get("leaderRecoveryState", default)
    return found


def _version(row: _Row) -> int | None:
    version = row.record.version
    # A damaged record may have any number of 35 bits here.
    return version if version is not None and version <= LARGEST_INT32 else None


def _known(number: int) -> int | None:
    return None if number < 0 else number


_COLUMNS: Final[Mapping[str, Callable[[_Row], object]]] = {
    "file": lambda row: str(row.part.path),
    "snapshot": lambda row: row.part.is_snapshot,
    "offset": lambda row: _known(row.record.offset),
    "leader_epoch": lambda row: _known(row.record.epoch),
    "timestamp": lambda row: timestamp_us(row.record.timestamp),
    "timestamp_ms": lambda row: _known(row.record.timestamp),
    "control": _control,
    "type": lambda row: row.record.type,
    "version": _version,
    "data": _data,
    "length": lambda row: row.record.length,
    "reason": lambda row: row.record.reason,
    "topic_id": _topic_id,
    "topic": _topic,
    "partition": lambda row: row.data.get("partitionId"),
    "leader": _leader,
    "replicas": lambda row: row.data.get("replicas"),
    "isr": lambda row: row.data.get("isr"),
    "leader_recovery_state": _leader_recovery_state,
}
