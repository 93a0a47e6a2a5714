"""A controller on loopback whose log never ends: each Fetch is answered with 8 MiB of the records of one flood."""

import socket
import struct
from functools import cache
from itertools import islice
from typing import Final

from kafka.protocol.consumer import FetchRequest

from connectors.metadata.batch_writer import with_position
from tests.hostile.record_floods import RECORD_FLOODS, Value
from tests.unit.connectors.kafka.fake_node import Behaviour, answer_api_versions, receive, send
from tests.unit.connectors.kafka.lying_node import FETCH, MEBIBYTE, TRUTH, fetch
from tests.unit.connectors.metadata.metadata_bytes import batch

_HEADER: Final = struct.Struct(">hhih")
"""API key, version, correlation id and length of the client id; the client id and an empty list of tags follow."""
_RECORD_BYTES: Final = 12
"""What a record takes beside its value."""


def flooding(flood: str, batch_bytes: int = 7 * MEBIBYTE) -> Behaviour:
    """Tells the truth but for its log."""

    def behaviour(peer: socket.socket) -> None:
        answer_api_versions(peer)
        while True:
            request = receive(peer)
            key, version, correlation, client = _HEADER.unpack_from(request)
            if key == FETCH:
                answer = _endless_log(flood, batch_bytes, version, request[_HEADER.size + max(client, 0) + 1 :])
            else:
                answer = TRUTH[key](version)
            send(peer, correlation, answer, flexible=True)

    return behaviour


def _endless_log(flood: str, batch_bytes: int, version: int, body: bytes) -> bytes:
    partition = FetchRequest.decode(body, version=version).topics[0].partitions[0]
    records, count = flood_batch(flood, batch_bytes)
    at = partition.fetch_offset
    end = at + count
    if not partition.partition_max_bytes:
        return fetch(version, high_watermark=end)
    content = with_position(records, base_offset=at, leader_epoch=1)
    return fetch(version, records=content, high_watermark=end)


@cache
def flood_batch(flood: str, size: int) -> tuple[bytes, int]:
    """Returns a batch with about so many bytes of a flood's records, and their number."""
    values: list[Value] = []
    left = size
    for value in islice(RECORD_FLOODS[flood](0), size // _RECORD_BYTES):
        left -= _RECORD_BYTES + (len(value) if isinstance(value, bytes) else sum(map(len, value)))
        if left < 0:
            break
        values.append(value)
    return batch(values), len(values)
