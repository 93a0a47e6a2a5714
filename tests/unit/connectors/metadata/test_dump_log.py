"""Dumping every record of a file: unreadable records are reported at their position, and nothing raises."""

import json
from base64 import b64encode
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.metadata.batches import write_crc
from connectors.metadata.dump_log import (
    CONTROL_NAMES,
    DumpedRecord,
    DumpEntry,
    DumpGap,
    LogSummary,
    dump_records,
    is_record_log,
)
from connectors.metadata.record_rendering import BLANK
from connectors.metadata.record_schemas import FieldType, kafka_versions, record_schemas
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
from tests.unit.connectors.metadata.test_all_kafka_versions import SECRET, secret_value

pytestmark = pytest.mark.kip("A018", "A054", "A056", "A104", "C002", "D018", "D019")


def records(segment: bytes, kafka: str | None = None, *, secrets: bool = False) -> list[DumpedRecord]:
    return [entry for entry in dump_records(segment, kafka=kafka, secrets=secrets) if isinstance(entry, DumpedRecord)]


def one(value: bytes | tuple[bytes, bytes], kafka: str | None = None, *, secrets: bool = False) -> DumpedRecord:
    (found,) = records(batch([value]), kafka, secrets=secrets)
    return found


def gaps(entries: Sequence[DumpEntry]) -> list[tuple[int, int, int | None, str]]:
    return [(entry.position, entry.size, entry.offset, entry.reason) for entry in entries if isinstance(entry, DumpGap)]


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


@pytest.mark.kip("A104")
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


def test_a_record_of_an_unknown_type_is_dumped_with_its_length() -> None:
    found = one(data(99, 1, b"a secret?"))

    assert (found.type, found.number, found.version, found.data) == ("UNKNOWN", 99, 1, None)
    assert (found.length, found.damaged) == (12, False)
    assert found.reason == f"record type 99 is not known to any Kafka up to {kafka_versions()[-1]}"


def test_a_record_of_an_unknown_version_is_dumped_with_its_name() -> None:
    found = one(data(3, 9, b"?"))

    assert (found.type, found.version, found.data, found.damaged) == ("PARTITION_RECORD", 9, None, False)
    assert found.reason == f"version 9 of PARTITION_RECORD is not known to any Kafka up to {kafka_versions()[-1]}"


def test_an_unknown_control_record_is_dumped_with_its_number() -> None:
    found = one(control(44, b"\0\3"))

    assert (found.type, found.number, found.version) == ("UNKNOWN", 44, 3)
    assert found.reason == f"control record type 44 is not known to any Kafka up to {kafka_versions()[-1]}"


def test_a_blanked_control_record_has_a_version_that_no_kafka_knows() -> None:
    found = one(control(5, b"\xff\xff\xff"))

    assert (found.type, found.version, found.damaged) == ("KRaftVersion", -1, False)


def test_a_record_that_the_named_kafka_does_not_know_is_unknown() -> None:
    found = one(noop(), "3.3.2"), one(data(28, 0, tagged()), "3.9.2")

    assert found[0].data == {}
    assert (found[1].type, found[1].reason) == ("UNKNOWN", "record type 28 is not known to Kafka 3.9.2")


def test_a_record_that_ends_early_is_damaged_and_keeps_its_name() -> None:
    found = one(data(12, 0, text("metadata.version")))

    assert (found.type, found.version, found.data, found.damaged) == ("FEATURE_LEVEL_RECORD", 0, None, True)
    assert found.reason == "the record ends in the middle of a field"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the value ends before its type and version"),
        (data(12, 0, b"", frame=2), "frame version 2, expected 1"),
        (control(5, b"\0"), "a control record without a version"),
        ((b"\0", b"\0\0"), "a control record without a type"),
        ((b"\0\0\0", b"\0\0"), "a control record without a type"),
    ],
)
def test_a_record_without_type_or_version_is_damaged(value: bytes | tuple[bytes, bytes], reason: str) -> None:
    found = one(value)

    assert (found.type, found.version if isinstance(value, bytes) else None, found.damaged) == (None, None, True)
    assert found.reason == reason


def test_a_version_with_two_schemas_is_read_with_the_one_that_fits() -> None:
    schema = record_schemas("3.3.2").records[11].versions[0][0]
    (infos,) = (field for field in schema.fields if field.name == "credential_infos")
    assert infos.type.of is not None
    values = {"name": "alice", "credential_infos": [any_values(infos.type.of)]}
    found = one(data(11, 0, written(schema, values)), secrets=True)

    assert found.data is not None and found.data["name"] == "alice"
    assert one(data(11, 0, written(schema, values)), "4.3.1").damaged


def test_a_record_that_fits_none_of_two_schemas_has_the_problem_of_the_newest() -> None:
    found = one(data(11, 0, text("a") + b"\1" + text("s") * 3 + bytes(4) + b"\0?"))

    assert found.reason == "the record has 1 bytes more than its fields"


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


def test_a_damaged_batch_is_skipped_and_the_rest_is_read() -> None:
    first, second, third = (batch([noop()], base_offset=offset) for offset in range(3))
    damaged = second[:-1] + bytes((second[-1] ^ 1,))
    entries = list(dump_records(first + damaged + third))

    assert [entry.offset for entry in entries if isinstance(entry, DumpedRecord)] == [0, 2]
    assert gaps(entries) == [(len(first), len(second), 1, "the CRC-32C does not match: the batch is damaged")]


def test_a_compressed_batch_is_reported() -> None:
    assert gaps(list(dump_records(batch([noop()], attributes=2)))) == [
        (0, 72, 0, "compressed with snappy, which KRaft never writes: not read")
    ]


@pytest.mark.parametrize(
    ("size", "reason"),
    [(30, "the file is torn: 42 bytes of its last batch are missing"), (10, "the file is torn")],
)
def test_a_torn_tail_is_reported(size: int, reason: str) -> None:
    whole = batch([noop()])

    assert gaps(list(dump_records(whole + batch([noop()], base_offset=1)[:size]))) == [(len(whole), size, 1, reason)]


def test_a_gap_in_the_offsets_is_reported_once_and_the_rest_is_read() -> None:
    entries = list(dump_records(b"".join(batch([noop()], base_offset=offset) for offset in (0, 5, 6, 7))))

    assert [entry.offset for entry in entries if isinstance(entry, DumpedRecord)] == [0, 5, 6, 7]
    assert gaps(entries) == [(72, 0, 5, "base offset 5, expected 1")]


def test_a_batch_with_log_append_time_has_its_max_timestamp() -> None:
    appended = bytearray(batch([noop()], attributes=8, timestamp=9))
    appended[35:43] = (12).to_bytes(8, "big")
    write_crc(appended)

    (found,) = records(bytes(appended))

    assert found.timestamp == 12


def test_a_records_timestamp_is_that_of_its_batch_and_its_own_delta() -> None:
    (found,) = records(batch_of(record(noop(), 0, timestamp_delta=250), 1, timestamp=1000))

    assert found.timestamp == 1250


def test_a_record_without_a_value_is_damaged_and_has_the_length_of_all_its_bytes() -> None:
    tombstone = record(None, 0)
    (found,) = records(batch_of(tombstone, 1))

    assert (found.reason, found.length, found.damaged) == ("a record without a value", len(tombstone), True)


def test_a_record_with_an_impossible_timestamp_has_that_of_its_batch() -> None:
    (found,) = records(batch_of(record(noop(), 0, timestamp_delta=1 << 60), 1, timestamp=1000))

    assert (found.timestamp, found.damaged) == (1000, True)


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
