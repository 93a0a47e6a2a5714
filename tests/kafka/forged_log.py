"""Records that no controller wrote, at the end of the metadata logs of stopped controllers.

They have the epoch of the last record and a correct checksum: to Kafka they are committed records like all others.
"""

import base64
import time
from collections.abc import Sequence
from pathlib import Path

from connectors.metadata.batches import RecordBatch, scan
from deploy.lab.lab import Lab
from deploy.lab.node import Node
from tests.unit.connectors.metadata.metadata_bytes import batch, control, data, tagged, text, uvarint

VOTERS_RECORD = 6
"""The control record type of VotersRecord."""
BEGIN_TRANSACTION_RECORD = 23


def force_voters(node: Node, voters: Sequence[Node]) -> None:
    """Appends a VotersRecord to the log of a stopped controller; no tool of Kafka does that."""
    value = (0).to_bytes(2, "big") + uvarint(len(voters) + 1) + b"".join(map(_voter, voters)) + tagged()
    _append(_segment(node), [control(VOTERS_RECORD, value)])


def append_to_every_log(lab: Lab, *records: bytes) -> None:
    """Appends data records to the longest log of the stopped controllers, and gives the others the same log."""
    segments = {_segment(lab.node(node)) for node in lab.controllers}
    longest = max(segments, key=_log_end)
    _append(longest, records)
    for other in segments - {longest}:
        assert other.name == longest.name, "every log of a new quorum has one segment"
        other.write_bytes(longest.read_bytes())


def begin_transaction(name: str) -> bytes:
    """Returns a BeginTransactionRecord."""
    return data(BEGIN_TRANSACTION_RECORD, 0, tagged(t0=text(name)))


def _segment(node: Node) -> Path:
    return max(node.metadata_log.glob("*.log"))


def _last(segment: Path) -> RecordBatch:
    *_, last = (each for each in scan(segment.read_bytes()) if isinstance(each, RecordBatch))
    return last


def _log_end(segment: Path) -> tuple[int, int]:
    last = _last(segment)
    return last.leader_epoch, last.last_offset


def _append(segment: Path, records: Sequence[bytes | tuple[bytes, bytes]]) -> None:
    last = _last(segment)
    appended = batch(
        records, base_offset=last.last_offset + 1, epoch=last.leader_epoch, timestamp=int(time.time() * 1000)
    )
    with segment.open("ab") as log:
        log.write(appended)


def _voter(node: Node) -> bytes:
    """Returns one voter of a VotersRecord: id, directory id, endpoint, supported kraft.version 0 to 1."""
    assert node.controller_port is not None
    endpoint = text("CONTROLLER") + text(node.host) + node.controller_port.to_bytes(2, "big") + tagged()
    supports = (0).to_bytes(2, "big") + (1).to_bytes(2, "big") + tagged()
    directory = base64.urlsafe_b64decode(node.directory_id + "==")
    return node.id.to_bytes(4, "big") + directory + uvarint(2) + endpoint + supports + tagged()
