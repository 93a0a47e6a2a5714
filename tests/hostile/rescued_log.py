"""A log directory with hostile batches: a rescue refuses it, or its snapshot holds all that Kafka reads.

What Kafka reads is found here from Kafka's format, without the product: its recovery of a segment
(`LogSegment.recover`), its records (`RecordsIterator`) and its transactions (`MetadataBatchLoader`).
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from struct import Struct

from google_crc32c import value as crc32c

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import PARTITION
from streaming.rescue.apply_voters import apply_voters
from tests.hostile.hostile_log import hostile_log
from tests.unit.connectors.logdir.dynamic_log import DIRECTORY, dynamic_log, marker, topic
from tests.unit.connectors.logdir.log_dirs import write_log_dir

_HEADER = Struct(">qiibIhiqqqhii")
_FRAME, _CHECKED_AT = 12, 21
_WANTED = f"1@new:9093:{DIRECTORY}"
_OLD_HOST, _NEW_HOST = b"\3c1\x23\x85", b"\4new\x23\x85"
_META = f"version=1\ncluster.id=a\nnode.id=1\ndirectory.id={DIRECTORY}\n"
_TRANSACTIONS = (23, 24, 25)
_BEGIN, _END, _ABORT = _TRANSACTIONS


class NotPlainError(Exception):
    """Kafka may read more than batches that follow each other with records that KRaft writes: a rescue must refuse."""


@dataclass(slots=True, kw_only=True)
class KafkaRecords:
    """What Kafka reads."""

    values: list[bytes] = field(default_factory=list)
    """Of metadata records, without transactions."""
    control: dict[int, bytes] = field(default_factory=dict)
    """The newest control record of each type."""


def rescued(folder: Path, rng: Random, secret: str) -> str:
    """Rescues a node whose log is hostile."""
    shutil.rmtree(folder, ignore_errors=True)
    first = [[topic("a", 1)], [marker(_BEGIN), topic("b", 2), marker(rng.choice((_END, _ABORT)))]]
    log = dynamic_log(*first) + hostile_log(rng, base_offset=7, secret=secret)
    write_log_dir(folder / "node", {0: log})
    (folder / "node" / "meta.properties").write_text(_META)
    partition = folder / "node" / PARTITION
    try:
        result = apply_voters(folder / "node", _WANTED, write=True)
    except UsageError as refused:
        assert "\n" not in str(refused), f"more than one line: {refused}"
        assert [path.name for path in partition.iterdir()] == [f"{0:020d}.log"], "a refused rescue wrote a file"
        return "refused"
    assert result.snapshot is not None
    try:
        expected = kafka_records(log)
    except NotPlainError as problem:
        raise AssertionError(f"not refused: {problem}") from None
    found = kafka_records((partition / result.snapshot).read_bytes(), snapshot=True)
    assert found.values == expected.values, "the snapshot holds other records than the log"
    assert found.control[5] == expected.control[5], "the snapshot has another kraft.version"
    assert found.control[6] == expected.control[6].replace(_OLD_HOST, _NEW_HOST), "more than the endpoint changed"
    return "rescued"


def kafka_records(content: bytes, *, snapshot: bool = False) -> KafkaRecords:
    """Returns what Kafka reads; raises NotPlainError."""
    found = KafkaRecords()
    position = next_offset = epoch = 0
    held: list[bytes] | None = None
    while len(content) - position >= _HEADER.size:
        base, length, of_epoch, magic, crc, attributes, last, _, _, _, _, _, count = _HEADER.unpack_from(
            content, position
        )
        end = position + _FRAME + length
        if length < _HEADER.size - _FRAME or end > len(content) or magic < 2:
            break
        if crc32c(content[position + _CHECKED_AT : end]) != crc:
            break
        if magic > 2 or attributes & 7 or (base, last) != (next_offset, count - 1) or count < 1 or of_epoch < epoch:
            raise NotPlainError(f"a batch at offset {base} of magic {magic}, attributes {attributes}, epoch {of_epoch}")
        for key, value in _records(content[position + _HEADER.size : end], count):
            if attributes & 0x20:
                _add_control(found, key, value, snapshot=snapshot)
            elif value[:2] == bytes((1, _BEGIN)):
                held = []
            elif value[:2] in (bytes((1, _END)), bytes((1, _ABORT))):
                found.values += (held or []) if value[1] == _END else []
                held = None
            else:
                (found.values if held is None else held).append(value)
        position, next_offset, epoch = end, base + count, of_epoch
    if held is not None:
        raise NotPlainError("a transaction is open")
    return found


def _add_control(found: KafkaRecords, key: bytes, value: bytes, *, snapshot: bool) -> None:
    type_ = int.from_bytes(key[2:4], "big", signed=True)
    if type_ not in ((3, 4, 5, 6) if snapshot else (2, 5, 6)):
        raise NotPlainError(f"a control record of type {type_}")
    if type_ == 5 and value[2:4] not in (b"\0\0", b"\0\1"):
        raise NotPlainError("a later kraft.version")
    found.control[type_] = value


def _records(body: bytes, count: int) -> list[tuple[bytes, bytes]]:
    """Returns key and value of each record; those that cannot be read are an empty key and the rest of the body."""
    found: list[tuple[bytes, bytes]] = []
    at = 0
    for _ in range(count):
        try:
            size, begin = _varint(body, at)
            _, after = _varint(body, begin + 1)
            _, after = _varint(body, after)
            key, after = _bytes(body, after)
            value, after = _bytes(body, after)
        except IndexError:
            break
        if size < 0 or begin + size > len(body) or after != begin + size - 1:
            break
        found.append((key, value))
        at = begin + size
    return found if at == len(body) else [*found, (b"", body)]


def _bytes(body: bytes, at: int) -> tuple[bytes, int]:
    size, at = _varint(body, at)
    size = max(size, 0)
    return body[at : at + size], at + size


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while body[at] & 0x80:
        value |= (body[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    value |= body[at] << shift
    return (value >> 1) ^ -(value & 1), at + 1
