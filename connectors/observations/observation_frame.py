"""An observation as bytes: on a relay's topic, and between Spark's stages."""

import struct

from crc32c import crc32c

from connectors.errors import UndecodableError
from connectors.observations.observation import Observation, ObservationKind

_PREFIX = struct.Struct(">II")
_FIXED = struct.Struct(">QBBHqqqiq")
_MAX_CLUSTER_BYTES = 0xFFFF
_MAX_BODY_BYTES = 256 * 1024 * 1024
_CODE_OF_KIND = {kind: code for code, kind in enumerate(ObservationKind, start=1)}
_KIND_OF_CODE = {code: kind for kind, code in _CODE_OF_KIND.items()}
_HAS_BASE, _HAS_LAST, _HAS_EPOCH, _HAS_WATERMARK = 1, 2, 4, 8


def encoded_observation(row: Observation) -> bytes:
    """Returns one row as one frame.

    Layout, big-endian: u32 length of the body, u32 CRC-32C of the body, body = fixed fields, then the cluster's name
    in UTF-8, then the payload. A bit field states which optional fields are present, because every value is valid:
    `last_offset` is -1 for an empty response to a fetch of offset 0.

    Raises:
        ValueError: the row has no sequence, or its name or payload is too large for a frame.
    """
    cluster = row.cluster.encode()
    length = _FIXED.size + len(cluster) + len(row.payload)
    if row.sequence < 0:
        raise ValueError("a row without a sequence cannot be encoded")
    if len(cluster) > _MAX_CLUSTER_BYTES or length > _MAX_BODY_BYTES:
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


def decoded_observation(content: bytes) -> Observation:
    """Returns the row of one frame.

    Raises:
        UndecodableError: the bytes are not one whole frame, or it holds what no relay writes.
    """
    if len(content) < _PREFIX.size + _FIXED.size:
        raise _not_a_row("it is too short")
    length, checksum = _PREFIX.unpack_from(content)
    body = content[_PREFIX.size :]
    if len(body) != length:
        raise _not_a_row(f"it has {len(body)} bytes, not {length}")
    if crc32c(body) != checksum:
        raise _not_a_row("its CRC-32C does not match")
    sequence, code, present, cluster_bytes, at_ms, base, last, epoch, watermark = _FIXED.unpack_from(body)
    payload_at = _FIXED.size + cluster_bytes
    kind = _KIND_OF_CODE.get(code)
    if kind is None or payload_at > len(body):
        raise _not_a_row("another version of kraftwatch wrote it")
    if sequence >= 1 << 63 or at_ms < 0:
        raise _not_a_row("its sequence or its time is out of range")
    try:
        cluster = body[_FIXED.size : payload_at].decode()
    except UnicodeDecodeError as problem:
        raise _not_a_row(str(problem)) from None
    return Observation(
        cluster=cluster,
        kind=kind,
        observed_at_ms=at_ms,
        base_offset=base if present & _HAS_BASE else None,
        last_offset=last if present & _HAS_LAST else None,
        leader_epoch=epoch if present & _HAS_EPOCH else None,
        high_watermark=watermark if present & _HAS_WATERMARK else None,
        payload=body[payload_at:],
        sequence=sequence,
    )


def _not_a_row(why: str) -> UndecodableError:
    return UndecodableError(f"the message's value is not a row: {why}")
