"""`spark.read.format("kraft-metadata").load(PATH)`: the records of a metadata log as a batch DataFrame."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from connectors.errors import UsageError
from connectors.logdir.log_byte_ranges import LogByteRange, byte_ranges, find_log_files, read_range
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_snapshot_piece
from connectors.metadata.dump_log import (
    CONTROL_NAMES,
    UNKNOWN,
    DumpedRecord,
    DumpGap,
    dump_records,
)
from connectors.metadata.value_limits import LARGEST_INT32
from connectors.observations.log_event import TopicCreated
from rules.formatting import LATEST_MS
from streaming.dataframes.pushed_filters import bounds, wanted
from streaming.pipeline.arrow_schema import arrow_schema

ROWS_PER_BATCH: Final = 4096
_encode = json.JSONEncoder(separators=(",", ":")).encode
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
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a byte range as Arrow batches. Invalid content becomes a reason."""
    rows = (_Row(part=part, record=record, data=record.data or {}, topics=topics) for record in _records(content, part))
    while some := list(islice(rows, ROWS_PER_BATCH)):
        columns = [pa.array([*map(_COLUMNS[field.name][1], some)], type=field.type) for field in schema]
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


def _control(row: _Row) -> bool | None:
    type_ = row.record.type
    return None if type_ is None or type_ == UNKNOWN else type_ in _CONTROL_TYPES


def _topic(row: _Row) -> object:
    match row.record.type:
        case "TOPIC_RECORD":
            return row.data.get("name")
        case "CLEAR_ELR_RECORD":
            return row.data.get("topicName")
        case "CONFIG_RECORD" if row.data.get("resourceType") == _TOPIC_RESOURCE:
            return row.data.get("resourceName")
        case _:
            return row.topics.get(str(row.data.get("topicId")))


def _leader_recovery_state(row: _Row) -> object:
    # A PartitionRecord omits the default, 0.
    default = 0 if row.record.type == "PARTITION_RECORD" and row.data else None
    return row.data.get("leaderRecoveryState", default)


def _version(row: _Row) -> int | None:
    version = row.record.version
    # A damaged record may have any number of 35 bits here.
    return version if version is not None and version <= LARGEST_INT32 else None


def _known(number: int) -> int | None:
    return None if number < 0 else number


_TEXT, _INT, _LONG, _BOOLEAN, _NODES = StringType(), IntegerType(), LongType(), BooleanType(), ArrayType(IntegerType())
_COLUMNS: Final[Mapping[str, tuple[DataType, Callable[[_Row], object]]]] = {
    "file": (_TEXT, lambda row: str(row.part.path)),
    "snapshot": (_BOOLEAN, lambda row: row.part.is_snapshot),
    "offset": (_LONG, lambda row: _known(row.record.offset)),
    "leader_epoch": (_INT, lambda row: _known(row.record.epoch)),
    "timestamp": (TimestampType(), lambda row: timestamp_us(row.record.timestamp)),
    "timestamp_ms": (_LONG, lambda row: _known(row.record.timestamp)),
    "control": (_BOOLEAN, _control),
    "type": (_TEXT, lambda row: row.record.type),
    "version": (_INT, _version),
    "data": (_TEXT, lambda row: None if row.record.data is None else _encode(row.record.data)),
    "length": (_LONG, lambda row: row.record.length),
    "reason": (_TEXT, lambda row: row.record.reason),
    "topic_id": (_TEXT, lambda row: row.data.get("topicId")),
    "topic": (_TEXT, _topic),
    "partition": (_INT, lambda row: row.data.get("partitionId")),
    "leader": (_INT, lambda row: row.data.get("leaderId" if row.record.type == "LeaderChange" else "leader")),
    "replicas": (_NODES, lambda row: row.data.get("replicas")),
    "isr": (_NODES, lambda row: row.data.get("isr")),
    "leader_recovery_state": (_INT, _leader_recovery_state),
}
RECORD = StructType(
    [
        StructField(name, type_, nullable=name not in ("file", "snapshot", "length"))
        for name, (type_, _) in _COLUMNS.items()
    ]
)
"""docs/dataframes.md describes each column."""


RANGE_BYTES: Final = 16 * 1024 * 1024
"""The default of `maxPartitionBytes`."""


class MetadataLogSource(DataSource):
    """The format `kraft-metadata`.

    Options: `path` (`load(PATH)`): a metadata log directory, a `.log` segment or a `.checkpoint`;
    `maxPartitionBytes`: the largest part of a file that one task decodes.
    """

    options: MutableMapping[str, str]
    NAME: ClassVar[str] = "kraft-metadata"

    @classmethod
    def name(cls) -> str:
        """Returns the format's name in `read.format`."""
        return cls.NAME

    def schema(self) -> StructType:
        """Returns all columns; finds the files, so that `load` reports a wrong path."""
        _find_files(self.options)
        return RECORD

    def reader(self, schema: StructType) -> "MetadataLogReader":
        """Returns a reader of all files."""
        require_columns(RECORD, schema)
        max_bytes = _max_partition_bytes(self.options)
        parts = [part for file in _find_files(self.options) for part in byte_ranges(file, max_bytes=max_bytes)]
        return MetadataLogReader(schema, parts, topic_names(parts) if "topic" in schema.names else {})


class MetadataLogReader(DataSourceReader):
    """Plans one task for each byte range that may match, and decodes it on any executor that can read the file."""

    def __init__(self, schema: StructType, parts: list[LogByteRange], topics: dict[str, str]) -> None:
        """`topics` has the name of each topic by its id."""
        self._schema = schema
        self._parts = parts
        self._topics = topics

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Leaves out the files and byte ranges without a wanted record; Spark evaluates all conditions again."""
        files, snapshot = wanted(filters, "file"), wanted(filters, "snapshot")
        offsets, times_ms = bounds(filters, "offset"), bounds(filters, "timestamp_ms")
        self._parts = [
            part
            for part in self._parts
            if (files is None or str(part.path) in files)
            and (snapshot is None or part.is_snapshot in snapshot)
            and offsets.overlap(*part.offsets)
            and times_ms.overlap(*part.times_ms)
        ]
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the byte ranges."""
        return [InputPartition(part) for part in self._parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a byte range."""
        part: LogByteRange | None = partition.value
        # Spark calls this with None if there is no byte range.
        if part is None:
            return
        yield from record_batches(read_range(part), part, arrow_schema(self._schema), topics=self._topics)


def _find_files(options: MutableMapping[str, str]) -> list[Path]:
    """Returns the files of all paths, each once; UsageError if a path is not one of the metadata log."""
    paths: list[str] = json.loads(options["paths"]) if "paths" in options else [options.get("path", "")]
    if not any(paths):
        raise UsageError("no path is given: use load(PATH) with a metadata log directory, a .log or a .checkpoint file")
    return list(dict.fromkeys(file for path in paths for file in find_log_files(local_path(path))))


def require_columns(full: StructType, requested: StructType) -> None:
    """Raises UsageError if a schema of `.schema(...)` has a column that does not exist or has another type.

    PySpark's data source API passes no column choice, so `.schema(...)` names the columns of a query.
    """
    for field in requested:
        if field.name not in full.names:
            raise UsageError(f"there is no column {field.name}: the columns are {', '.join(full.names)}")
        expected = full[field.name].dataType
        if field.dataType != expected:
            raise UsageError(
                f"the column {field.name} is of type {expected.simpleString()}, not {field.dataType.simpleString()}"
            )


def timestamp_us(milliseconds: int | None) -> int | None:
    """Returns a time in microseconds, as Spark stores it; None if not in the years 1970 to 9999, which Spark prints."""
    return milliseconds * 1000 if milliseconds is not None and 0 <= milliseconds <= LATEST_MS else None


def local_path(path: str) -> Path:
    """Returns the absolute path on a local or mounted file system; UsageError if it is a URI of another one."""
    plain = path.removeprefix("file://") if path.startswith("file:///") else path.removeprefix("file:")
    if "://" in plain:
        raise UsageError(f"{path} is not on a local or mounted file system: copy the log there first")
    return Path(plain).absolute()


def _max_partition_bytes(options: MutableMapping[str, str]) -> int:
    text = options.get("maxPartitionBytes", str(RANGE_BYTES))
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"invalid value '{text}' for maxPartitionBytes: expected a number of bytes such as 16777216")
    return int(text)


_TOPIC_RECORD = bytes((1, 2))
"""Frame version and api key with which the value of every TopicRecord begins."""


def topic_names(parts: Iterable[LogByteRange]) -> dict[str, str]:
    """Returns the name of each topic by its id. Batches that contain no TopicRecord are not decoded."""
    names: dict[str, str] = {}
    for part in parts:
        content = read_range(part)
        for item in scan(content):
            if not isinstance(item, RecordBatch) or content.find(_TOPIC_RECORD, item.body, item.end) < 0:
                continue
            for event in decode_snapshot_piece(content[item.position : item.end], end_offset=0, epoch=0).events():
                if isinstance(event, TopicCreated):
                    names[event.topic_id] = event.name
    return names
