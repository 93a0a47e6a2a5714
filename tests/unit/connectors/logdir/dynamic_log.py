"""Log directories of a dynamic quorum."""

from collections.abc import Sequence

from connectors.metadata.batch_writer import ControlRecordType, control_record
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import framed_records
from tests.unit.connectors.logdir.log_dirs import leader_change
from tests.unit.connectors.metadata.metadata_bytes import batch, data

DIRECTORY = "AaorEeDFTeqhbYUKWjaZFw"


VOTER = {
    "voter_id": 1,
    "voter_directory_id": DIRECTORY,
    "endpoints": [{"name": "CONTROLLER", "host": "c1", "port": 9093}],
    "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
}


VOTERS = {"version": 0, "voters": [VOTER]}


def topic(name: str, number: int) -> bytes:
    """The value of a TopicRecord."""
    return data(2, 0, bytes((len(name) + 1,)) + name.encode() + number.to_bytes(16, "big") + b"\0")


def marker(type_: int) -> bytes:
    """The value of a record that begins (23), ends (24) or aborts (25) a transaction."""
    return data(type_, 0, b"\0")


def dynamic_log(*batches: Sequence[bytes | tuple[bytes, bytes]]) -> bytes:
    """A segment: election, kraft.version 1, voters, then these batches."""
    out = leader_change()
    control = [
        control_record(ControlRecordType.KRAFT_VERSION, {"version": 0, "kraft_version": 1}),
        control_record(ControlRecordType.VOTERS, VOTERS),
    ]
    out += batch([(one.key or b"", one.value) for one in control], base_offset=1)
    offset = 3
    for values in batches:
        out += batch(list(values), base_offset=offset)
        offset += len(values)
    return out


def values(content: bytes) -> list[bytes]:
    """The values of a file's metadata records."""
    return [
        content[slice(*record.value)]
        for one in scan(content, expected=0)
        if isinstance(one, RecordBatch) and not one.is_control
        for record in framed_records(content, one)
        if record.value is not None
    ]
