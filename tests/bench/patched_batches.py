"""Changes a recorded record batch where a double must differ from the quorum that wrote it."""

import struct
from collections.abc import Callable, Mapping
from typing import Final

from crc32c import crc32c

from connectors.metadata.batches import CHECKED_AT, CRC_AT, FRAME, HEADER, RecordBatch, scan
from connectors.metadata.record_framing import framed_records
from tests.unit.connectors.metadata.metadata_bytes import record, text

Address = tuple[str, int]
"""Host and port."""
_LENGTH_AT: Final = 8
_BASE_TIMESTAMP_AT: Final = 27
_LEADER_ID_AT: Final = 2
"""In a LeaderChangeMessage, after its version."""
_LAST_OFFSET_DELTA_AT: Final = 23
_RECORD_COUNT_AT: Final = 57
_BROKER_CHANGE: Final = bytes((1, 17))
"""Frame version and type of a BrokerRegistrationChangeRecord; its version, the broker's id and epoch follow."""
_BROKER_ID_AT: Final = 3
_BROKER_EPOCH_AT: Final = 7


def header_of(content: bytes) -> RecordBatch:
    """Returns the header of one whole batch."""
    (batch,) = scan(content)
    assert isinstance(batch, RecordBatch)
    return batch


def placed(content: bytes | bytearray, *, base_offset: int, epoch: int) -> bytes:
    """Returns the batch at this offset and epoch, which its CRC does not cover."""
    patched = bytearray(content)
    struct.pack_into(">q", patched, 0, base_offset)
    struct.pack_into(">i", patched, 12, epoch)
    return bytes(patched)


def written_at(content: bytes, now_ms: int) -> bytes:
    """Returns the batch as if its first record had been written now, with its CRC."""
    batch = header_of(content)
    patched = bytearray(content)
    newest_ms = now_ms + batch.max_timestamp - batch.base_timestamp
    struct.pack_into(">qq", patched, _BASE_TIMESTAMP_AT, now_ms, newest_ms)
    return _sealed(patched)


def with_endpoints(content: bytes, moved: Mapping[Address, Address]) -> bytes:
    """Returns the batch with other endpoints in its VotersRecords and RegisterControllerRecords.

    Both hold a host as a compact string and then the port in two bytes. A batch without one is returned unchanged.
    """
    replaced = [(_endpoint(former), _endpoint(new)) for former, new in moved.items()]
    if not any(former in content for former, _ in replaced):
        return content

    def move(value: bytes) -> bytes:
        for former, new in replaced:
            value = value.replace(former, new)
        return value

    return _with_values(content, move)


def led_by(content: bytes, leader: int) -> bytes:
    """Returns the batch of a LeaderChangeMessage with another leader."""
    return _with_values(
        content, lambda value: value[:_LEADER_ID_AT] + struct.pack(">i", leader) + value[_LEADER_ID_AT + 4 :]
    )


def only_broker_change(content: bytes, broker: int) -> bytes:
    """Returns the batch with its first BrokerRegistrationChangeRecord of this broker alone."""
    id_ = struct.pack(">i", broker)
    values = [
        content[slice(*one.value)] for one in framed_records(content, header_of(content)) if one.value is not None
    ]
    value = next(one for one in values if one.startswith(_BROKER_CHANGE) and one.startswith(id_, _BROKER_ID_AT))
    patched = bytearray(content[: HEADER.size]) + record(value, 0)
    struct.pack_into(">i", patched, _LENGTH_AT, len(patched) - FRAME)
    struct.pack_into(">i", patched, _LAST_OFFSET_DELTA_AT, 0)
    struct.pack_into(">i", patched, _RECORD_COUNT_AT, 1)
    return _sealed(patched)


def of_broker_epoch(content: bytes, other: bytes) -> bytes:
    """Returns a batch of one BrokerRegistrationChangeRecord with the broker epoch of another such batch."""
    (one,) = framed_records(other, header_of(other))
    assert one.value is not None
    begin = one.value[0] + _BROKER_EPOCH_AT
    epoch = other[begin : begin + 8]
    return _with_values(content, lambda value: value[:_BROKER_EPOCH_AT] + epoch + value[_BROKER_EPOCH_AT + 8 :])


def _with_values(content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    records = bytearray()
    for one in framed_records(content, header_of(content)):
        assert one.fault is None
        assert one.value is not None
        key = None if one.key is None else content[slice(*one.key)]
        value = change(content[slice(*one.value)])
        # Kafka writes no headers in the metadata log.
        records += record(value, one.delta, key=key, timestamp_delta=one.timestamp_delta)
    patched = bytearray(content[: HEADER.size]) + records
    struct.pack_into(">i", patched, _LENGTH_AT, len(patched) - FRAME)
    return _sealed(patched)


def _sealed(content: bytearray) -> bytes:
    struct.pack_into(">I", content, CRC_AT, crc32c(memoryview(content)[CHECKED_AT:]))
    return bytes(content)


def _endpoint(address: Address) -> bytes:
    host, port = address
    return text(host) + struct.pack(">H", port)
