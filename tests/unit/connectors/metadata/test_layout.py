"""Layouts: what Kafka's jar said, in the places where being wrong would be silent."""

from connectors.metadata.layout import FieldType, layouts
from connectors.metadata.redaction import BEARING
from connectors.metadata.translation import CONTROL_TRANSLATORS, TRANSLATORS


def tags(type_: FieldType) -> dict[str, int]:
    return {field.name: field.tag for field in type_.fields if field.tag is not None}


def test_the_recovery_state_has_tag_0_in_one_record_and_tag_5_in_the_other() -> None:
    known = layouts().records

    assert all(tags(fields)["leader_recovery_state"] == 0 for fields in known[3].versions.values())
    assert all(tags(fields)["leader_recovery_state"] == 5 for fields in known[5].versions.values())
    assert known[3].versions[2].defaults["leader_recovery_state"] == 0, "absent is RECOVERED"
    assert known[5].versions[2].defaults["leader_recovery_state"] == -1, "absent is unchanged"
    assert known[5].versions[2].defaults["leader"] == -2, "absent is unchanged, -1 is no leader"


def test_every_record_that_is_needed_or_blanked_is_one_that_kafka_has() -> None:
    names = {layout.name for layout in layouts().records.values()}

    assert names >= set(TRANSLATORS) | set(BEARING)
    assert {layout.name for layout in layouts().control.values()} > set(CONTROL_TRANSLATORS)


def test_every_field_that_is_blanked_is_one_that_the_record_has() -> None:
    for layout in layouts().records.values():
        for fields in layout.versions.values():
            assert {field.name for field in fields.fields} >= BEARING.get(layout.name, frozenset())


def test_every_record_that_mentions_a_secret_is_blanked() -> None:
    suspicious = ("salt", "key", "password", "secret", "credential", "token", "hmac")
    harmless = {"ClientQuotaRecord"}  # Its `key` is a quota's name: producer_byte_rate.

    for layout in layouts().records.values():
        for fields in layout.versions.values():
            named = {field.name for field in fields.fields if any(word in field.name for word in suspicious)}
            assert named <= BEARING.get(layout.name, frozenset()) or layout.name in harmless
