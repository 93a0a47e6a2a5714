"""JSON rendering: values as Kafka's JSON converters write them."""

import math
from typing import Any

import pytest

from connectors.metadata.record_rendering import BLANK, rendered
from connectors.metadata.record_schemas import Field, FieldType


def of(type_: str, *fields: Field, element: FieldType | None = None, **defaults: object) -> FieldType:
    return FieldType(name=type_, of=element, fields=fields, defaults=defaults)


def field(name: str, type_: FieldType, tag: int | None = None) -> Field:
    return Field(name=name, json=name.upper(), type=type_, tag=tag)


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


def test_fields_are_rendered_in_the_order_of_their_declaration() -> None:
    number = of("int32")
    type_ = of("struct", field("b", number), field("t", number, tag=0), field("a", number), b=0, t=-1, a=0)

    assert list(rendered(type_, {"a": 1, "b": 2, "t": 3})) == ["B", "T", "A"]
    assert rendered(type_, {"a": 1, "b": 2, "t": -1}) == {"B": 2, "A": 1}


def test_a_blanked_field_hides_every_string_in_it_and_keeps_its_structure() -> None:
    principal = of("struct", field("kind", of("compact_string")), field("age", of("int8")), kind="", age=0)
    type_ = of(
        "struct",
        field("name", of("compact_string")),
        field("who", of("compact_array", element=principal)),
        name="",
        who=[],
    )
    value = {"name": "n", "who": [{"kind": "User", "age": 3}, {"kind": "", "age": 4}]}

    assert rendered(type_, value, blank={"who"}) == {
        "NAME": "n",
        "WHO": [{"KIND": BLANK, "AGE": 3}, {"KIND": "", "AGE": 4}],
    }
