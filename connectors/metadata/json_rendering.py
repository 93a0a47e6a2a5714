"""Renders a record's values as Kafka's own JSON (the generated `XRecordJsonConverter.write`).

The JSON holds every field of the record's version in Kafka's order of declaration. A tagged field appears only if it
differs from its default. Bytes are base64, UUIDs are printed as Kafka prints them.
"""

from base64 import b64encode
from collections.abc import Callable, Set
from math import isfinite, isnan
from typing import Any, Final, TypeAlias

from connectors.metadata.field_readers import Values
from connectors.metadata.record_schemas import FieldType

Json: TypeAlias = Any
"""Any value that `json.dumps` accepts."""
Renderer: TypeAlias = Callable[[Any], Json]

BLANK: Final = "(blanked)"
"""Replaces a credential of any length."""
_ZERO_UUID: Final = "A" * 22
_CONTENT: Final = frozenset({"compact_string", "compact_nullable_string", "compact_bytes", "compact_nullable_bytes"})


def renderer(type_: FieldType, *, blank: Set[str] = frozenset()) -> Renderer:
    """Returns a function that converts a value of `field_readers` to Kafka's JSON.

    Args:
        type_: the value's type; for a record the struct of its version.
        blank: names of fields, in any struct, whose strings and bytes are shown as BLANK.
    """
    match type_.name:
        case "struct":
            return _struct(type_, blank)
        case "compact_array" | "compact_nullable_array":
            assert type_.of is not None
            return _array(renderer(type_.of, blank=blank))
        case "compact_bytes" | "compact_nullable_bytes":
            return _bytes
        case "uuid":
            return _uuid
        case "float64":
            return _float
        case _:
            return _same


def _struct(type_: FieldType, blank: Set[str]) -> Renderer:
    fields = [
        (
            field.name,
            field.json,
            _blanking(field.type) if field.name in blank else renderer(field.type, blank=blank),
            field.tag is not None,
            type_.defaults[field.name],
        )
        for field in type_.fields
    ]

    def render_struct(values: Values) -> Json:
        return {
            json: render(values[name])
            for name, json, render, tagged, default in fields
            if not tagged or values[name] != default
        }

    return render_struct


def _array(element: Renderer) -> Renderer:
    return lambda values: None if values is None else [element(value) for value in values]


def _bytes(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode("ascii")


def _uuid(value: str | None) -> str:
    return _ZERO_UUID if value is None else value


def _float(value: float) -> float | str:
    """Returns NaN and the infinities as strings, as Jackson does: JSON has no literals for them."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _same(value: object) -> object:
    return value


def _blanking(type_: FieldType) -> Renderer:
    """Returns a renderer that shows every string and byte string inside the value as BLANK."""
    if type_.name == "struct":
        return _struct(type_, frozenset(field.name for field in type_.fields))
    if type_.of is not None:
        return _array(_blanking(type_.of))
    return _blanked if type_.name in _CONTENT else renderer(type_)


def _blanked(value: str | bytes | None) -> str | None:
    """Returns BLANK; null and empty values are shown, because they hold no secret."""
    return None if value is None else BLANK if value else ""
