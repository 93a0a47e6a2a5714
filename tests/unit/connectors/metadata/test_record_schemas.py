"""Record schemas from Kafka's jars: the facts for which an error would stay unnoticed."""

import pytest

from connectors.metadata.record_schemas import (
    CREDENTIAL_FIELDS,
    FieldType,
    kafka_versions,
    record_schemas,
)
from connectors.metadata.record_to_event import CONTROL_CONVERTERS, CONVERTERS


def tags(type_: FieldType) -> dict[str, int]:
    return {field.name: field.tag for field in type_.fields if field.tag is not None}


@pytest.mark.kip("B029", "B032", "B033")
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


def test_every_field_has_a_default() -> None:
    for schema in record_schemas().records.values():
        for fields in (fields for schemas in schema.versions.values() for fields in schemas):
            assert fields.defaults.keys() >= {field.name for field in fields.fields}


def test_fields_have_their_names_in_kafkas_json() -> None:
    control = record_schemas().control[5].versions[0][0].fields
    registration = record_schemas().records[0].versions[3][0].fields

    assert [field.json for field in control] == ["version", "kRaftVersion"]
    assert {"brokerId", "isMigratingZkBroker", "endPoints"} <= {field.json for field in registration}
    assert record_schemas().records[0].constant == "REGISTER_BROKER_RECORD"
