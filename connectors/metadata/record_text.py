"""Renders records that have a layout as text: what `json.dumps` makes of the values of `json_rendering`."""

import json
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache, partial
from struct import Struct
from typing import Any, Final, Literal, TypeAlias

from connectors.metadata.field_readers import uuid_text
from connectors.metadata.json_rendering import BLANK
from connectors.metadata.record_layouts import CODES, Raw, RecordLayout
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, FieldType

FieldStyle: TypeAlias = Literal["json", "text"]
"""`{"leader":1,"isr":[1,2]}`, or `leader=1 isr=[1, 2]`."""
TextOf: TypeAlias = Callable[[Raw], "str | None"]
"""Returns the fields of a record; None if a tagged field has its default, which Kafka neither writes nor prints."""

_ZERO_UUID: Final = "A" * 22
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
            return _boolean
        case "uuid":
            return _uuid
        case "compact_string" | "compact_nullable_string":
            return _string
        case "compact_bytes" | "compact_nullable_bytes":
            return _bytes
        case "compact_array" | "compact_nullable_array":
            assert type_.of is not None
            return (
                partial(_uuids, separator) if type_.of.name == "uuid" else partial(_numbers, separator, type_.of.name)
            )
        case _:
            return None


def _boolean(value: object) -> str:
    return "true" if value else "false"


@lru_cache(maxsize=1 << 14)
def _uuid(value: bytes) -> str:
    return f'"{uuid_text(value) or _ZERO_UUID}"'


def _string(value: bytes) -> str:
    return json.dumps(value.decode())


def _bytes(value: bytes) -> str:
    return f'"{b64encode(value).decode()}"'


def _blanked_text(value: bytes) -> str:
    # What is no text is reported.
    return _blanked_bytes(value.decode().encode())


def _blanked_bytes(value: bytes) -> str:
    return f'"{BLANK}"' if value else '""'


@lru_cache(maxsize=1 << 15)
def _numbers(separator: str, of: str, value: bytes) -> str:
    one = Struct(">" + CODES[of])
    return f"[{separator.join(str(number) for (number,) in one.iter_unpack(value))}]"


@lru_cache(maxsize=1 << 15)
def _uuids(separator: str, value: bytes) -> str:
    return f"[{separator.join(_uuid(value[at : at + _UUID_SIZE]) for at in range(0, len(value), _UUID_SIZE))}]"
