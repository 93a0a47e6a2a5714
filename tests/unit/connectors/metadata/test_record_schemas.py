"""Layouts: what Kafka's jar said, in the places where being wrong would be silent."""

import pytest

from connectors.metadata.record_schemas import FieldType, kafka_versions, merged_schemas, record_schemas
from connectors.metadata.record_to_event import CONTROL_CONVERTERS, CONVERTERS
from connectors.metadata.redaction import CREDENTIAL_FIELDS


def tags(type_: FieldType) -> dict[str, int]:
    return {field.name: field.tag for field in type_.fields if field.tag is not None}


@pytest.mark.kip("B029", "B032", "B033")
def test_the_recovery_state_has_tag_0_in_one_record_and_tag_5_in_the_other() -> None:
    known = record_schemas().records

    assert all(tags(fields)["leader_recovery_state"] == 0 for fields in known[3].versions.values())
    assert all(tags(fields)["leader_recovery_state"] == 5 for fields in known[5].versions.values())
    assert known[3].versions[2].defaults["leader_recovery_state"] == 0, "absent is RECOVERED"
    assert known[5].versions[2].defaults["leader_recovery_state"] == -1, "absent is unchanged"
    assert known[5].versions[2].defaults["leader"] == -2, "absent is unchanged, -1 is no leader"


def test_every_record_that_is_needed_or_blanked_is_one_that_kafka_has() -> None:
    names = {layout.name for layout in record_schemas().records.values()}

    assert names >= set(CONVERTERS) | set(CREDENTIAL_FIELDS)
    assert {layout.name for layout in record_schemas().control.values()} > set(CONTROL_CONVERTERS)


def names(type_: FieldType) -> set[str]:
    """Of its fields, and of theirs."""
    inner = [names(field.type.of or field.type) for field in type_.fields]
    return {field.name for field in type_.fields}.union(*inner)


def test_every_field_that_is_blanked_is_one_that_the_record_has_in_some_kafka() -> None:
    for layout in merged_schemas().records.values():
        found = {name for ways in layout.versions.values() for fields in ways for name in names(fields)}
        assert found >= CREDENTIAL_FIELDS.get(layout.name, frozenset())


def test_every_record_that_mentions_a_secret_is_blanked() -> None:
    suspicious = ("salt", "key", "password", "secret", "credential", "token", "hmac")
    harmless = {"ClientQuotaRecord"}  # Its `key` is a quota's name: producer_byte_rate.

    for layout in merged_schemas().records.values():
        for fields in (fields for ways in layout.versions.values() for fields in ways):
            named = {name for name in names(fields) if any(word in name for word in suspicious)} - {"credential_infos"}
            assert named <= CREDENTIAL_FIELDS.get(layout.name, frozenset()) or layout.name in harmless


def test_a_kafka_knows_only_what_it_knew() -> None:
    assert record_schemas().kafka == kafka_versions()[-1] != kafka_versions()[0]
    assert 28 in record_schemas().records and 28 not in record_schemas("3.9.2").records
    assert 6 in record_schemas("3.3.2").records and 6 not in record_schemas().records
    assert 6 in record_schemas("3.9.2").control and 6 not in record_schemas("3.7.2").control
    with pytest.raises(KeyError):
        record_schemas("2.8.2")


def test_what_only_another_kafka_had_is_no_field_of_this_ones() -> None:
    for kafka in kafka_versions():
        for layout in record_schemas(kafka).records.values():
            fields = {field.name for version in layout.versions.values() for field in version.fields}
            assert all(version.defaults.keys() == fields for version in layout.versions.values())


def test_a_field_is_called_what_kafkas_json_calls_it() -> None:
    control = record_schemas().control[5].versions[0].fields
    registration = record_schemas().records[0].versions[3].fields

    assert [field.json for field in control] == ["version", "kRaftVersion"]
    assert {"brokerId", "isMigratingZkBroker", "endPoints"} <= {field.json for field in registration}
    assert record_schemas().records[0].constant == "REGISTER_BROKER_RECORD"
