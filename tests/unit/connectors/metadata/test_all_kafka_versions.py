"""Records of every known Kafka version are decoded and redacted, although no record states which Kafka wrote it."""

import pytest

from connectors.metadata.decoder import decode_records
from connectors.metadata.record_schemas import (
    CREDENTIAL_FIELDS,
    FieldType,
    kafka_versions,
    record_schemas,
)
from connectors.metadata.redaction import redact
from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Event
from tests.unit.connectors.metadata.metadata_bytes import batch, data
from tests.unit.connectors.metadata.metadata_record_schemas import written

SECRET = "hunter2-in-plain-text"
PUBLIC_FIELDS = {"name", "resource_name", "topic_name"}
"""String fields of a record with credentials that are not secret."""


def events(payload: bytes) -> list[Event]:
    table = decode_records(payload, base_offset=0, last_offset=0, leader_epoch=1, high_watermark=9)
    return list(table.events())[:-1]


def secret_value(name: str, type_: FieldType) -> object:
    """Returns a value for any field; every string and byte string except a name is the secret."""
    if type_.name == "struct":
        return {field.name: secret_value(field.name, field.type) for field in type_.fields}
    if type_.of is not None:
        return [secret_value(name, type_.of)]
    if "bytes" in type_.name:
        return SECRET.encode()
    if "string" in type_.name:
        return "a-name" if name in PUBLIC_FIELDS else SECRET
    return bytes(range(16)) if type_.name == "uuid" else 1


@pytest.mark.parametrize("kafka", kafka_versions())
def test_every_version_of_every_record_is_decoded_and_redacted(kafka: str) -> None:
    for schema in record_schemas(kafka).records.values():
        for version, (fields, *_) in schema.versions.items():
            untagged = {
                field.name: secret_value(field.name, field.type) for field in fields.fields if field.tag is None
            }
            all_fields = {field.name: secret_value(field.name, field.type) for field in fields.fields}
            for values in (untagged, all_fields):
                received = redact(batch([data(schema.type, version, written(fields, values))]))
                unread = [event.reason for event in events(received) if isinstance(event, Undecodable)]

                assert unread == [], f"{schema.name} version {version} of Kafka {kafka}"
                if schema.name in CREDENTIAL_FIELDS:
                    assert SECRET.encode() not in received, f"{schema.name} version {version} of Kafka {kafka}"
                    assert redact(received) is received


def test_only_two_record_versions_have_two_schemas() -> None:
    schema_counts = {
        (schema.name, version): len(schemas)
        for schema in (*record_schemas().records.values(), *record_schemas().control.values())
        for version, schemas in schema.versions.items()
        if len(schemas) > 1
    }

    assert schema_counts == {("UserScramCredentialRecord", 0): 2, ("DelegationTokenRecord", 0): 2}


def test_a_record_that_later_kafka_versions_dropped_is_skipped() -> None:
    schema = record_schemas("3.3.2").records[6]
    (fields,) = schema.versions[0]
    body = written(fields, secret_value("", fields))

    assert schema.name == "AccessControlRecord" and 6 not in record_schemas(kafka_versions()[-1]).records
    assert events(batch([data(6, 0, body)])) == []
