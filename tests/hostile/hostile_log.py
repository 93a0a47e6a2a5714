"""Hostile parts of a metadata log or snapshot: real and random batches with mutated fields, mostly with a valid CRC."""

import struct
from functools import cache
from random import Random

from connectors.metadata.batches import HEADER, RecordBatch, scan, write_crc
from tests.hostile.byte_mutation import SPECIAL_NUMBERS, mutated
from tests.hostile.random_record import credential_value, random_control, random_value, truncated_tags
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, control, record, tinylog, tinysnapshot

_FORMATS = "qiibIhiqqqhii"
_CRC_FIELD = 4
_NOW_MS = 1_790_000_000_000
_YEAR_10000_MS = 253_402_300_800_000
_TIMESTAMPS = (_NOW_MS, _NOW_MS, _NOW_MS, 0, -1, -2, _YEAR_10000_MS - 1, _YEAR_10000_MS, 2**62, 2**63 - 1, -(2**63))


def hostile_log(rng: Random, *, base_offset: int, secret: str) -> bytes:
    """Returns batches that continue a log at `base_offset`, some of them hostile."""
    batches, offset = [], base_offset
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        made = _batch(rng, offset, secret)
        offset += max(1, struct.unpack_from(">i", made, 23)[0] + 1)
        batches.append(_hostile_batch(made, rng) if rng.random() < 0.6 else made)
    payload = b"".join(batches)
    if rng.random() < 0.15:
        payload = mutated(payload, rng, times=rng.choice((1, 1, 2, 5)))
    return payload


def hostile_snapshot(rng: Random, *, secret: str) -> bytes:
    """Returns a snapshot of which some batches are hostile."""
    header = batch([control(3, struct.pack(">hq", 0, rng.choice(_TIMESTAMPS)) + b"\0")])
    footer = batch([control(4, struct.pack(">h", 0) + b"\0")], base_offset=rng.randrange(2, 9))
    log = hostile_log(rng, base_offset=1, secret=secret)
    parts = [header, log, footer] if rng.random() < 0.8 else rng.sample([header, log, footer], 3)
    return b"".join(parts)


def _batch(rng: Random, offset: int, secret: str) -> bytes:
    kind = rng.random()
    timestamp = _NOW_MS if rng.random() < 0.8 else rng.choice(_TIMESTAMPS)
    epoch = 9 if rng.random() < 0.8 else rng.choice((0, 1, 10, -1, 2**31 - 1))
    if kind < 0.2:
        return _at(rng.choice(_real_batches()), offset)
    if kind < 0.45:
        controls = [random_control(rng) for _ in range(rng.choice((1, 1, 2)))]
        return batch(controls, base_offset=offset, epoch=epoch, timestamp=timestamp)
    values = [_record_value(rng, secret) for _ in range(rng.choice((1, 1, 2, 4)))]
    if kind < 0.9:
        return batch(values, base_offset=offset, epoch=epoch, timestamp=timestamp)
    records = b"".join(
        record(
            value,
            delta if rng.random() < 0.9 else rng.choice((-1, 0, 2**31)),
            key=None if rng.random() < 0.8 else secret.encode(),
            headers=b"\0" if rng.random() < 0.8 else b"\2\2k\2v",
            timestamp_delta=0 if rng.random() < 0.7 else rng.choice((1, -1, 2**61, -(2**61), 2**40)),
        )
        for delta, value in enumerate(values)
    )
    return batch_of(records, len(values), base_offset=offset, epoch=epoch, timestamp=timestamp)


def _record_value(rng: Random, secret: str) -> bytes:
    value = credential_value(rng, secret) if rng.random() < 0.25 else random_value(rng)
    if rng.random() < 0.05:
        value = truncated_tags(value, rng)
    elif rng.random() < 0.05:
        value = mutated(value, rng)
    return value


def _hostile_batch(content: bytes, rng: Random) -> bytes:
    """Returns one batch with a changed header field or changed bytes, nearly always with a valid CRC."""
    out = bytearray(content)
    if rng.random() < 0.6:
        fields = list(HEADER.unpack_from(out))
        at = rng.choice([index for index in range(len(fields)) if index != _CRC_FIELD])
        fields[at] = _fitting(_FORMATS[at], rng)
        HEADER.pack_into(out, 0, *fields)
    else:
        body = mutated(bytes(out[HEADER.size :]), rng, times=rng.choice((1, 1, 3)))
        out[HEADER.size :] = body
        if rng.random() < 0.9:
            out[8:12] = struct.pack(">i", len(out) - 12)
    if rng.random() < 0.95 and len(out) > HEADER.size:
        write_crc(out)
    return bytes(out)


def _fitting(code: str, rng: Random) -> int:
    size = struct.calcsize(f">{code}")
    values = 1 << (8 * size)
    number = rng.choice((*SPECIAL_NUMBERS, *_TIMESTAMPS)) % values
    return number if code == "I" or number < values // 2 else number - values


@cache
def _real_batches() -> list[bytes]:
    """Returns batches that Kafka's own classes wrote: every different size once, which covers every record type."""
    found: dict[int, bytes] = {}
    for content in (tinylog()[0], tinysnapshot()[0]):
        for item in scan(content):
            if isinstance(item, RecordBatch) and item.size < 20_000:
                found.setdefault(item.size, content[item.position : item.end])
    return list(found.values())


def _at(content: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + content[8:]
