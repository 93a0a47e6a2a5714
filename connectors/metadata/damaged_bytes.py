"""Finds where a log goes on after damaged bytes, and what stands in their place.

The first 21 bytes of a batch are outside its checksum: base offset, length, leader epoch, magic and the CRC itself. If
they are damaged, the length field does not show where the next batch begins. A batch whose CRC-32C matches and whose
offset comes next does.
"""

import re
from typing import Final

from connectors.metadata.batches import FRAME, HEADER, MAGIC, MAGIC_AT, RecordBatch, has_valid_crc, rejection_reason

_ALL_BITS: Final = 0xFFFFFFFF
_LARGEST_DELTA: Final = 2**31 - 2


class SoundBatchSearch:
    """Finds the sound batches after damaged bytes of one chunk of a log."""

    def __init__(self, chunk: bytes) -> None:
        self._chunk = chunk
        self._bytes_left = 2 * len(chunk)
        """How many more are compared with a checksum: bytes may look like the headers of many large batches."""

    def next(self, start: int, *, expected: int, high_watermark: int | None, epochs: range) -> RecordBatch | None:
        """Returns the first sound batch at or after `start` that comes after offset `expected`.

        Returns None if there is none, and from then on: the work is bounded, whatever the bytes are.

        Args:
            start: position of the first damaged byte.
            expected: the offset that is damaged.
            high_watermark: a batch right at `start` shows that the damaged bytes are missing. Then its offset is below
                the high watermark, and the next batch goes on after it; otherwise its own offset may be damaged.
            epochs: the possible leader epochs.
        """
        if self._bytes_left < 0:
            return None
        for found in _headers(expected, len(self._chunk) - start).finditer(self._chunk, start):
            position = found.start()
            batch = RecordBatch(position, *HEADER.unpack_from(self._chunk, position))
            if batch.size < HEADER.size or batch.end > len(self._chunk) or batch.leader_epoch not in epochs:
                continue
            if not 0 < batch.base_offset - expected <= _LARGEST_DELTA or rejection_reason(batch, None) is not None:
                continue
            if position > start:
                fits = batch.base_offset - expected <= position - start
            else:
                committed = high_watermark is not None and batch.base_offset < high_watermark
                fits = committed and _goes_on(self._chunk, batch)
            if not fits:
                continue
            self._bytes_left -= batch.size
            if self._bytes_left < 0:
                return None
            if has_valid_crc(self._chunk, batch):
                return batch
        self._bytes_left = -1
        return None


def _headers(expected: int, size: int) -> re.Pattern[bytes]:
    """Returns what finds each position where the header of a later batch may begin, within so many bytes."""
    # A record has a byte at least.
    prefixes = {offset.to_bytes(8, "big")[:4] for offset in (expected + 1, expected + size + 1)}
    offset = b"(?:" + b"|".join(map(re.escape, sorted(prefixes))) + b").{4}"
    length, epoch, rest = b"[\0\1].{3}", b"[\0-\x7f].{3}", b".{%d}" % (HEADER.size - MAGIC_AT - 1)
    return re.compile(b"(?=" + offset + length + epoch + b"\x02" + rest + b")", re.DOTALL)


def _goes_on(chunk: bytes, batch: RecordBatch) -> bool:
    """Returns whether the batch is the last one, or the next one has the offset after it."""
    following = chunk[batch.end : batch.end + 8]
    return len(following) < 8 or int.from_bytes(following, "big") == batch.last_offset + 1


def in_place_of(damaged: bytes, *, base_offset: int, last_offset: int, leader_epoch: int) -> bytes:
    """Returns damaged bytes as one batch with these offsets: the same bytes, if their header says so already.

    The CRC stays. If only the bytes before it were damaged, it matches, and the records can be read. Otherwise the
    decoder quarantines the batch.
    """
    content, delta = damaged.ljust(HEADER.size, b"\0"), last_offset - base_offset
    header = RecordBatch(0, *HEADER.unpack_from(content))._replace(
        base_offset=base_offset, length=len(content) - FRAME, leader_epoch=leader_epoch, magic=MAGIC
    )
    if header.last_offset_delta != delta:
        # The CRC covers this field: no leader wrote it.
        header = header._replace(last_offset_delta=delta, record_count=delta + 1, crc=header.crc ^ _ALL_BITS)
    return HEADER.pack(*header[1:]) + content[HEADER.size :]
