"""Renders a record's values as Kafka's own JSON (the generated `XRecordJsonConverter.write`).

The JSON holds every field of the record's version in Kafka's order of declaration. A tagged field appears only if it
differs from its default. Bytes are base64, UUIDs are printed as Kafka prints them. `rendered` renders values that were
read by schema; `text_of` renders those of a record with a layout, as the same JSON or as text for people.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Set
from functools import cache
from math import isfinite, isnan
from struct import Struct
from typing import Any, Final, Literal, TypeAlias

from connectors.metadata.field_readers import uuid_text
from connectors.metadata.record_layouts import CODES, Raw, RecordLayout
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, FieldType

Json: TypeAlias = Any
"""Any value that `json.dumps` accepts."""

BLANK: Final = "(blanked)"
"""Replaces a credential of any length."""
_ZERO_UUID: Final = "A" * 22
_CONTENT: Final = frozenset({"compact_string", "compact_nullable_string", "compact_bytes", "compact_nullable_bytes"})


def rendered(type_: FieldType, value: Any, *, blank: Set[str] = frozenset()) -> Json:
    """Returns a value of `field_readers` as Kafka's JSON.

    Args:
        type_: the value's type; for a record the struct of its version.
        blank: names of fields, in any struct, whose strings and bytes are shown as BLANK.
    """
    match type_.name:
        case "struct":
            shown = (
                field for field in type_.fields if field.tag is None or value[field.name] != type_.defaults[field.name]
            )
            return {
                field.json: _blanked(field.type, value[field.name])
                if field.name in blank
                else rendered(field.type, value[field.name], blank=blank)
                for field in shown
            }
        case "uuid":
            return _ZERO_UUID if value is None else value
        case _ if value is None:
            return None
        case "compact_array" | "compact_nullable_array":
            assert type_.of is not None
            return [rendered(type_.of, element, blank=blank) for element in value]
        case "compact_bytes" | "compact_nullable_bytes":
            return b64encode(value).decode("ascii")
        case "float64" if not isfinite(value):
            # As strings, as Jackson does: JSON has no literals for them.
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            return value


def _blanked(type_: FieldType, value: Any) -> Json:
    """Replaces every string and byte string inside the value; null and empty values are shown, they hold no secret."""
    if type_.name == "struct":
        return rendered(type_, value, blank=frozenset(field.name for field in type_.fields))
    if type_.of is not None:
        return None if value is None else [_blanked(type_.of, element) for element in value]
    if type_.name in _CONTENT:
        return None if value is None else BLANK if value else ""
    return rendered(type_, value)


FieldStyle: TypeAlias = Literal["json", "text"]
"""`{"leader":1,"isr":[1,2]}`, or `leader=1 isr=[1, 2]`."""
TextOf: TypeAlias = Callable[[Raw], "str | None"]
"""Returns the fields of a record; None if a tagged field has its default, which Kafka neither writes nor prints."""

_TEXTS_MAX: Final = 1 << 15


def text_of(layout: RecordLayout, *, style: FieldStyle, secrets: bool) -> TextOf:
    """Returns the function that renders the records of a layout; credentials are blanked without `secrets`."""
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
            return lambda value: "true" if value else "false"
        case "uuid":
            return _UUIDS.__getitem__
        case "compact_string" | "compact_nullable_string":
            return lambda value: json.dumps(value.decode())
        case "compact_bytes" | "compact_nullable_bytes":
            return lambda value: f'"{b64encode(value).decode()}"'
        case "compact_array" | "compact_nullable_array":
            assert type_.of is not None
            return _arrays(separator, type_.of.name).__getitem__
        case _:
            return None


class _Texts(dict[bytes, str]):
    """The texts of values that were rendered before: the replicas of partitions, and their topics, come again.

    An `lru_cache` would take several times as long as this, in a snapshot a fifth of the whole time.
    """

    def __init__(self, render: Callable[[bytes], str]) -> None:
        super().__init__()
        self._render = render

    def __missing__(self, value: bytes) -> str:
        if len(self) >= _TEXTS_MAX:
            self.clear()
        text = self[value] = self._render(value)
        return text


_UUIDS: Final = _Texts(lambda value: f'"{uuid_text(value) or _ZERO_UUID}"')


@cache
def _arrays(separator: str, of: str) -> _Texts:
    """Returns the texts of arrays with elements of a type, by their bytes."""
    unpacked = Struct(">" + CODES[of]).iter_unpack
    text: Callable[[Any], str] = _UUIDS.__getitem__ if of == "uuid" else str
    return _Texts(lambda value: f"[{separator.join(text(element) for (element,) in unpacked(value))}]")


def _blanked_text(value: bytes) -> str:
    # What is no text is reported.
    return _blanked_bytes(value.decode().encode())


def _blanked_bytes(value: bytes) -> str:
    return f'"{BLANK}"' if value else '""'
