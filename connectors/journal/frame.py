"""A frame: one observation on disk.

Layout, big-endian: u32 length of the body, u32 CRC-32C of the body, body = fixed fields, then the cluster's name
in UTF-8, then the payload. A bit field states which optional fields are present, because every value is valid:
`last_offset` is -1 for an empty response to a fetch of offset 0.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

from crc32c import crc32c

from connectors.observation import Observation, ObservationKind

_PREFIX = struct.Struct(">II")
_FIXED = struct.Struct(">QBBHqqqiq")
_MAX_CLUSTER_BYTES = 0xFFFF
MAX_BODY_BYTES = 256 * 1024 * 1024
"""The largest valid length: it limits how much a damaged prefix can make a reader read."""

_CODE_OF_KIND = {kind: code for code, kind in enumerate(ObservationKind, start=1)}
_KIND_OF_CODE = {code: kind for kind, code in _CODE_OF_KIND.items()}
_HAS_BASE, _HAS_LAST, _HAS_EPOCH, _HAS_WATERMARK = 1, 2, 4, 8


class BadFrameError(ValueError):
    """The bytes are not a whole frame: a crash cut it off, or it is damaged. `position` is where the frame begins."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} at byte {position}")
        self.position = position
        self.reason = reason


def encode(row: Observation) -> bytes:
    """Returns one row as one frame.

    Raises:
        ValueError: the row has no sequence, or its name or payload is too large for a frame.
    """
    cluster = row.cluster.encode()
    length = _FIXED.size + len(cluster) + len(row.payload)
    if row.sequence < 0:
        raise ValueError("a row without a sequence cannot be encoded")
    if len(cluster) > _MAX_CLUSTER_BYTES or length > MAX_BODY_BYTES:
        raise ValueError(f"a row of {length} bytes of cluster {row.cluster[:80]!r} is larger than a frame can hold")
    present = (
        (_HAS_BASE if row.base_offset is not None else 0)
        | (_HAS_LAST if row.last_offset is not None else 0)
        | (_HAS_EPOCH if row.leader_epoch is not None else 0)
        | (_HAS_WATERMARK if row.high_watermark is not None else 0)
    )
    fixed = _FIXED.pack(
        row.sequence,
        _CODE_OF_KIND[row.kind],
        present,
        len(cluster),
        row.observed_at_ms,
        row.base_offset or 0,
        row.last_offset or 0,
        row.leader_epoch or 0,
        row.high_watermark or 0,
    )
    body = b"".join((fixed, cluster, row.payload))
    return _PREFIX.pack(length, crc32c(body)) + body


def read(file: BinaryIO, position: int) -> tuple[Observation, int] | None:
    """Reads the frame at `position`, the current position of `file`.

    Returns:
        The row and the position after its frame; None at the end of the file.

    Raises:
        BadFrameError: the bytes there are not a whole frame.
    """
    prefix = file.read(_PREFIX.size)
    if not prefix:
        return None
    if len(prefix) < _PREFIX.size:
        raise BadFrameError(position, "the frame's prefix is cut short")
    length, checksum = _PREFIX.unpack(prefix)
    if not _FIXED.size <= length <= MAX_BODY_BYTES:
        raise BadFrameError(position, f"invalid frame length {length}")
    body = file.read(length)
    if len(body) < length:
        raise BadFrameError(position, "the frame is cut short")
    if crc32c(body) != checksum:
        raise BadFrameError(position, "the frame's CRC-32C does not match")
    return _decode(body, position), position + _PREFIX.size + length


def scan(file: BinaryIO, position: int, sequence: int) -> Iterator[tuple[int, Observation]]:
    """Yields every row from `position` on, each with the position after it. Sequences must count up from `sequence`.

    Raises:
        BadFrameError: at the first position without a whole frame of the expected sequence.
    """
    file.seek(position)
    while (found := read(file, position)) is not None:
        row, after = found
        if row.sequence != sequence:
            raise BadFrameError(position, f"found row {row.sequence}, expected row {sequence}")
        yield after, row
        position, sequence = after, sequence + 1


def _decode(body: bytes, position: int) -> Observation:
    sequence, code, present, cluster_bytes, at_ms, base, last, epoch, watermark = _FIXED.unpack_from(body)
    payload_at = _FIXED.size + cluster_bytes
    kind = _KIND_OF_CODE.get(code)
    if kind is None or payload_at > len(body):
        raise BadFrameError(position, "the frame was written by another version of kraftwatch")
    return Observation(
        cluster=body[_FIXED.size : payload_at].decode(),
        kind=kind,
        observed_at_ms=at_ms,
        base_offset=base if present & _HAS_BASE else None,
        last_offset=last if present & _HAS_LAST else None,
        leader_epoch=epoch if present & _HAS_EPOCH else None,
        high_watermark=watermark if present & _HAS_WATERMARK else None,
        payload=body[payload_at:],
        sequence=sequence,
    )
