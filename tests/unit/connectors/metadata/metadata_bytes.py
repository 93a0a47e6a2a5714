"""Record batches for tests: built from Kafka's format, and files that Kafka's own classes wrote."""

import json
import lzma
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any

from google_crc32c import value as crc32c

DATA = Path(__file__).parents[3] / "data" / "metadata"
_HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def varint(value: int) -> bytes:
    """A zigzag varint."""
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value: str | None) -> bytes:
    """A compact (nullable) string."""
    return b"\0" if value is None else uvarint(len(value.encode()) + 1) + value.encode()


def ints(values: list[int] | None) -> bytes:
    """A compact (nullable) array of int32."""
    if values is None:
        return b"\0"
    return uvarint(len(values) + 1) + b"".join(value.to_bytes(4, "big", signed=True) for value in values)


def tagged(**fields: bytes) -> bytes:
    """Tagged fields, `t5=...` being tag 5."""
    parts = [uvarint(int(tag[1:])) + uvarint(len(value)) + value for tag, value in fields.items()]
    return uvarint(len(parts)) + b"".join(parts)


def data(api_key: int, version: int, body: bytes, *, frame: int = 1) -> bytes:
    """The value of a metadata record."""
    return uvarint(frame) + uvarint(api_key) + uvarint(version) + body


def noop() -> bytes:
    """The value of a NoOpRecord."""
    return data(20, 0, b"\0")


def record(
    value: bytes | None, delta: int, *, key: bytes | None = None, headers: bytes = b"\0", timestamp_delta: int = 0
) -> bytes:
    """One record of a batch."""
    body = b"\0" + varint(timestamp_delta) + varint(delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += (varint(-1) if value is None else varint(len(value)) + value) + headers
    return varint(len(body)) + body


def control(kind: int, value: bytes) -> tuple[bytes, bytes]:
    """Key and value of a control record."""
    return b"\0\0" + kind.to_bytes(2, "big"), value


def batch(
    values: Sequence[bytes | tuple[bytes, bytes]],
    *,
    base_offset: int = 0,
    epoch: int = 1,
    timestamp: int = 1_790_000_000_000,
    attributes: int = 0,
    last_offset_delta: int | None = None,
) -> bytes:
    """A batch of data record values, or of (key, value) of control records."""
    records = b"".join(
        record(value[1], delta, key=value[0]) if isinstance(value, tuple) else record(value, delta)
        for delta, value in enumerate(values)
    )
    if isinstance(values[0], tuple):
        attributes |= 0x20
    return batch_of(
        records,
        len(values),
        base_offset=base_offset,
        epoch=epoch,
        timestamp=timestamp,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
    )


def batch_of(
    records: bytes,
    count: int,
    *,
    base_offset: int = 0,
    epoch: int = 1,
    timestamp: int = 1_790_000_000_000,
    attributes: int = 0,
    last_offset_delta: int | None = None,
) -> bytes:
    """A batch with a valid CRC around any bytes."""
    last = count - 1 if last_offset_delta is None else last_offset_delta
    header = _HEADER.pack(
        base_offset, 49 + len(records), epoch, 2, 0, attributes, last, timestamp, timestamp, -1, -1, -1, count
    )
    whole = bytearray(header + records)
    _CRC.pack_into(whole, 17, crc32c(bytes(whole[21:])))
    return bytes(whole)


@cache
def tinylog() -> tuple[bytes, dict[str, Any]]:
    """A log segment of about 20,000 records that Kafka's classes wrote, and its expected content."""
    return _file("tinylog.log")


@cache
def tinysnapshot() -> tuple[bytes, dict[str, Any]]:
    """A `.checkpoint` of 8,000 partitions that Kafka's classes wrote, and its expected content."""
    return _file("tiny.checkpoint")


def _file(name: str) -> tuple[bytes, dict[str, Any]]:
    return lzma.decompress((DATA / f"{name}.xz").read_bytes()), json.loads((DATA / f"{name}.json").read_text())
