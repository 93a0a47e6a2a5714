"""Records of the KIPs as bytes, and what is read of them."""

from typing import Any

from connectors.metadata.decoder import decode_records
from connectors.metadata.dump_log import DumpedRecord, dump_records
from connectors.metadata.record_schemas import record_schemas
from connectors.observations.observation import Event
from tests.unit.connectors.metadata.metadata_bytes import batch, control, ints
from tests.unit.connectors.metadata.metadata_record_schemas import written

TOPIC = bytes(range(16))
PARTITION = (
    bytes(4) + TOPIC + ints([101, 102]) + ints([102]) + ints([]) + ints([]) + (102).to_bytes(4, "big") + bytes(8)
)
"""PartitionRecord version 0 of partition 0, up to its tagged fields: leader 102, in sync 102."""
CHANGE = bytes(4) + TOPIC
"""PartitionChangeRecord version 0 of partition 0, up to its tagged fields."""


def voters_record(*nodes: int) -> tuple[bytes, bytes]:
    """Returns a VotersRecord's key and value; the directory id of node 2 is 16 times the byte 2."""
    voters = [
        {
            "voter_id": node,
            "voter_directory_id": bytes([node] * 16),
            "endpoints": [{"name": "CONTROLLER", "host": f"c{node}", "port": 9090 + node}],
            "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
        }
        for node in nodes
    ]
    return control(6, written(record_schemas().control[6].versions[0][0], {"version": 0, "voters": voters}))


def events(payload: bytes) -> list[Event]:
    """Returns the events of record batches."""
    table = decode_records(payload, base_offset=0, last_offset=9, leader_epoch=1, high_watermark=10)
    return list(table.events())


def decoded(value: bytes | tuple[bytes, bytes]) -> dict[str, Any]:
    """Returns one record as `kraftwatch data decode` prints it."""
    (entry,) = (one for one in dump_records(batch([value])) if isinstance(one, DumpedRecord))
    assert entry.data is not None
    return dict(entry.data)
