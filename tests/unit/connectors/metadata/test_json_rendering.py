"""JSON rendering: values as Kafka's JSON converters write them."""

import math
from typing import Any

import pytest

from connectors.metadata.record_rendering import rendered
from connectors.metadata.record_schemas import Field, FieldType


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
