"""Encodes records from their schemas, and strategies for any record that Kafka could write."""

from collections.abc import Mapping
from struct import Struct
from typing import Any

import pytest
from hypothesis import strategies as st

from connectors.metadata.record_schemas import FieldType, record_schemas
from tests.unit.connectors.metadata.metadata_bytes import control, data, uvarint

EVERY_RECORD = [
    pytest.param(schema.name, schema.type, version, fields, id=f"{schema.name} v{version}")
    for schema in record_schemas().records.values()
    for version, (fields, *_) in schema.versions.items()
]
_FIXED = {
    "boolean": Struct(">?"),
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "uint16": Struct(">H"),
    "int32": Struct(">i"),
    "int64": Struct(">q"),
    "float64": Struct(">d"),
}
_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


def _ints(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(max(low, -2), 5) | st.integers(low, high)


_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int8": st.sampled_from([-1, 0, 1, 2]),
    "int16": _ints(-(2**15), 2**15 - 1),
    "uint16": _ints(0, 2**16 - 1),
    "int32": _ints(-(2**31), 2**31 - 1),
    "int64": _ints(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "uuid": st.sampled_from([bytes(range(16)), bytes([255] * 16), b"\0" * 15 + b"\1"]),
    "compact_string": _TEXT,
    "compact_nullable_string": st.none() | _TEXT,
    "compact_bytes": st.binary(max_size=12),
}
_UNKNOWN_TAGS = st.lists(
    st.tuples(st.integers(40, 300), st.binary(max_size=9)), max_size=2, unique_by=lambda tag: tag[0]
)


def metadata_value(api_key: int, version: int, **given: Any) -> bytes:
    """Returns the value of a record with the given fields; the others are as in `with_zeros`."""
    fields = record_schemas().records[api_key].versions[version][0]
    return data(api_key, version, written(fields, with_zeros(fields, given)))


def raft_value(kind: int, version: int = 0, **given: Any) -> tuple[bytes, bytes]:
    """Returns key and value of a control record with the given fields."""
    fields = record_schemas().control[kind].versions[version][0]
    return control(kind, written(fields, with_zeros(fields, {"version": version, **given})))


def with_zeros(type_: FieldType, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a struct's values: the fields that are not given are zero, empty or null, and tagged ones absent."""
    zeros: dict[str, Any] = {"uuid": bytes(16), "boolean": False, "compact_string": "", "compact_bytes": b""}
    zeros["compact_nullable_string"] = None
    absent = {
        field.name: zeros.get(field.type.name, [] if "array" in field.type.name else 0)
        for field in type_.fields
        if field.tag is None
    }
    return {**absent, **given}


def written(type_: FieldType, value: Any) -> bytes:
    """Returns the bytes of a value; a tagged field that is missing from a struct is not written."""
    if type_.name == "struct":
        plain = b"".join(written(field.type, value[field.name]) for field in type_.fields if field.tag is None)
        tags = [
            (field.tag, written(field.type, value[field.name]))
            for field in type_.fields
            if field.tag is not None and field.name in value
        ]
        extra = value.get("extra", [])
        parts = [uvarint(tag) + uvarint(len(body)) + body for tag, body in sorted([*tags, *extra])]
        return plain + uvarint(len(parts)) + b"".join(parts)
    if type_.name in _FIXED:
        return _FIXED[type_.name].pack(value)
    if type_.name == "uuid":
        return bytes(value)
    if value is None:
        return b"\0"
    if "array" in type_.name:
        assert type_.of is not None
        return uvarint(len(value) + 1) + b"".join(written(type_.of, element) for element in value)
    content = value.encode() if isinstance(value, str) else value
    return uvarint(len(content) + 1) + content


def values(type_: FieldType) -> st.SearchStrategy[Any]:
    """Returns a strategy for any value of a type: often small and special values, tagged fields present or absent."""
    if type_.name in _PLAIN:
        return _PLAIN[type_.name]
    if type_.name == "struct":
        plain = {field.name: values(field.type) for field in type_.fields if field.tag is None}
        tagged = {field.name: values(field.type) for field in type_.fields if field.tag is not None}
        return st.fixed_dictionaries(plain, optional={**tagged, "extra": _UNKNOWN_TAGS})
    assert type_.of is not None
    elements = st.lists(values(type_.of), max_size=4)
    return st.none() | elements if "nullable" in type_.name else elements


_NODES = st.lists(_ints(0, 2**31 - 1), max_size=4, unique=True)
_FROM_ZERO = _ints(0, 2**31 - 1)
_FIELDS: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("int32", "leader"): _ints(-1, 2**31 - 1),
    ("int32", "leader_epoch"): _ints(-1, 2**31 - 1),
    ("int32", "partition_epoch"): _ints(-1, 2**31 - 1),
    ("int16", "feature_level"): _ints(0, 2**15 - 1),
    ("int16", "kraft_version"): _ints(0, 2**15 - 1),
    ("int16", "min_supported_version"): st.integers(0, 3),
    ("int16", "max_supported_version"): _ints(3, 2**15 - 1),
    ("compact_array", "replicas"): st.lists(_FROM_ZERO, min_size=1, max_size=4, unique=True),
    ("compact_nullable_array", "replicas"): st.none() | st.lists(_FROM_ZERO, min_size=1, max_size=4, unique=True),
    **{("int32", name): _FROM_ZERO for name in ("broker_id", "controller_id", "id", "leader_id", "partition_id")},
}
"""What Kafka writes in a field, where that is less than its type holds."""


def kafka_values(type_: FieldType) -> st.SearchStrategy[Any]:
    """Returns a strategy for values of a struct that Kafka itself could write."""
    fields = {field.name: _kafka_field(field.name, field.type) for field in type_.fields if field.tag is None}
    tagged = {field.name: _kafka_field(field.name, field.type) for field in type_.fields if field.tag is not None}
    return st.fixed_dictionaries(fields, optional={**tagged, "extra": _UNKNOWN_TAGS})


def _kafka_field(name: str, type_: FieldType) -> st.SearchStrategy[Any]:
    if (type_.name, name) in _FIELDS:
        return _FIELDS[type_.name, name]
    if type_.of is None:
        return kafka_values(type_) if type_.name == "struct" else values(type_)
    elements = values(type_)
    if type_.of.name == "int32":
        elements = st.none() | _NODES if "nullable" in type_.name else _NODES
    elif type_.of.name == "struct":
        named = any(field.name == "name" for field in type_.of.fields)
        unique = (lambda element: element["name"]) if named else None
        elements = st.lists(kafka_values(type_.of), max_size=4, unique_by=unique)
    return elements
