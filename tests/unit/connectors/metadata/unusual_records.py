"""Metadata records of the shape that Kafka writes, and records of other shapes or with values that no Kafka writes."""

import struct
from collections.abc import Iterator
from random import Random

from connectors.metadata.batches import HEADER, RecordBatch, scan, write_crc
from tests.hostile.byte_mutation import mutated
from tests.unit.connectors.metadata.metadata_bytes import data, ints, record, tagged, text, uvarint, varint

KEY = (7).to_bytes(4, "big") + bytes(range(16))
NO_TOPIC = (7).to_bytes(4, "big") + bytes(16)


def numbers(*of: int) -> bytes:
    return struct.pack(f">{len(of)}i", *of)


def partition(
    version: int = 2,
    *,
    key: bytes = KEY,
    replicas: bytes = ints([1, 2, 3]),
    isr: bytes = ints([1, 2]),
    removing: bytes = ints([]),
    adding: bytes = ints([]),
    leadership: bytes = numbers(1, 4, 9),
    directories: bytes = uvarint(3) + bytes(32),
    tags: bytes = b"\0",
) -> bytes:
    body = key + replicas + isr + removing + adding + leadership + (directories if version else b"")
    return data(3, version, body + tags)


def change(version: int = 2, *, key: bytes = KEY, **tags: bytes) -> bytes:
    return data(5, version, key + tagged(**tags))


USUAL = {
    "partition v0": partition(0),
    "partition v1": partition(1),
    "partition v2": partition(),
    "no leader, no epoch": partition(leadership=numbers(-1, -1, -1)),
    "recovering, elr": partition(tags=tagged(t0=b"\1", t1=ints([3]), t2=ints([2, 9]))),
    "null elr": partition(tags=tagged(t1=ints(None), t2=ints([]))),
    "no isr": partition(isr=ints([])),
    "reassigned": partition(removing=ints([1]), adding=ints([4])),
    "half of a topic id": partition(key=numbers(7) + bytes(15) + b"\1"),
    "node 0": partition(replicas=ints([1, 0]), isr=ints([0])),
    "126 replicas": partition(replicas=ints([*range(126)])),
    "change of nothing": change(),
    "isr and leader": change(t0=ints([5, 6]), t1=numbers(5)),
    "no leader": change(0, t1=numbers(-1)),
    "leader unchanged, explicitly": change(t1=numbers(-2)),
    "reassignment": change(t0=ints(None), t2=ints([1, 2]), t3=ints([1]), t4=ints([])),
    "recovery": change(t5=b"\0"),
    "elr": change(t6=ints([]), t7=ints([1, 2]), t8=uvarint(2) + bytes(16)),
    "no directories": change(t8=uvarint(1)),
    "topic": data(2, 0, text("orders-1_a.b") + bytes(range(16)) + b"\0"),
}
UNUSUAL = {
    "partition < 0": partition(key=numbers(-1) + bytes(range(16))),
    "no topic id": partition(key=NO_TOPIC),
    "changed partition < 0": change(key=numbers(-5) + bytes(range(16))),
    "change without topic id": change(key=NO_TOPIC),
    "no replicas": partition(replicas=ints([])),
    "null replicas": partition(replicas=ints(None)),
    "null isr": partition(isr=ints(None)),
    "replica twice": partition(replicas=ints([1, 2, 1])),
    "replica twice of many": partition(replicas=ints([*range(12), 3])),
    "negative replica": partition(replicas=ints([-1, 2])),
    "negative replica of many": partition(replicas=ints([*range(12), -3])),
    "isr twice": partition(isr=ints([2, 2])),
    "removing twice": partition(removing=ints([2, 2])),
    "adding a negative": partition(adding=ints([-2])),
    "127 replicas": partition(replicas=ints([*range(127)])),
    "300 replicas": partition(replicas=ints([*range(300)])),
    "leader -2": partition(leadership=numbers(-2, 0, 0)),
    "epoch -2": partition(leadership=numbers(1, -2, 0)),
    "partition epoch -2": partition(leadership=numbers(1, 0, -2)),
    "null directories": partition(directories=b"\0"),
    "200 directories": partition(directories=uvarint(201) + bytes(3200)),
    "state 2": partition(tags=tagged(t0=b"\2")),
    "state -1": partition(tags=tagged(t0=b"\xff")),
    "state of two bytes": partition(tags=tagged(t0=b"\0\0")),
    "elr before its version": partition(1, tags=tagged(t1=ints([3]))),
    "unknown tag": partition(tags=tagged(t9=b"abc")),
    "unknown tag of three bytes": partition(tags=tagged(t70000=b"abc")),
    "tag twice": partition(tags=b"\2" + b"\0\1\0" * 2),
    "tags out of order": partition(tags=b"\2" + b"\1\1\0" + b"\0\1\0"),
    "ten tags": partition(tags=b"\x0a" + b"\0\1\0" * 10),
    "tag longer than the body": partition(tags=b"\1\1\x7f\1"),
    "trailing byte": partition() + b"\0",
    "without the end": partition()[:-1],
    "without the second half": partition()[:40],
    "only the key": data(3, 2, KEY),
    "only the type": data(3, 2, b""),
    "change with an unknown tag": change(t12=b"a"),
    "change with a list of another size": change(t0=ints([1, 2]) + b"\0"),
    "change with 40 nodes": change(t0=ints([*range(40)])),
    "change to no replicas": change(t2=ints([])),
    "change to leader -3": change(t1=numbers(-3)),
    "change to a leader of two bytes": change(t1=b"\0\1"),
    "change to state 2": change(t5=b"\2"),
    "change to state -1": change(t5=b"\xff"),
    "change with elr before its version": change(1, t6=ints([1])),
    "change with directories before their version": change(0, t8=uvarint(2) + bytes(16)),
    "change with a size of two bytes": data(5, 2, KEY + b"\1\x08\x81\x09" + bytes(128)),
    "change with nine directories": change(t8=uvarint(9) + bytes(128)),
    "partition v3": data(3, 3, b"\0" * 60),
    "partition v200": data(3, 200, b"\0" * 60),
    "type 200": data(200, 0, b"\0" * 60),
    "frame version 2": data(3, 2, b"\0" * 60, frame=2),
    "topic with an illegal name": data(2, 0, text('a"b') + bytes(range(16)) + b"\0"),
    "topic with a name in UTF-8": data(2, 0, text("é") + bytes(range(16)) + b"\0"),
    "topic with a name in no UTF-8": data(2, 0, b"\3\xff\xff" + bytes(range(16)) + b"\0"),
    "topic with a newline": data(2, 0, text("a\n") + bytes(range(16)) + b"\0"),
    "topic without a name": data(2, 0, text(None) + bytes(range(16)) + b"\0"),
    "topic with an empty name": data(2, 0, text("") + bytes(range(16)) + b"\0"),
    "topic with a name of 2 million bytes": data(2, 0, b"\xff\xff\x7f" + bytes(range(16)) + b"\0"),
    "topic with the zero id": data(2, 0, text("a") + bytes(16) + b"\0"),
    "topic that ends before its tag": data(2, 0, text("a") + bytes(range(16)) + b"\1"),
    "config that ends before its tag": data(4, 0, b"\2" + text("a") + text("b") + text("c") + b"\1"),
    "topic with a tag": data(2, 0, text("a") + bytes(range(16)) + tagged(t9=b"a")),
    "topic v1": data(2, 1, text("a") + bytes(range(16)) + b"\0"),
    "config v1": data(4, 1, b"\2" + text("a") + text("b") + text("c") + b"\0"),
    "config": data(4, 0, b"\2" + text("a") + text("b") + text("c") + b"\0"),
    "config with a null value": data(4, 0, b"\2" + text("a") + text("b") + text(None) + b"\0"),
    "config with a null name": data(4, 0, b"\2" + text("a") + text(None) + text("b") + b"\0"),
    "config in no UTF-8": data(4, 0, b"\2" + text("a") + text("b") + b"\3\xff\xff" + b"\0"),
    "config without an end": data(4, 0, b"\2" + text("a") + text("b")),
    "blanked config": data(4, 0, b"\xff" * 20),
    "blanked noop": data(20, 0, b"\xff" * 4),
    "empty value": b"",
    "short value": b"\1\3",
}


def _value_after_a_cut_length() -> bytes:
    """A record whose value's length takes the value's first byte, the frame version, for its own third byte."""
    value = data(2, 0, text("a" * 9_000) + b"\7" * 16 + b"\0")
    length = varint(len(value))
    assert length[2:] == value[:1]
    body = b"\0\0\0\1" + length[:2] + value + b"\0"
    return varint(len(body)) + body


UNUSUAL_FRAMING = {
    "a length that overlaps the value": _value_after_a_cut_length(),
    "the last record exceeds the batch": record(partition(), 0)[:-1],
    "a byte after the last record": record(partition(), 0) + b"\0",
    "no records": b"\xff" * 40,
    "an empty batch": b"",
    "a negative length": b"\3" + b"\0" * 40,
    "a length of four bytes": b"\x80" * 3 + b"\2" + b"\0" * 40,
    "another offset delta": record(partition(), 5),
    "a later timestamp": record(partition(), 0, timestamp_delta=3),
    "a timestamp after the year 9998": record(partition(), 0, timestamp_delta=1 << 60),
    "a key": record(partition(), 0, key=b"k"),
    "a header": record(partition(), 0, headers=b"\2\2k\2v"),
}
"""The bytes after the header of a batch of one record."""


def mutated_batches(content: bytes, *, count: int) -> Iterator[bytes]:
    """Yields up to three batches of a file at a time, whose records are mutated and whose CRC is valid."""
    batches = [item for item in scan(content) if isinstance(item, RecordBatch) and item.record_count > 20]
    rng = Random(5)
    for _ in range(count):
        parts = []
        for each in rng.sample(batches, min(3, len(batches))):
            out = bytearray(content[each.position : min(each.end, each.position + 60_000)])
            out[HEADER.size :] = mutated(bytes(out[HEADER.size :]), rng, times=rng.choice((1, 3, 30)))
            out[8:12] = struct.pack(">i", len(out) - 12)
            write_crc(out)
            parts.append(bytes(out))
        yield b"".join(parts)
