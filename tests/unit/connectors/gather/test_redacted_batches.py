"""The gatherer finds the endpoints in fetched batches without looking at each record."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from connectors.gather.observation_writer import redacted_batches
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.redaction import redact
from connectors.observations.log_event import VotersReplaced
from connectors.observations.observation import Event, ObservationKind
from rules.model.identifiers import Endpoint
from rules.model.membership import ControllerRegistration
from tests.hostile.hostile_log import hostile_log
from tests.unit.connectors.metadata.metadata_bytes import batch, tinylog, tinysnapshot
from tests.unit.connectors.metadata.metadata_record_schemas import metadata_value
from tests.unit.connectors.metadata.unusual_records import mutated_batches, partition


def named(event: Event) -> tuple[object, object]:
    """Returns the voters, or a controller and its endpoints."""
    if isinstance(event, VotersReplaced):
        return "voters", event.voters
    assert isinstance(event, ControllerRegistration)
    return event.id, event.endpoints


def found_endpoints(payload: bytes) -> list[tuple[object, object]]:
    return [named(event) for event in redacted_batches(payload).endpoints]


def endpoints_of_every_event(payload: bytes, kind: ObservationKind) -> list[tuple[object, object]]:
    """Returns the newest voter set and registrations, from all events of each batch by itself."""
    newest: dict[object, object] = {}
    content = redact(payload)
    for one in scan(content):
        if not isinstance(one, RecordBatch):
            continue
        part = content[one.position : one.end]
        if kind is ObservationKind.SNAPSHOT:
            events = decode_snapshot_piece(part, end_offset=one.base_offset, epoch=one.leader_epoch)
        else:
            events = decode_records(
                part,
                base_offset=one.base_offset,
                last_offset=one.last_offset,
                leader_epoch=one.leader_epoch,
                high_watermark=None,
            )
        for event in events.events():
            if isinstance(event, VotersReplaced | ControllerRegistration):
                newest |= [named(event)]
    return [*newest.items()]


@pytest.mark.parametrize(
    ("file", "kind", "expected"),
    [(tinylog, ObservationKind.RECORDS, 4), (tinysnapshot, ObservationKind.SNAPSHOT, 4)],
)
def test_endpoints_of_files_that_kafka_wrote_are_found(
    file: Callable[[], tuple[bytes, dict[str, Any]]], kind: ObservationKind, expected: int
) -> None:
    assert len(found_endpoints(file()[0])) == expected
    for payload in (file()[0], *mutated_batches(file()[0], count=30)):
        assert found_endpoints(payload) == endpoints_of_every_event(payload, kind)


def test_endpoints_of_hostile_logs_are_found() -> None:
    found = 0
    for seed in range(600):
        payload = hostile_log(Random(seed), base_offset=5, secret="s3cret")
        expected = endpoints_of_every_event(payload, ObservationKind.RECORDS)
        assert found_endpoints(payload) == expected
        found += bool(expected)
    assert found > 10


def test_of_two_registrations_of_a_controller_the_newer_one_counts() -> None:
    listener = {"name": "CONTROLLER", "port": 9093, "security_protocol": 0}
    listeners = [[listener | {"host": f"{host}.test"}] for host in ("old", "new")]
    written = [metadata_value(27, 0, controller_id=1, end_points=each) for each in listeners]

    ((_, endpoints),) = found_endpoints(batch(written))

    assert endpoints == (Endpoint(listener="CONTROLLER", host="new.test", port=9093, protocol="PLAINTEXT"),)


@pytest.mark.parametrize("count", [1, 500])
def test_partitions_alone_are_records_without_endpoints(count: int) -> None:
    found = redacted_batches(batch([partition()] * count))

    assert found.has_records
    assert found.endpoints == ()
