"""What any of the Kafkas wrote is read by the job and loses its secrets, though nothing says which Kafka wrote it."""

import pytest

from connectors.event import Event
from connectors.log_event import Undecodable
from connectors.metadata.decoder import decode
from connectors.metadata.record_schemas import FieldType, kafka_versions, merged_schemas, record_schemas
from connectors.metadata.redaction import CREDENTIAL_FIELDS, redact
from tests.unit.connectors.metadata.metadata_bytes import batch, data
from tests.unit.connectors.metadata.metadata_record_schemas import written

SECRET = "hunter2-in-plain-text"
OPEN = {"name", "resource_name", "topic_name"}
"""Strings of a bearing record that are no secret."""


def events(payload: bytes) -> list[Event]:
    table = decode(payload, kind="records", base_offset=0, last_offset=0, leader_epoch=1, high_watermark=9)
    return list(table.events())[:-1]


def valued(name: str, type_: FieldType) -> object:
    """A value for any field; every string and every blob of a bearing record but a name is the secret."""
    if type_.name == "struct":
        return {field.name: valued(field.name, field.type) for field in type_.fields}
    if type_.of is not None:
        return [valued(name, type_.of)]
    if "bytes" in type_.name:
        return SECRET.encode()
    if "string" in type_.name:
        return "a-name" if name in OPEN else SECRET
    return bytes(range(16)) if type_.name == "uuid" else 1


@pytest.mark.parametrize("kafka", kafka_versions())
def test_every_version_of_every_record_is_read_and_no_credential_passes(kafka: str) -> None:
    for layout in record_schemas(kafka).records.values():
        for version, fields in layout.versions.items():
            bare = {field.name: valued(field.name, field.type) for field in fields.fields if field.tag is None}
            whole = {field.name: valued(field.name, field.type) for field in fields.fields}
            for values in (bare, whole):
                received = redact(batch([data(layout.type, version, written(fields, values))]))
                unread = [event.reason for event in events(received) if isinstance(event, Undecodable)]

                assert unread == [], f"{layout.name} version {version} of Kafka {kafka}"
                if layout.name in CREDENTIAL_FIELDS:
                    assert SECRET.encode() not in received, f"{layout.name} version {version} of Kafka {kafka}"
                    assert redact(received) is received


def test_two_records_alone_were_laid_out_anew_under_the_same_version() -> None:
    twice = {
        (layout.name, version): len(ways)
        for layout in (*merged_schemas().records.values(), *merged_schemas().control.values())
        for version, ways in layout.versions.items()
        if len(ways) > 1
    }

    assert twice == {("UserScramCredentialRecord", 0): 2, ("DelegationTokenRecord", 0): 2}


def test_a_record_that_later_kafkas_no_longer_know_is_passed_over() -> None:
    layout = record_schemas("3.3.2").records[6]
    body = written(layout.versions[0], valued("", layout.versions[0]))

    assert layout.name == "AccessControlRecord" and 6 not in record_schemas().records
    assert events(batch([data(6, 0, body)])) == []
