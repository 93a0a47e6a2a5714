"""Readers of fields: what each type's bytes mean, and why bytes are refused."""

import struct
from typing import Any

import pytest

from connectors.errors import UndecodableError
from connectors.metadata.field_readers import field_reader, read_body, uvarint
from connectors.metadata.record_schemas import Field, FieldType
from connectors.metadata.value_limits import LARGEST_BODY, LARGEST_STRING
from tests.unit.connectors.metadata.metadata_bytes import ints, tagged, text
from tests.unit.connectors.metadata.metadata_bytes import uvarint as written_uvarint

STRINGS = ("compact_string", "compact_nullable_string")
BYTES = ("compact_bytes", "compact_nullable_bytes")
NOT_NULLABLE = ("compact_string", "compact_bytes", "compact_array")
ARRAYS = ("compact_array", "compact_nullable_array")
BEFORE = b"\x81\x81"


def of(name: str, element: FieldType | None = None) -> FieldType:
    return FieldType(name=name, of=element, defaults={})


def struct_of(*fields: tuple[str, FieldType], tags: dict[int, tuple[str, FieldType]] | None = None) -> FieldType:
    """A struct; its tagged fields are 0 if they are absent."""
    plain = [Field(name=name, json=name, type=type_, tag=None) for name, type_ in fields]
    with_tag = [Field(name=name, json=name, type=type_, tag=tag) for tag, (name, type_) in (tags or {}).items()]
    return FieldType(name="struct", fields=(*plain, *with_tag), defaults={each.name: 0 for each in with_tag})


def read(type_: FieldType, content: bytes, **spans: Any) -> tuple[Any, int]:
    """Returns the value, and the number of bytes read of the content, which is behind other bytes."""
    value, end = field_reader(type_, **spans)(BEFORE + content, len(BEFORE))
    return value, end - len(BEFORE)


LONGEST = "a" * LARGEST_STRING


@pytest.mark.parametrize(
    ("name", "content", "value"),
    [
        ("boolean", b"\1", True),
        ("int8", b"\xfe", -2),
        ("int16", b"\xff\1", -255),
        ("uint16", b"\xff\1", 65_281),
        ("int32", b"\xff\xff\xff\1", -255),
        ("unsigned_int32", b"\xff\xff\xff\1", 4_294_967_041),
        ("int64", b"\xff" * 7 + b"\1", -255),
        ("float64", struct.pack(">d", -0.1), -0.1),
        ("uuid", bytes(range(16)), "AAECAwQFBgcICQoLDA0ODw"),
        ("uuid", bytes(16), None),
        *((name, text("é" * 70), "é" * 70) for name in STRINGS),
        *((name, text(""), "") for name in STRINGS),
        *((name, b"\4\xff\0\1", b"\xff\0\1") for name in BYTES),
        ("compact_nullable_string", b"\0", None),
        ("compact_nullable_bytes", b"\0", None),
        ("compact_nullable_array", b"\0", None),
        ("compact_string", text(LONGEST), LONGEST),
        ("compact_bytes", text(LONGEST + "a"), LONGEST.encode() + b"a"),
        *((name, ints(values), values) for name in ARRAYS for values in ([], [7], [*range(200)])),
    ],
)
def test_a_value_of_each_type_is_read_and_ends_where_the_next_field_begins(
    name: str, content: bytes, value: object
) -> None:
    type_ = of(name, of("int32"))
    assert read(type_, content + b"\1") == read(type_, content) == (value, len(content))


TAGGED = struct_of(tags={3: ("b", of("int16"))})


@pytest.mark.parametrize(
    ("type_", "content", "reason"),
    [
        *((of(name, of("int32")), b"\0", "has null in a field that is not nullable") for name in NOT_NULLABLE),
        (of("compact_string"), text("abc")[:-1], "ends in the middle of a string"),
        (of("compact_bytes"), text("abc")[:-1], "ends in the middle of a string"),
        (of("uuid"), bytes(15), "ends in the middle of a UUID"),
        (of("compact_array", of("int8")), b"\5\0\0\0", "has an array of 4 elements, more than fit in it"),
        (
            of("compact_string"),
            text(LONGEST + "a"),
            f"has a string of {LARGEST_STRING + 1} bytes, expected at most {LARGEST_STRING}",
        ),
        (of("compact_bytes"), b"\x80" * 6, "has a varint of more than five bytes"),
        (TAGGED, b"\2\3\2\0\1\3\2\0\1", "has tagged fields out of order"),
        (TAGGED, b"\2\3\2\0\1\2\0", "has tagged fields out of order"),
        (TAGGED, b"\1\3\3\0\1\0", "has 3 bytes in the tagged field b, expected 2"),
        (TAGGED, b"\1\3\1\0\1", "has 1 bytes in the tagged field b, expected 2"),
        (TAGGED, b"\1\3\3\0\1", "ends in the middle of a tagged field"),
    ],
)
def test_a_value_that_exceeds_its_body_or_a_limit_is_refused(type_: FieldType, content: bytes, reason: str) -> None:
    with pytest.raises(UndecodableError) as refused:
        read(type_, content)

    assert str(refused.value) == reason


@pytest.mark.parametrize("value", [0, 127, 128, 16_383, 16_384, 2**31 - 1, 2**32 - 1, 2**35 - 1])
def test_an_unsigned_varint_has_up_to_five_bytes(value: int) -> None:
    written = written_uvarint(value)

    assert uvarint(BEFORE + written + b"\1", len(BEFORE)) == (value, len(BEFORE) + len(written))


def test_tagged_fields_replace_defaults_and_unknown_ones_are_skipped() -> None:
    type_ = struct_of(("a", of("int8")), tags={3: ("b", of("int16")), 200: ("c", of("compact_string"))})

    assert read(type_, b"\7\0\1") == ({"a": 7, "b": 0, "c": 0}, 2)
    fields = tagged(t2=b"?", t3=b"\0\x09", t4=b"", t200=text("x"), t300=b"??")
    assert read(type_, b"\7" + fields + b"\1") == ({"a": 7, "b": 9, "c": "x"}, 1 + len(fields))
    assert read(type_, b"\7" + tagged(t0=b"") + b"\1") == ({"a": 7, "b": 0, "c": 0}, 4)


@pytest.mark.parametrize("name", STRINGS + BYTES)
def test_the_span_of_a_named_field_is_returned(name: str) -> None:
    type_ = struct_of(("shown", of(name)), ("secret", of(name)))

    values, size = read(type_, text("ab") + text("hunter2") + b"\0", spans=frozenset({"secret"}))

    assert values == {"shown": b"ab" if "bytes" in name else "ab", "secret": (6, 13)}
    assert size == 12


def test_spans_are_found_in_arrays_and_structs_and_may_be_absent() -> None:
    for array in ARRAYS:
        inner = struct_of(("secret", of("compact_nullable_string")), ("id", of("uuid")))
        type_ = struct_of(("list", of(array, inner)), ("secret", of(array, of("compact_bytes"))), ("null", of("int8")))
        entry = text("ab") + bytes(16) + b"\0"

        content = b"\3" + entry + b"\0" + bytes(16) + b"\0" + b"\3" + text("c") + text("") + b"\1\0"
        values, _ = read(type_, content, spans=frozenset({"secret", "null"}))

        assert values == {
            "list": [{"secret": (4, 6), "id": None}, {"secret": None, "id": None}],
            "secret": [(43, 44), (45, 45)],
            "null": 1,
        }


def test_a_nullable_list_of_spans_can_be_null_and_no_other() -> None:
    nullable, other = (struct_of(("secret", of(array, of("compact_string")))) for array in ARRAYS[::-1])

    assert read(nullable, b"\0\0", spans=frozenset({"secret"})) == ({"secret": None}, 2)
    for type_ in (other, struct_of(("secret", of("compact_string"))), struct_of(("secret", of("compact_bytes")))):
        with pytest.raises(UndecodableError, match="null"):
            read(type_, b"\0\0", spans=frozenset({"secret"}))


def test_a_tagged_field_that_the_schema_lacks_is_refused_only_where_spans_are_read() -> None:
    outer = struct_of(("inner", struct_of(("a", of("int8")))))
    content = b"\1" + tagged(t9=b"hunter2") + b"\0"

    assert read(outer, content)[0] == {"inner": {"a": 1}}
    with pytest.raises(UndecodableError, match=r"^has a tagged field that its schema lacks$"):
        read(outer, content, spans=frozenset())


NAME = of("compact_nullable_string")


@pytest.mark.parametrize(
    ("type_", "body", "reason"),
    [
        (NAME, b"\0\0\1", "has 1 bytes more than its fields"),
        (NAME, b"\0", "ends in the middle of a field"),
        (NAME, b"", "ends in the middle of a field"),
        (of("int32"), bytes(3), "ends in the middle of a field"),
        (NAME, b"\2\xff\0", "holds a string that is not UTF-8"),
        (NAME, bytes(LARGEST_BODY + 1), f"has {LARGEST_BODY + 1} bytes, expected at most {LARGEST_BODY}"),
        (NAME, bytes(LARGEST_BODY), f"has {LARGEST_BODY - 2} bytes more than its fields"),
    ],
)
def test_a_body_that_does_not_match_its_schema_is_refused(type_: FieldType, body: bytes, reason: str) -> None:
    with pytest.raises(UndecodableError) as refused:
        read_body(field_reader(struct_of(("a", type_))), body)

    assert str(refused.value) == reason
