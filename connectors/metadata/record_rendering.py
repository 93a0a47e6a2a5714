"""Renders a record's values as Kafka's own JSON (the generated `XRecordJsonConverter.write`).

The JSON holds every field of the record's version in Kafka's order of declaration. A tagged field appears only if it
differs from its default. Bytes are base64, UUIDs are printed as Kafka prints them. `renderer` renders values that were
read by schema; `text_of` renders those of a record with a layout, as the same JSON or as text for people.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Set
from functools import lru_cache, partial
from math import isfinite, isnan
from struct import Struct
from typing import Any, Final, Literal, TypeAlias

from connectors.metadata.field_readers import Values, uuid_text
from connectors.metadata.record_layouts import CODES, Raw, RecordLayout
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, FieldType

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
            return lambda value: value


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


FieldStyle: TypeAlias = Literal["json", "text"]
"""`{"leader":1,"isr":[1,2]}`, or `leader=1 isr=[1, 2]`."""
TextOf: TypeAlias = Callable[[Raw], "str | None"]
"""Returns the fields of a record; None if a tagged field has its default, which Kafka neither writes nor prints."""

_UUID_SIZE: Final = 16


def text_of(layout: RecordLayout, style: FieldStyle, *, secrets: bool) -> TextOf:
    """Returns the function that renders the records of a layout; credentials are blanked without `secrets`."""
    key = (style, secrets)
    if key not in layout.known:
        layout.known[key] = _text_of(layout, style, secrets=secrets)
    found: TextOf = layout.known[key]
    return found


def _text_of(layout: RecordLayout, style: FieldStyle, *, secrets: bool) -> TextOf:
    blank = frozenset() if secrets else CREDENTIAL_FIELDS.get(layout.schema.name, frozenset())
    fields = [field for field in layout.fields.fields if field.tag is None or layout.holds(field.name)]
    converters: list[tuple[int, Callable[[Any], str]]] = []
    defaults: list[tuple[int, object]] = []
    parts: list[str] = []
    for index, field in enumerate(fields):
        convert = _converter(field.type, ", " if style == "text" else ",")
        if field.name in blank:
            convert = _blanked_bytes if "bytes" in field.type.name else _blanked_text
        if convert is not None:
            converters.append((index, convert))
        if field.tag is not None:
            defaults.append((index, layout.default(field.name)))
        code = "%d" if convert is None else "%s"
        parts.append(f'"{field.json}":{code}' if style == "json" else f"{field.json}={code}")
    form = f"{{{','.join(parts)}}}" if style == "json" else " ".join(parts)
    if not fields:
        return lambda _: form
    pick = layout.picker([field.name for field in fields])

    def render(values: Raw) -> str | None:
        picked = [*pick(values)]
        for index, default in defaults:
            if picked[index] == default:
                return None
        for index, convert in converters:
            picked[index] = convert(picked[index])
        return form % tuple(picked)

    return render


def _converter(type_: FieldType, separator: str) -> Callable[[Any], str] | None:
    """Returns the function that renders a value; None for a number."""
    match type_.name:
        case "boolean":
            return _boolean_text
        case "uuid":
            return _uuid_text
        case "compact_string" | "compact_nullable_string":
            return _string_text
        case "compact_bytes" | "compact_nullable_bytes":
            return _bytes_text
        case "compact_array" | "compact_nullable_array":
            assert type_.of is not None
            return (
                partial(_uuids_text, separator)
                if type_.of.name == "uuid"
                else partial(_numbers_text, separator, type_.of.name)
            )
        case _:
            return None


def _boolean_text(value: object) -> str:
    return "true" if value else "false"


@lru_cache(maxsize=1 << 14)
def _uuid_text(value: bytes) -> str:
    return f'"{uuid_text(value) or _ZERO_UUID}"'


def _string_text(value: bytes) -> str:
    return json.dumps(value.decode())


def _bytes_text(value: bytes) -> str:
    return f'"{b64encode(value).decode()}"'


def _blanked_text(value: bytes) -> str:
    # What is no text is reported.
    return _blanked_bytes(value.decode().encode())


def _blanked_bytes(value: bytes) -> str:
    return f'"{BLANK}"' if value else '""'


@lru_cache(maxsize=1 << 15)
def _numbers_text(separator: str, of: str, value: bytes) -> str:
    one = Struct(">" + CODES[of])
    return f"[{separator.join(str(number) for (number,) in one.iter_unpack(value))}]"


@lru_cache(maxsize=1 << 15)
def _uuids_text(separator: str, value: bytes) -> str:
    return f"[{separator.join(_uuid_text(value[at : at + _UUID_SIZE]) for at in range(0, len(value), _UUID_SIZE))}]"
