"""A record keeps its body on disk only if its schema reads all of it, and its type holds no credentials."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import UndecodableError
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records
from connectors.metadata.field_readers import field_reader, read_body
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, FieldType, record_schemas
from connectors.metadata.redaction import redact
from connectors.observations.log_event import Undecodable
from tests.unit.connectors.metadata.metadata_bytes import (
    batch,
    batch_of,
    control,
    data,
    noop,
    record,
    tagged,
    text,
    uvarint,
)
from tests.unit.connectors.metadata.metadata_record_schemas import EVERY_RECORD, values, with_zeros, written

SECRET = b"hunter2-in-plain-text"
CONFIG = b"\x04" + text("1") + text("ssl.keystore.password") + text(SECRET.decode()) + b"\0"
WITHOUT_CREDENTIALS = [one for one in EVERY_RECORD if one.values[0] not in CREDENTIAL_FIELDS]
EVERY_CONTROL = [
    pytest.param(schema.type, version, fields, id=f"{schema.name} v{version}")
    for schema in record_schemas().control.values()
    for version, (fields, *_) in schema.versions.items()
]


def complete(fields: FieldType, body: bytes) -> bool:
    try:
        read_body(field_reader(fields, spans=frozenset()), body)
    except UndecodableError:
        return False
    return True


def assert_blanked(payload: bytes) -> None:
    after = redact(payload)

    assert SECRET not in after and b"hunter" not in after
    assert len(after) == len(payload)
    assert all(isinstance(item, RecordBatch) for item in scan(after, expected=0)), "offsets and CRCs are valid"
    assert redact(after) is after
    table = decode_records(after, base_offset=0, last_offset=0, leader_epoch=1, high_watermark=9)
    assert any(isinstance(event, Undecodable) for event in table.events()), "the record is reported"


@pytest.mark.parametrize(("name", "api_key", "version", "fields"), EVERY_RECORD)
def test_a_secret_beside_the_fields_of_a_record_is_blanked(
    name: str, api_key: int, version: int, fields: FieldType
) -> None:
    body = written(fields, with_zeros(fields, {}))

    for damaged in (
        body + SECRET,
        body[:-1] + tagged(t99=SECRET),
        body[:-1] + b"\2" + b"\x63\1a" + b"\x63" + uvarint(len(SECRET)) + SECRET,
        body[:-1] + SECRET,
        SECRET,
        CONFIG,
        b"",
    ):
        payload = batch([noop(), data(api_key, version, damaged)])
        if complete(fields, damaged):
            continue
        after = redact(payload)
        assert SECRET not in after
        if damaged:
            assert_blanked(payload)


@pytest.mark.parametrize(("api_key", "version", "fields"), EVERY_CONTROL)
def test_a_secret_beside_the_fields_of_a_control_record_is_blanked(
    api_key: int, version: int, fields: FieldType
) -> None:
    body = written(fields, with_zeros(fields, {"version": version}))

    for damaged in (body + SECRET, body[:-1] + tagged(t99=SECRET), body[:2] + SECRET, SECRET, CONFIG):
        assert_blanked(batch([control(api_key, damaged)]))
    assert_blanked(batch([(b"\0\0" + bytes((0, api_key)) + SECRET, body)]))
    assert redact(whole := batch([control(api_key, body)])) is whole


@pytest.mark.parametrize("size", [2, 3, 40])
def test_zeros_that_an_older_kraftwatch_wrote_over_a_body_stay(size: int) -> None:
    """It filled the body of a type that it did not know with zeros; the type is known now."""
    payload = batch([data(2, 0, bytes(size))])

    assert redact(payload) is payload


@pytest.mark.parametrize("value", [noop(), data(2, 0, text("t") + bytes(range(16)) + b"\0")], ids=["NoOp", "Topic"])
def test_a_secret_in_the_key_or_the_headers_of_a_record_is_blanked(value: bytes) -> None:
    assert_blanked(batch_of(record(value, 0, key=SECRET), 1))
    assert_blanked(batch_of(record(value, 0, headers=b"\2\2k" + uvarint(len(SECRET) * 2) + SECRET), 1))


@pytest.mark.parametrize(("name", "api_key", "version", "fields"), WITHOUT_CREDENTIALS)
@settings(max_examples=25)
@given(drawn=st.data())
def test_a_complete_record_without_credentials_is_not_changed(
    name: str, api_key: int, version: int, fields: FieldType, drawn: st.DataObject
) -> None:
    value = drawn.draw(values(fields))
    payload = batch([data(api_key, version, written(fields, value))])
    changed = redact(payload) is not payload

    # Unknown tagged fields are drawn at any depth.
    assert changed == (not complete(fields, written(fields, value)))


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 29), st.integers(0, 4), st.binary(max_size=60)), min_size=1, max_size=4))
def test_redacting_any_bodies_is_idempotent_and_reports_each_blanked_record(
    bodies: list[tuple[int, int, bytes]],
) -> None:
    payload = batch([data(*body) for body in bodies])

    after = redact(payload)

    assert redact(after) is after
    table = decode_records(after, base_offset=0, last_offset=0, leader_epoch=1, high_watermark=9)
    reported = {event.offset for event in table.events() if isinstance(event, Undecodable)}
    schemas = record_schemas().records
    for offset, (api_key, version, body) in enumerate(bodies):
        versions = schemas[api_key].versions.get(version, ()) if api_key in schemas else ()
        assert offset in reported or not any(body) or any(complete(fields, body) for fields in versions)
