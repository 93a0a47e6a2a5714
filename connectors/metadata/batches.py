"""Finds and checks the record batches (magic 2) in a chunk of bytes.

The layout is Kafka's `DefaultRecordBatch`. The CRC-32C covers all bytes after the CRC field. Base offset, length,
leader epoch and magic come before it, so the base offset is checked against the batch before. A chunk that was cut by
size may end inside a batch: a torn tail is a valid result, not an error.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from google_crc32c import value as crc32c

from connectors.metadata.value_limits import LARGEST_OFFSET, LATEST_TIMESTAMP_MS, NO_TIMESTAMP

HEADER: Final = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and maximal timestamp,
producer id and epoch, base sequence, record count: 61 bytes."""
FRAME: Final = 12
"""Bytes of base offset and length: the length field does not count them."""
CRC_AT: Final = 17
CHECKED_AT: Final = 21
"""Position of the first byte that the CRC covers."""
MAGIC_AT: Final = 16
MAGIC: Final = 2
_COMPRESSION: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_COMPRESSION_BITS: Final = 0x07
_CONTROL_BIT: Final = 0x20
_FRAME: Final = Struct(">qi")
_CUT_OFF_HEADER: Final = (0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""Replaces a header that is cut off."""
_CRC: Final = Struct(">I")


class RecordBatch(NamedTuple):
    """A whole batch with a valid CRC. A tuple, because an idle log holds hundreds of thousands of small batches."""

    position: int
    """Where it begins in the chunk."""
    base_offset: int
    length: int
    """The length field: bytes from the leader epoch to the end. `size` includes the bytes before."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """Milliseconds since the Unix epoch, by the leader's clock."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes."""
        return FRAME + self.length

    @property
    def end(self) -> int:
        """Where the next batch begins in the chunk."""
        return self.position + FRAME + self.length

    @property
    def body(self) -> int:
        """Where the first record begins in the chunk."""
        return self.position + HEADER.size

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def is_control(self) -> bool:
        """Whether the batch holds KRaft control records (KIP-595) instead of metadata records."""
        return bool(self.attributes & _CONTROL_BIT)

    @property
    def compression(self) -> str:
        """Kafka's name of the codec; `none` for every batch that `scan` yields as a RecordBatch."""
        codec = self.attributes & _COMPRESSION_BITS
        return _COMPRESSION[codec] if codec < len(_COMPRESSION) else f"codec {codec}"


class BadBatch(NamedTuple):
    """A batch that cannot be read or has an unexpected offset. The scan continues after it."""

    position: int
    size: int
    """Bytes skipped: the batch by its length field, or the rest of the chunk if the length is invalid."""
    base_offset: int | None
    """None if the header is invalid."""
    reason: str
    header: RecordBatch | None = None
    """The header if its CRC is valid: the batch is undamaged, but it is rejected for another reason."""


class TornTail(NamedTuple):
    """The chunk ends inside a batch."""

    position: int
    size: int
    """Bytes of the batch that are present."""
    base_offset: int | None
    """None if the chunk ends inside the offset."""
    missing: int | None
    """Bytes of the batch that are missing; None if the chunk ends inside the length field."""


ScanItem: TypeAlias = RecordBatch | BadBatch | TornTail


def scan(chunk: bytes, *, start: int = 0, expected: int | None = None) -> Iterator[ScanItem]:
    """Yields the batches of a chunk in order. Never raises, whatever the bytes are.

    Args:
        chunk: consecutive record batches; the last may be cut off.
        start: position of the first batch.
        expected: the base offset that the first batch must have; None accepts any.

    Yields:
        Every byte from `start` on belongs to exactly one of the values. A TornTail is always the last value.
    """
    position, end = start, len(chunk)
    unpack = HEADER.unpack_from
    while position < end:
        fields = unpack(chunk, position) if end - position >= HEADER.size else _CUT_OFF_HEADER
        length = fields[1]
        after = position + FRAME + length
        if fields[3] != MAGIC or length < HEADER.size - FRAME or after > end:
            expected = None
            bad = _unreadable(chunk, position)
            yield bad
            position += bad.size
            continue
        if crc32c(chunk[position + CHECKED_AT : after]) == fields[4]:
            batch = RecordBatch(position, *fields)
            reason = rejection_reason(batch, expected)
            expected = (batch.base_offset if expected is None else expected) + max(batch.last_offset_delta, 0) + 1
            if reason is None:
                yield batch
            else:
                yield BadBatch(position, after - position, batch.base_offset, reason, batch)
        else:
            expected = None
            offset = fields[0] if fields[0] >= 0 else None
            yield BadBatch(position, after - position, offset, "the CRC-32C does not match: the batch is damaged")
        position = after


def _unreadable(chunk: bytes, position: int) -> BadBatch | TornTail:
    """Returns what is at a position without a whole batch of magic 2: a torn tail or a bad batch."""
    left = len(chunk) - position
    if left < FRAME:
        base_offset = int.from_bytes(chunk[position : position + 8], "big", signed=True) if left >= 8 else None
        return TornTail(position, left, base_offset, None)
    base_offset, length = _FRAME.unpack_from(chunk, position)
    magic = chunk[position + MAGIC_AT] if left > MAGIC_AT else MAGIC
    size = FRAME + length
    if length < HEADER.size - FRAME:
        return BadBatch(position, left, None, f"invalid batch length {length}: the rest is skipped")
    if magic == MAGIC:
        return TornTail(position, left, base_offset, size - left)
    if size > left:
        return BadBatch(position, left, None, f"magic {magic}, expected 2: the rest is skipped")
    return BadBatch(position, size, base_offset, f"magic {magic}, expected 2")


def rejection_reason(batch: RecordBatch, expected: int | None) -> str | None:
    """Returns why an undamaged batch is not read, or None."""
    if batch.attributes & _COMPRESSION_BITS:
        return f"compressed with {batch.compression}, which KRaft never writes: not read"
    if batch.last_offset_delta != batch.record_count - 1 or batch.record_count < 1:
        return f"a record count of {batch.record_count} does not match the last offset delta {batch.last_offset_delta}"
    if not 0 <= batch.base_offset <= LARGEST_OFFSET - batch.last_offset_delta:
        return f"invalid base offset {batch.base_offset}"
    if batch.leader_epoch < 0:
        # Epochs begin with 0 (KIP-595); the CRC does not cover this field.
        return f"invalid leader epoch {batch.leader_epoch}"
    lowest, highest = NO_TIMESTAMP, LATEST_TIMESTAMP_MS
    if not (lowest <= batch.base_timestamp <= highest and lowest <= batch.max_timestamp <= highest):
        found = f"{batch.base_timestamp} and {batch.max_timestamp}"
        return f"invalid base and maximal timestamp {found}, expected {lowest} to {highest}"
    if expected is not None and batch.base_offset != expected:
        return f"base offset {batch.base_offset}, expected {expected}"
    return None


def has_valid_crc(chunk: bytes, batch: RecordBatch) -> bool:
    """Returns whether the CRC-32C of a batch, which is whole, matches its bytes in the chunk."""
    return bool(crc32c(chunk[batch.position + CHECKED_AT : batch.end]) == batch.crc)


def write_crc(batch: bytearray | memoryview) -> None:
    """Writes the valid CRC-32C into one whole batch whose body was changed in place."""
    _CRC.pack_into(batch, CRC_AT, crc32c(bytes(batch[CHECKED_AT:])))
