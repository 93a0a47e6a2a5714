"""Rows and batches for the tests of the journal."""

import struct

from connectors.metadata.batches import HEADER
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.follow_progress import FollowProgress
from connectors.store.journal_writer import JournalWriter

SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 3, 4


def poll(at_ms: int = 0, *, cluster: str = "alpha", payload: bytes = b"{}") -> Observation:
    return Observation(cluster=cluster, kind=ObservationKind.QUORUM, observed_at_ms=at_ms, payload=payload)


def progress_of(writer: JournalWriter, cluster: str) -> FollowProgress:
    found = writer.follow_progress(cluster)
    assert found is not None
    return found


def records(
    *batches: bytes, base: int, last: int, epoch: int = 1, at_ms: int = 0, cluster: str = "alpha"
) -> Observation:
    return Observation(
        cluster=cluster,
        kind=ObservationKind.RECORDS,
        observed_at_ms=at_ms,
        base_offset=base,
        last_offset=last,
        leader_epoch=epoch,
        high_watermark=last + 1,
        payload=b"".join(batches),
    )


def piece(number: int, *batches: bytes, end_offset: int = 500, epoch: int = 3) -> Observation:
    return Observation(
        cluster="alpha",
        kind=ObservationKind.SNAPSHOT,
        observed_at_ms=0,
        base_offset=end_offset,
        last_offset=number,
        leader_epoch=epoch,
        payload=b"".join(batches),
    )


def batch(offset: int, epoch: int, *, control: int | None = None) -> bytes:
    """One record batch of one record; with `control`, a control record of that type. The CRC is not computed."""
    key = b"" if control is None else struct.pack(">hh", 0, control)
    # Attributes, timestamp delta, offset delta, key length and key, value length and value, no headers.
    record = b"\x00\x00\x00" + _varint(len(key)) + key + _varint(0) + b"\x00"
    content = _varint(len(record)) + record
    attributes = 0 if control is None else 0x20
    length = HEADER.size - 12 + len(content)
    return HEADER.pack(offset, length, epoch, 2, 0, attributes, 0, 0, 0, -1, -1, -1, 1) + content


def _varint(value: int) -> bytes:
    assert 0 <= value < 64
    return bytes([value << 1])
