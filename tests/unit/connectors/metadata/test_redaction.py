"""Redaction: no secret remains, nothing else is lost, and lengths, offsets and CRCs stay valid.

A record keeps its body on disk only if its schema reads all of it, and its type holds no credentials.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import UndecodableError
from connectors.metadata.batches import BadBatch, RecordBatch, scan
from connectors.metadata.decoder import decode_records
from connectors.metadata.field_readers import field_reader, read_body
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, FieldType, known_records, record_schemas
from connectors.metadata.redaction import redact, was_unknown
from connectors.observations.log_event import Undecodable, UnknownRecords
from connectors.store.follow_progress import new_progress
from tests.unit.connectors.metadata.metadata_bytes import (
    batch,
    batch_of,
    control,
    data,
    noop,
    record,
    tagged,
    text,
    tinylog,
    tinysnapshot,
    uvarint,
)
from tests.unit.connectors.metadata.metadata_record_schemas import EVERY_RECORD, values, with_zeros, written

SECRET = "hunter2-" + "x" * 200
CONFIG = b"\x04" + text("1") + text("listener.name.tls.ssl.keystore.password") + text(SECRET)
SECRET_BYTES = SECRET.encode()


def compact(content: bytes) -> bytes:
    return uvarint(len(content) + 1) + content


def times(count: int) -> bytes:
    return bytes(8 * count)


SCRAM = text("alice") + b"\x01" + compact(SECRET_BYTES) * 3 + (4096).to_bytes(4, "big") + b"\0"
TOKEN = text(SECRET) + text(SECRET) + uvarint(3) + text(SECRET) + text(SECRET) + times(3) + text(SECRET) + b"\0"


def test_a_config_value_is_replaced_by_stars_and_everything_else_stays() -> None:
    before = batch([noop(), data(4, 0, CONFIG + b"\0"), noop()], base_offset=40)

    after = redact(before)

    assert after[:17] == before[:17]
    assert after[21:] == before[21:].replace(SECRET_BYTES, b"*" * len(SECRET))
    (whole,) = scan(after)
    assert isinstance(whole, RecordBatch), "the CRC is valid again"


def config(name: str, value: str, *, resource: str = "orders", tail: bytes = b"\0") -> bytes:
    return data(4, 0, b"\x02" + text(resource) + text(name) + text(value) + tail)


@pytest.mark.parametrize("resource", ["orders", ""])
def test_the_number_of_min_insync_replicas_stays(resource: str) -> None:
    before = batch([noop(), config("min.insync.replicas", "2", resource=resource), noop()], base_offset=40)

    assert redact(before) is before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min.insync.replicas", "hunter2"),
        ("min.insync.replicas", "123456"),
        ("min.insync.replicas", "\u0662"),
        ("min.insync.replicas.password", "2"),
        ("", "2"),
    ],
)
def test_no_other_value_stays(name: str, value: str) -> None:
    before = batch([noop(), config(name, value), config(name, value, resource="")], base_offset=40)

    stars = "*" * len(value.encode())
    expected = batch([noop(), config(name, stars), config(name, stars, resource="")], base_offset=40)
    assert redact(before) == expected


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(data(4, 0, CONFIG + b"\0"), id="ConfigRecord"),
        pytest.param(data(11, 0, SCRAM), id="UserScramCredentialRecord"),
        pytest.param(data(10, 0, TOKEN), id="DelegationTokenRecord"),
        pytest.param(data(26, 0, text(SECRET) + b"\0"), id="RemoveDelegationTokenRecord"),
        pytest.param(data(4, 1, CONFIG + b"\0"), id="a later version of a record with credentials"),
        pytest.param(data(99, 0, CONFIG + b"\0"), id="an unknown record type"),
        pytest.param(data(300, 0, CONFIG + b"\0"), id="a record type of two bytes"),
        pytest.param(data(4, 0, CONFIG + b"\0", frame=2), id="another frame version"),
        pytest.param(data(4, 0, CONFIG), id="a body that ends early"),
        pytest.param(b"\x81\x00\x04\x00" + CONFIG + b"\0", id="a varint with redundant bytes"),
        pytest.param(SECRET_BYTES, id="not a record"),
    ],
)
def test_no_secret_remains(value: bytes) -> None:
    before = batch([noop(), value], base_offset=3) + batch([noop()], base_offset=5)

    after = redact(before)

    assert SECRET_BYTES not in after
    assert b"hunter" not in after
    assert len(after) == len(before)
    assert all(isinstance(item, RecordBatch) for item in scan(after, expected=3))
    assert redact(after) is after


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(batch([data(4, 0, CONFIG + b"\0")], attributes=2), id="compressed"),
        pytest.param(batch([data(4, 0, CONFIG + b"\0")], last_offset_delta=9), id="an invalid record count"),
        pytest.param(batch([data(4, 0, CONFIG + b"\0")], base_offset=77), id="a base offset that jumps"),
        pytest.param(batch([data(4, 0, CONFIG + b"\0")])[:-1], id="torn"),
        pytest.param(batch([data(4, 0, CONFIG + b"\0")])[:200], id="torn in the middle of the secret"),
        pytest.param(batch([data(4, 0, CONFIG + b"\0")]) + SECRET_BYTES, id="extra bytes after it"),
        pytest.param(batch([control(9, SECRET_BYTES)]), id="an unknown control record"),
        pytest.param(batch([(b"\0", SECRET_BYTES)]), id="a control record without a type"),
        pytest.param(batch_of(record(noop(), 7) + SECRET_BYTES, 1), id="bytes after the last record"),
        pytest.param(batch_of(record(data(4, 0, CONFIG), 5), 1), id="an invalid offset delta"),
        pytest.param(batch_of(b"\xfe\x7f" + SECRET_BYTES, 1), id="a record longer than its batch"),
        pytest.param(batch_of(uvarint(400) + SECRET_BYTES, 1), id="an invalid record"),
    ],
)
def test_the_body_of_unreadable_content_is_overwritten(before: bytes) -> None:
    start = batch([noop()], base_offset=0)

    after = redact(start + before)

    assert b"hunter" not in after
    assert b"xxxx" not in after
    assert len(after) == len(start + before)
    assert after[: len(start)] == start
    assert redact(after) is after


def test_a_damaged_batch_stays_damaged_and_the_next_one_is_found() -> None:
    damaged = bytearray(batch([data(4, 0, CONFIG + b"\0")], base_offset=0))
    damaged[-3] ^= 4

    bad, good = scan(redact(bytes(damaged) + batch([noop()], base_offset=1)))

    assert isinstance(bad, BadBatch)
    assert bad.reason == "the CRC-32C does not match: the batch is damaged"
    assert isinstance(good, RecordBatch)


def _damaged(base_offset: int, records: bytes = record(data(4, 0, CONFIG), 0)) -> bytes:
    whole = bytearray(batch_of(records, 1, base_offset=base_offset, epoch=0x61626364))
    whole[17] ^= 1
    return bytes(whole)


CONFIRMED, DOUBTFUL, SHORTEST = _damaged(1), _damaged(5), _damaged(5, b"")


@pytest.mark.parametrize(
    ("damaged", "expected"),
    [
        pytest.param(CONFIRMED, CONFIRMED[:21] + bytes(len(CONFIRMED) - 21), id="at the expected offset"),
        pytest.param(CONFIRMED[:100], CONFIRMED[:21] + bytes(79), id="torn at the expected offset"),
        pytest.param(CONFIRMED[:15], CONFIRMED[:15], id="header torn at the expected offset"),
        pytest.param(CONFIRMED[:12], CONFIRMED[:12], id="header torn behind the length"),
        pytest.param(CONFIRMED[:11], bytes(11), id="header torn in the length"),
        pytest.param(
            DOUBTFUL,
            b"\xff" * 8 + DOUBTFUL[8:12] + bytes(4) + b"\2" + bytes(len(DOUBTFUL) - 17),
            id="at another offset",
        ),
        pytest.param(
            SHORTEST, b"\xff" * 8 + SHORTEST[8:12] + bytes(4) + b"\2" + bytes(44), id="the shortest at another offset"
        ),
        pytest.param(
            DOUBTFUL[:16] + b"\1" + DOUBTFUL[17:],
            b"\xff" * 8 + DOUBTFUL[8:12] + bytes(4) + b"\2" + bytes(len(DOUBTFUL) - 17),
            id="of an older magic at another offset",
        ),
        pytest.param(DOUBTFUL[:100], bytes(100), id="torn at another offset"),
        pytest.param(DOUBTFUL[:40], bytes(40), id="header torn at another offset"),
    ],
)
def test_of_a_damaged_batch_only_what_is_certainly_its_header_and_its_length_remain(
    damaged: bytes, expected: bytes
) -> None:
    """A header is certain if it holds the offset that follows the batch before it."""
    before = batch([noop()])

    after = redact(before + damaged)

    assert after == before + expected
    assert redact(after) is after, "nothing is left to overwrite"


def test_of_a_damaged_first_batch_only_the_length_remains() -> None:
    assert redact(DOUBTFUL) == b"\xff" * 8 + DOUBTFUL[8:12] + bytes(4) + b"\2" + bytes(len(DOUBTFUL) - 17)


def test_a_log_without_credentials_is_returned_as_the_same_object() -> None:
    log = b"".join(batch([noop()], base_offset=offset) for offset in range(50))

    assert redact(log) is log


@pytest.mark.parametrize("kafka_file", [tinylog, tinysnapshot])
def test_only_config_values_of_files_written_by_kafka_are_redacted(
    kafka_file: Callable[[], tuple[bytes, dict[str, Any]]],
) -> None:
    before, sidecar = kafka_file()

    after = redact(before)

    assert len(after) == len(before)
    changed = sum(one != other for one, other in zip(before, after, strict=True))
    starred = after.count(b"*") - before.count(b"*")
    assert 0 < changed <= starred + 4 * len(list(scan(before)))
    assert all(isinstance(item, RecordBatch) for item in scan(after))
    assert starred >= sidecar["by_type"]["CONFIG_RECORD"]
    assert redact(after) is after


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 7))
def test_no_secret_remains_in_a_damaged_log(noise: bytes, at: int, bit: int) -> None:
    log = bytearray(
        batch([noop()]) + batch([data(4, 0, CONFIG + b"\0")], base_offset=1) + batch([noop()], base_offset=2)
    )
    log[at % len(log)] ^= 1 << bit

    after = redact(bytes(log) + noise)

    assert len(after) == len(log) + len(noise)
    assert b"xxxxxxxxxxxxxxxx" not in after or b"xxxxxxxxxxxxxxxx" in noise
    assert redact(after) == after


def test_a_record_of_which_one_name_is_no_text_is_overwritten_completely() -> None:
    """A plain name stays only in a record that its schema reads completely."""
    good = b"\x04" + text("name") + text("retention.ms") + text("first") + b"\0"
    bad = b"\x04" + compact(b"na\xffe") + text("retention.ms") + text("other") + b"\0"

    after = redact(batch([data(4, 0, good), data(4, 0, bad)]))

    assert after.count(b"retention.ms") == 1
    assert b"other" not in after


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

    assert SECRET_BYTES not in after and b"hunter" not in after
    assert len(after) == len(payload)
    assert all(isinstance(item, RecordBatch) for item in scan(after, expected=0)), "offsets and CRCs are valid"
    assert redact(after) is after
    table = decode_records(after, base_offset=0, last_offset=0, leader_epoch=1, high_watermark=9)
    assert any(isinstance(event, Undecodable | UnknownRecords) for event in table.events()), "the record is reported"


@pytest.mark.parametrize(("name", "api_key", "version", "fields"), EVERY_RECORD)
def test_a_secret_beside_the_fields_of_a_record_is_blanked(
    name: str, api_key: int, version: int, fields: FieldType
) -> None:
    body = written(fields, with_zeros(fields, {}))

    for damaged in (
        body + SECRET_BYTES,
        body[:-1] + tagged(t99=SECRET_BYTES),
        body[:-1] + b"\2" + b"\x63\1a" + b"\x63" + uvarint(len(SECRET_BYTES)) + SECRET_BYTES,
        body[:-1] + SECRET_BYTES,
        SECRET_BYTES,
        CONFIG + b"\0",
        b"",
    ):
        payload = batch([noop(), data(api_key, version, damaged)])
        if complete(fields, damaged):
            continue
        after = redact(payload)
        assert SECRET_BYTES not in after
        if damaged:
            assert_blanked(payload)


@pytest.mark.parametrize(("api_key", "version", "fields"), EVERY_CONTROL)
def test_a_secret_beside_the_fields_of_a_control_record_is_blanked(
    api_key: int, version: int, fields: FieldType
) -> None:
    body = written(fields, with_zeros(fields, {"version": version}))

    for damaged in (
        body + SECRET_BYTES,
        body[:-1] + tagged(t99=SECRET_BYTES),
        body[:2] + SECRET_BYTES,
        SECRET_BYTES,
        CONFIG + b"\0",
    ):
        assert_blanked(batch([control(api_key, damaged)]))
    assert_blanked(batch([(b"\0\0" + bytes((0, api_key)) + SECRET_BYTES, body)]))
    assert redact(whole := batch([control(api_key, body)])) is whole


@pytest.mark.parametrize("size", [2, 3, 40])
def test_zeros_that_an_older_kraftwatch_wrote_over_a_body_stay(size: int) -> None:
    """It filled the body of a type that it did not know with zeros; the type is known now."""
    payload = batch([data(2, 0, bytes(size))])

    assert redact(payload) is payload


@pytest.mark.parametrize("value", [noop(), data(2, 0, text("t") + bytes(range(16)) + b"\0")], ids=["NoOp", "Topic"])
def test_a_secret_in_the_key_or_the_headers_of_a_record_is_blanked(value: bytes) -> None:
    assert_blanked(batch_of(record(value, 0, key=SECRET_BYTES), 1))
    assert_blanked(batch_of(record(value, 0, headers=b"\2\2k" + uvarint(len(SECRET_BYTES) * 2) + SECRET_BYTES), 1))


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
@given(st.lists(st.tuples(st.integers(0, 31), st.integers(0, 4), st.binary(max_size=60)), min_size=1, max_size=4))
def test_redacting_any_bodies_is_idempotent_and_reports_each_blanked_record(
    bodies: list[tuple[int, int, bytes]],
) -> None:
    payload = batch([data(*body) for body in bodies])

    after = redact(payload)

    assert redact(after) is after
    table = decode_records(after, base_offset=0, last_offset=0, leader_epoch=1, high_watermark=9)
    reported = {event.offset for event in table.events() if isinstance(event, Undecodable)}
    unknown = sum(event.count for event in table.events() if isinstance(event, UnknownRecords))
    schemas = record_schemas().records
    for offset, (api_key, version, body) in enumerate(bodies):
        versions = schemas[api_key].versions.get(version, ()) if api_key in schemas else ()
        if not versions or was_unknown(body):
            unknown -= 1
            continue
        assert offset in reported or not any(body) or any(complete(fields, body) for fields in versions)
    assert unknown == 0, "each record of an unknown type or version is counted"


def test_a_log_from_which_a_build_has_taken_another_value_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    position = new_progress(0)
    recorded = replace(position, next_offset=7)
    assert not recorded.lacks_known_records
    monkeypatch.setattr("connectors.metadata.record_schemas.MIN_ISR", "max.message.bytes")
    known_records.cache_clear()
    try:
        assert recorded.lacks_known_records
    finally:
        known_records.cache_clear()
