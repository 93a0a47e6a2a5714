"""Record batches (magic 2): where each begins, whether it is whole and undamaged, and what its header says.

The layout is Kafka's `DefaultRecordBatch`. The CRC-32C covers everything behind the CRC field; base
offset, length, leader epoch and magic stand before it, so the base offset is checked against the batch
before. A batch may end anywhere in a chunk that was cut by size: a torn tail is an answer, not an error.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

HEADER: Final = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and maximal timestamp,
producer id and epoch, base sequence, record count: 61 bytes."""
FRAME: Final = 12
"""Bytes before those that the length field counts."""
CRC_AT: Final = 17
CHECKED_AT: Final = 21
"""Where the bytes begin that the CRC covers."""
MAGIC_AT: Final = 16
MAGIC: Final = 2
_COMPRESSION: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_COMPRESSION_BITS: Final = 0x07
_CONTROL_BIT: Final = 0x20
_FRAME: Final = Struct(">qi")
_SHORT: Final = (0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""Stands for a header that is cut off."""
_LARGEST: Final = 2**62
"""Of offsets and timestamps: whatever is added to them stays within 64 bits."""
_CRC: Final = Struct(">I")

Chunk: TypeAlias = bytes | memoryview
"""Bytes that hold record batches one behind the other."""


class RecordBatch(NamedTuple):
    """A whole batch with the right CRC. A tuple, for an idle log is hundreds of thousands of one-record batches."""

    position: int
    """Where it begins in the chunk."""
    base_offset: int
    length: int
    """The length field: bytes from the leader epoch to the end; `size` is the whole."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """Milliseconds since the Unix epoch, by the clock of the controller that led."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
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
        """Holds KRaft's own records (KIP-595), not metadata."""
        return bool(self.attributes & _CONTROL_BIT)

    @property
    def compression(self) -> str:
        """Kafka's name of the codec; `none` for every batch that `scan` gives as a Batch."""
        codec = self.attributes & _COMPRESSION_BITS
        return _COMPRESSION[codec] if codec < len(_COMPRESSION) else f"codec {codec}"


class BadBatch(NamedTuple):
    """A batch that cannot be read, or is not where it should be; the scan goes on behind it."""

    position: int
    size: int
    """Bytes passed over: the batch as its length field has it, or all that is left where that cannot be believed."""
    base_offset: int | None
    """None where the header cannot be believed."""
    reason: str
    header: RecordBatch | None = None
    """The header, where the CRC vouches for it: a batch that is undamaged but not ours to read."""


class TornTail(NamedTuple):
    """The chunk ends inside a batch."""

    position: int
    size: int
    """Bytes there are of it."""
    base_offset: int | None
    """None when the chunk ends inside the offset."""
    missing: int | None
    """Bytes that are not there; None when the chunk ends inside the length field."""


ScanItem: TypeAlias = RecordBatch | BadBatch | TornTail


def scan(chunk: Chunk, *, expected: int | None = None) -> Iterator[ScanItem]:
    """Walk the batches of a chunk in order; never raises, whatever the bytes are.

    Args:
        chunk: record batches one behind the other, the last perhaps cut off.
        expected: the base offset that the first batch must have; None takes the first as it is.

    Yields:
        Every byte of the chunk belongs to exactly one of the values. After a TornTail nothing comes; nor
        after a BadBatch that ends where the chunk ends.
    """
    position = 0
    end = len(chunk)
    view = memoryview(chunk)
    unpack = HEADER.unpack_from
    while position < end:
        fields = unpack(chunk, position) if end - position >= HEADER.size else _SHORT
        length = fields[1]
        after = position + FRAME + length
        if fields[3] != MAGIC or length < HEADER.size - FRAME or after > end:
            expected = None
            odd = _unreadable(chunk, position)
            yield odd
            position += odd.size
            continue
        if crc32c(view[position + CHECKED_AT : after]) == fields[4]:
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


def _unreadable(chunk: Chunk, position: int) -> BadBatch | TornTail:
    """What stands where no whole batch of magic 2 does: a torn tail, or a batch of no use."""
    left = len(chunk) - position
    if left < FRAME:
        base_offset = int.from_bytes(chunk[position : position + 8], "big", signed=True) if left >= 8 else None
        return TornTail(position, left, base_offset, None)
    base_offset, length = _FRAME.unpack_from(chunk, position)
    magic = chunk[position + MAGIC_AT] if left > MAGIC_AT else MAGIC
    size = FRAME + length
    if length < HEADER.size - FRAME:
        return BadBatch(position, left, None, f"a batch length of {length} cannot be: what follows is passed over")
    if magic == MAGIC:
        return TornTail(position, left, base_offset, size - left)
    if size > left:
        return BadBatch(position, left, None, f"magic {magic} where 2 belongs: what follows is passed over")
    return BadBatch(position, size, base_offset, f"magic {magic} where 2 belongs")


def rejection_reason(batch: RecordBatch, expected: int | None) -> str | None:
    """Why an undamaged batch is not read, or None."""
    if batch.attributes & _COMPRESSION_BITS:
        return f"compressed with {batch.compression}, which KRaft never writes: not read"
    if batch.last_offset_delta != batch.record_count - 1 or batch.record_count < 1:
        return f"{batch.record_count} records cannot have the last offset delta {batch.last_offset_delta}"
    if not 0 <= batch.base_offset <= _LARGEST:
        return f"the base offset {batch.base_offset} cannot be"
    if batch.leader_epoch < 0:
        # Epochs begin with 0 (KIP-595); the CRC does not cover this field.
        return f"the leader epoch {batch.leader_epoch} cannot be"
    if not (-1 <= batch.base_timestamp <= _LARGEST and -1 <= batch.max_timestamp <= _LARGEST):
        return f"the timestamps {batch.base_timestamp} and {batch.max_timestamp} cannot be"
    if expected is not None and batch.base_offset != expected:
        return f"base offset {batch.base_offset} where {expected} follows"
    return None


def write_crc(batch: bytearray | memoryview) -> None:
    """Write the right CRC-32C into one whole batch whose body was changed in place."""
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CHECKED_AT:]))
