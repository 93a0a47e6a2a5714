"""The schemas of every known Kafka: the facts for which an error would stay unnoticed.

Records of each version are decoded and redacted, although no record states which Kafka wrote it.
"""

import pytest

from connectors.metadata.decoder import decode_records
from connectors.metadata.record_schemas import (
    CREDENTIAL_FIELDS,
    FieldType,
    kafka_versions,
    record_schemas,
)
from connectors.metadata.record_to_event import CONTROL_CONVERTERS, CONVERTERS
from connectors.metadata.redaction import redact
from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Event
from tests.unit.connectors.metadata.metadata_bytes import batch, data
from tests.unit.connectors.metadata.metadata_record_schemas import written
from tests.unit.connectors.metadata.secret_values import SECRET, secret_value


def events(payload: bytes) -> list[Event]:
    table = decode_records(payload, base_offset=0, last_offset=0, leader_epoch=1, high_watermark=9)
    return list(table.events())[:-1]


@pytest.mark.parametrize("kafka", kafka_versions())
def test_every_version_of_every_record_is_decoded_and_redacted(kafka: str) -> None:
    for schema in record_schemas(kafka).records.values():
        for version, (fields, *_) in schema.versions.items():
            untagged = {
                field.name: secret_value(field.name, field.type) for field in fields.fields if field.tag is None
            }
            all_fields = {field.name: secret_value(field.name, field.type) for field in fields.fields}
            assert fields.defaults.keys() >= all_fields.keys()
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


def tags(type_: FieldType) -> dict[str, int]:
    return {field.name: field.tag for field in type_.fields if field.tag is not None}


def test_the_recovery_state_has_tag_0_in_one_record_and_tag_5_in_the_other() -> None:
    known = record_schemas().records

    assert all(tags(fields)["leader_recovery_state"] == 0 for fields, *_ in known[3].versions.values())
    assert all(tags(fields)["leader_recovery_state"] == 5 for fields, *_ in known[5].versions.values())
    assert known[3].versions[2][0].defaults["leader_recovery_state"] == 0, "absent is RECOVERED"
    assert known[5].versions[2][0].defaults["leader_recovery_state"] == -1, "absent is unchanged"
    assert known[5].versions[2][0].defaults["leader"] == -2, "absent is unchanged, -1 is no leader"


def test_every_converted_or_redacted_record_exists_in_kafka() -> None:
    names = {schema.name for schema in record_schemas().records.values()}

    assert names >= set(CONVERTERS) | set(CREDENTIAL_FIELDS)
    assert {schema.name for schema in record_schemas().control.values()} > set(CONTROL_CONVERTERS)


def names(type_: FieldType) -> set[str]:
    """The names of its fields and of their fields."""
    inner = [names(field.type.of or field.type) for field in type_.fields]
    return {field.name for field in type_.fields}.union(*inner)


def test_every_redacted_field_exists_in_some_kafka_version() -> None:
    for schema in record_schemas().records.values():
        found = {name for schemas in schema.versions.values() for fields in schemas for name in names(fields)}
        assert found >= CREDENTIAL_FIELDS.get(schema.name, frozenset())


def test_every_field_with_a_suspicious_name_is_redacted() -> None:
    suspicious = ("salt", "key", "password", "secret", "credential", "token", "hmac")
    harmless = {"ClientQuotaRecord"}  # Its `key` is a quota's name: producer_byte_rate.

    for schema in record_schemas().records.values():
        for fields in (fields for schemas in schema.versions.values() for fields in schemas):
            suspects = {name for name in names(fields) if any(word in name for word in suspicious)} - {
                "credential_infos"
            }
            assert suspects <= CREDENTIAL_FIELDS.get(schema.name, frozenset()) or schema.name in harmless


def test_the_schemas_of_one_kafka_version_hold_only_its_records() -> None:
    newest = record_schemas(kafka_versions()[-1])

    assert newest.known_to == f"Kafka {kafka_versions()[-1]}"
    assert 28 in newest.records and 28 not in record_schemas("3.9.2").records
    assert 6 in record_schemas("3.3.2").records and 6 not in newest.records
    assert 6 in record_schemas("3.9.2").control and 6 not in record_schemas("3.7.2").control
    with pytest.raises(ValueError):
        record_schemas("2.8.2")


def test_fields_have_their_names_in_kafkas_json() -> None:
    control = record_schemas().control[5].versions[0][0].fields
    registration = record_schemas().records[0].versions[3][0].fields

    assert [field.json for field in control] == ["version", "kRaftVersion"]
    assert {"brokerId", "isMigratingZkBroker", "endPoints"} <= {field.json for field in registration}
    assert record_schemas().records[0].constant == "REGISTER_BROKER_RECORD"
