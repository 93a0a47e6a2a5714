"""Dumping every record of a file: unreadable records are reported at their position, and nothing raises."""

import json
import math
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.metadata.batches import write_crc
from connectors.metadata.dump_log import (
    CONTROL_NAMES,
    DumpedRecord,
    DumpGap,
    LogSummary,
    dump_records,
    is_record_log,
)
from connectors.metadata.record_rendering import BLANK, rendered
from connectors.metadata.record_schemas import Field, FieldType, kafka_versions, record_schemas
from tests.unit.connectors.metadata.metadata_bytes import (
    batch,
    batch_of,
    control,
    data,
    ints,
    noop,
    record,
    tagged,
    text,
    tinylog,
    tinysnapshot,
)
from tests.unit.connectors.metadata.metadata_record_schemas import EVERY_RECORD, values, written
from tests.unit.connectors.metadata.secret_values import SECRET, secret_value


def records(segment: bytes, kafka: str | None = None, *, secrets: bool = False) -> list[DumpedRecord]:
    return [entry for entry in dump_records(segment, kafka=kafka, secrets=secrets) if isinstance(entry, DumpedRecord)]


def one(value: bytes | tuple[bytes, bytes], kafka: str | None = None, *, secrets: bool = False) -> DumpedRecord:
    (found,) = records(batch([value]), kafka, secrets=secrets)
    return found


def feature(level: int) -> bytes:
    return data(12, 0, text("metadata.version") + level.to_bytes(2, "big") + tagged())


def test_a_metadata_record_has_the_name_that_kafka_dump_log_prints() -> None:
    (_, second) = records(batch([noop(), feature(30)], base_offset=40, epoch=7, timestamp=5))

    assert second == DumpedRecord(
        offset=41,
        epoch=7,
        timestamp=5,
        type="FEATURE_LEVEL_RECORD",
        version=0,
        data={"name": "metadata.version", "featureLevel": 30},
        length=len(feature(30)),
    )


def test_a_control_record_has_the_name_that_kafka_dump_log_prints_and_its_own_version() -> None:
    found = one(control(5, b"\0\0" + b"\0\1" + tagged()))

    assert (found.type, found.version, found.data) == ("KRaftVersion", 0, {"version": 0, "kRaftVersion": 1})


def test_each_control_record_of_any_kafka_has_a_name() -> None:
    assert CONTROL_NAMES.keys() == {schema.name for schema in record_schemas().control.values()}


def test_a_tagged_field_with_its_default_is_not_shown() -> None:
    start = (3).to_bytes(4, "big") + bytes(range(16))
    absent, unchanged, new = (
        one(data(5, 0, start + tags)).data
        for tags in (tagged(), tagged(t1=b"\xff\xff\xff\xfe"), tagged(t1=b"\0\0\0\2", t3=ints([])))
    )

    assert absent == unchanged == {"partitionId": 3, "topicId": "AAECAwQFBgcICQoLDA0ODw"}
    assert new == {**absent, "leader": 2, "removingReplicas": []}


def test_the_zero_uuid_is_printed() -> None:
    found = one(data(9, 0, bytes(16) + tagged()))

    assert found.data == {"topicId": "AAAAAAAAAAAAAAAAAAAAAA"}


NEWEST = f"any Kafka up to {kafka_versions()[-1]}"
EARLY = "the value ends before its type and version"


@pytest.mark.parametrize(
    ("value", "kafka", "found", "reason"),
    [
        (data(99, 1, b"?"), None, ("UNKNOWN", 99, 1), f"record type 99 is not known to {NEWEST}"),
        (data(28, 0, tagged()), "3.9.2", ("UNKNOWN", 28, 0), "record type 28 is not known to Kafka 3.9.2"),
        (
            data(3, 9, b"?"),
            None,
            ("PARTITION_RECORD", None, 9),
            f"version 9 of PARTITION_RECORD is not known to {NEWEST}",
        ),
        (control(44, b"\0\3"), None, ("UNKNOWN", 44, 3), f"control record type 44 is not known to {NEWEST}"),
        # It is blanked.
        (
            control(5, b"\xff" * 3),
            None,
            ("KRaftVersion", None, -1),
            f"version -1 of KRaftVersion is not known to {NEWEST}",
        ),
    ],
)
def test_a_record_of_an_unknown_type_or_version_is_not_damaged(
    value: bytes | tuple[bytes, bytes], kafka: str | None, found: tuple[object, ...], reason: str
) -> None:
    unknown = one(value, kafka)

    assert (unknown.type, unknown.number, unknown.version) == found
    assert (unknown.data, unknown.damaged, unknown.reason) == (None, False, reason)
    assert unknown.length == len(value if isinstance(value, bytes) else value[1])
    assert one(noop(), "3.3.2").data == {}


@pytest.mark.parametrize(
    ("value", "type_", "reason"),
    [
        (b"", None, EARLY),
        (data(12, 0, b"", frame=2), None, "frame version 2, expected 1"),
        (control(5, b"\0"), None, "a control record without a version"),
        ((b"\0", b"\0\0"), None, "a control record without a type"),
        ((b"\0\0\0", b"\0\0"), None, "a control record without a type"),
        (data(12, 0, text("metadata.version")), "FEATURE_LEVEL_RECORD", "the record ends in the middle of a field"),
        # Of two schemas, the problem of the newest.
        (
            data(11, 0, text("a") + b"\1" + text("s") * 3 + bytes(4) + b"\0?"),
            "USER_SCRAM_CREDENTIAL_RECORD",
            "the record has 1 bytes more than its fields",
        ),
    ],
)
def test_a_damaged_record_has_its_reason_and_keeps_its_name(
    value: bytes | tuple[bytes, bytes], type_: str | None, reason: str
) -> None:
    found = one(value)

    assert (found.type, found.data, found.damaged, found.reason) == (type_, None, True, reason)


def test_a_version_with_two_schemas_is_read_with_the_one_that_fits() -> None:
    schema = record_schemas("3.3.2").records[11].versions[0][0]
    (infos,) = (field for field in schema.fields if field.name == "credential_infos")
    assert infos.type.of is not None
    values = {"name": "alice", "credential_infos": [any_values(infos.type.of)]}
    found = one(data(11, 0, written(schema, values)), secrets=True)

    assert found.data is not None and found.data["name"] == "alice"
    assert one(data(11, 0, written(schema, values)), "4.3.1").damaged


def any_values(type_: FieldType) -> dict[str, object]:
    return {field.name: b"hidden" if "bytes" in field.type.name else 1 for field in type_.fields}


@pytest.mark.parametrize("kafka", kafka_versions())
def test_credentials_are_blanked_unless_secrets_are_requested(kafka: str) -> None:
    encoded = b64encode(SECRET.encode()).decode()
    for api_key in (4, 10, 11, 26):
        schema = record_schemas(kafka).records.get(api_key)
        for version, (fields, *_) in ({} if schema is None else schema.versions).items():
            value = data(api_key, version, written(fields, secret_value("", fields)))
            shown, hidden = (json.dumps(one(value, kafka, secrets=secrets).data) for secrets in (True, False))
            assert SECRET in shown or encoded in shown
            assert SECRET not in hidden and encoded not in hidden
            assert BLANK in hidden


def test_null_and_empty_values_are_shown() -> None:
    def config(value: str | None) -> bytes:
        return data(4, 0, b"\2" + text("orders") + text("retention.ms") + text(value) + tagged())

    shown = [one(config(value)).data for value in (None, "", "86400000")]

    assert [found["value"] for found in shown if found is not None] == [None, "", BLANK]


FIRST, SECOND, THIRD = (batch([noop()], base_offset=offset) for offset in range(3))
AFTER_GAP = b"".join(batch([noop()], base_offset=offset) for offset in (5, 6))


@pytest.mark.parametrize(
    ("segment", "offsets", "gap"),
    [
        (SECOND[:-1] + b"?" + THIRD, [0, 2], (72, 1, "the CRC-32C does not match: the batch is damaged")),
        (
            batch([noop()], base_offset=1, attributes=2) + THIRD,
            [0, 2],
            (72, 1, "compressed with snappy, which KRaft never writes: not read"),
        ),
        (SECOND[:30], [0], (30, 1, "the file is torn: 42 bytes of its last batch are missing")),
        (SECOND[:10], [0], (10, 1, "the file is torn")),
        (AFTER_GAP, [0, 5, 6], (0, 5, "base offset 5, expected 1")),
    ],
    ids=["damaged", "compressed", "torn", "torn in its length", "missing records"],
)
def test_what_is_not_read_is_reported_once_and_the_rest_is_read(
    segment: bytes, offsets: list[int], gap: tuple[int, int, str]
) -> None:
    entries = list(dump_records(FIRST + segment))

    assert [entry.offset for entry in entries if isinstance(entry, DumpedRecord)] == offsets
    assert [(each.position, each.size, each.offset, each.reason) for each in entries if isinstance(each, DumpGap)] == [
        (len(FIRST), *gap)
    ]


@pytest.mark.parametrize(("delta", "timestamp", "damaged"), [(250, 1250, False), (1 << 60, 1000, True)])
def test_a_records_timestamp_is_that_of_its_batch_and_its_own_delta_if_possible(
    delta: int, timestamp: int, damaged: bool
) -> None:
    (found,) = records(batch_of(record(noop(), 0, timestamp_delta=delta), 1, timestamp=1000))

    assert (found.timestamp, found.damaged) == (timestamp, damaged)


def test_a_batch_with_log_append_time_has_its_max_timestamp() -> None:
    appended = bytearray(batch([noop()], attributes=8, timestamp=9))
    appended[35:43] = (12).to_bytes(8, "big")
    write_crc(appended)

    (found,) = records(bytes(appended))

    assert found.timestamp == 12


def test_a_record_without_a_value_is_damaged_and_has_the_length_of_all_its_bytes() -> None:
    tombstone = record(None, 0)
    (found,) = records(batch_of(tombstone, 1))

    assert (found.reason, found.length, found.damaged) == ("a record without a value", len(tombstone), True)


@pytest.mark.parametrize(
    ("content", "log"),
    [
        (batch([noop()]), True),
        (batch([noop()])[:40], True),
        (batch([noop()])[:17], True),
        (batch([noop()])[:16], False),
        (batch([noop()])[:16] + b"\1" + batch([noop()])[17:], False),
        (bytes(16) + b"\2" + bytes(60), False),
        (batch([noop()])[:-1] + b"?", True),
        (b"", False),
        (b"\0" * 200, False),
        (b"# a text of many lines\n" * 20, False),
        (b"PK\3\4" + bytes(range(200)), False),
    ],
)
def test_a_record_log_is_recognised_by_its_first_bytes(content: bytes, log: bool) -> None:
    assert is_record_log(content) is log


def test_files_written_by_kafka_are_dumped_completely() -> None:
    for segment, made in (tinylog(), tinysnapshot()):
        counted: dict[str, int] = {}
        summary = LogSummary()
        for entry in dump_records(segment):
            summary.add(entry)
            match entry:
                case DumpedRecord(data=dict()):
                    counted[str(entry.type)] = counted.get(str(entry.type), 0) + 1
                case _:
                    pytest.fail(str(entry))
        assert {name: count for name, count in counted.items() if name in made["by_type"]} == made["by_type"]
        assert sum(counted.values()) == made["data_records"] + made["control_records"]
        assert (summary.records.total(), summary.control_records.total(), summary.undecodable) == (
            made["data_records"],
            made["control_records"],
            0,
        )
        assert {**summary.records, **summary.control_records} == counted
        assert summary.is_snapshot == (segment is tinysnapshot()[0])
        fast = LogSummary()
        for _ in fast.count(segment):
            pass
        assert fast == summary


@pytest.mark.parametrize(("name", "api_key", "version", "fields"), EVERY_RECORD)
@settings(max_examples=10)
@given(drawn=st.data())
def test_any_record_that_kafka_could_write_is_rendered_as_json(
    name: str, api_key: int, version: int, fields: FieldType, drawn: st.DataObject
) -> None:
    value = drawn.draw(values(fields))
    found = one(data(api_key, version, written(fields, value)))

    assert found.reason is None and found.data is not None
    untagged = [field.json for field in fields.fields if field.tag is None]
    assert [key for key in found.data if key in untagged] == untagged
    json.dumps(found.data, allow_nan=False)


@settings(max_examples=60)
@given(drawn=st.data())
def test_dumping_damaged_bytes_never_raises(drawn: st.DataObject) -> None:
    start = drawn.draw(st.integers(0, 20_000))
    segment = bytearray(tinylog()[0][start : start + 3000])
    for _ in range(drawn.draw(st.integers(0, 4))):
        segment[drawn.draw(st.integers(0, len(segment) - 1))] = drawn.draw(st.integers(0, 255))

    for entry in dump_records(bytes(segment)):
        assert isinstance(entry, DumpedRecord | DumpGap)


@given(st.binary(max_size=80))
def test_dumping_a_record_with_any_body_never_raises(body: bytes) -> None:
    for api_key in record_schemas().records:
        assert one(data(api_key, 0, body)).length == len(body) + 3


def of(type_: str, *fields: Field, element: FieldType | None = None, **defaults: object) -> FieldType:
    return FieldType(name=type_, of=element, fields=fields, defaults=defaults)


@pytest.mark.parametrize(
    ("type_", "value", "json"),
    [
        (of("int64"), -(2**63), -(2**63)),
        (of("boolean"), True, True),
        (of("uuid"), None, "AAAAAAAAAAAAAAAAAAAAAA"),
        (of("uuid"), "AAECAwQFBgcICQoLDA0ODw", "AAECAwQFBgcICQoLDA0ODw"),
        (of("compact_bytes"), b"\xfb\xff", "+/8="),
        (of("compact_nullable_bytes"), None, None),
        (of("compact_nullable_string"), None, None),
        (of("compact_nullable_array", element=of("int32")), None, None),
        (of("compact_array", element=of("compact_bytes")), [b"", b"a"], ["", "YQ=="]),
        (of("float64"), 0.1, 0.1),
        (of("float64"), math.nan, "NaN"),
        (of("float64"), math.inf, "Infinity"),
        (of("float64"), -math.inf, "-Infinity"),
    ],
)
def test_a_value_is_rendered_as_kafka_renders_it(type_: FieldType, value: Any, json: Any) -> None:
    assert rendered(type_, value) == json
