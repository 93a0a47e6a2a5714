"""Renders a record's values as Kafka's own JSON (the generated `XRecordJsonConverter.write`).

The JSON holds every field of the record's version in Kafka's order of declaration. A tagged field appears only if it
differs from its default. Bytes are base64, UUIDs are printed as Kafka prints them. `rendered` renders values that were
read by schema; `text_of` renders those of a record with a pattern, as the same JSON or as text for people.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from math import isfinite, isnan
from operator import call
from typing import Any, Final, Literal, TypeAlias

from connectors.errors import UndecodableError
from connectors.metadata.field_readers import uuid_text
from connectors.metadata.record_patterns import Part, Raw, RecordPattern
from connectors.metadata.record_schemas import Field, FieldType

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
            shown = (one for one in type_.fields if one.tag is None or value[one.name] != type_.defaults[one.name])
            return {
                one.json: _blanked(one.type, value[one.name])
                if one.name in blank
                else rendered(one.type, value[one.name], blank=blank)
                for one in shown
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
        return rendered(type_, value, blank=frozenset(one.name for one in type_.fields))
    if type_.of is not None:
        return None if value is None else [_blanked(type_.of, element) for element in value]
    if type_.name in _CONTENT:
        return None if value is None else BLANK if value else ""
    return rendered(type_, value)


_COMPACT: Final = json.JSONEncoder(separators=(",", ":")).encode
_SPACED: Final = json.JSONEncoder().encode
FieldStyle: TypeAlias = Literal["json", "text"]
"""`{"leader":1,"isr":[1,2]}`, or `leader=1 isr=[1, 2]`."""
TextOf: TypeAlias = Callable[[Raw], "str | None"]
"""Returns the fields of a record; None if the schema does not allow it, or Kafka prints it in another order."""


@lru_cache(maxsize=256)
def text_of(pattern: RecordPattern, style: FieldStyle) -> TextOf:
    """Returns the function that renders the records of a pattern."""
    texts = [_part_text(part, style, pattern.fields.fields) for part in pattern.parts]
    separator, form = (",", "{%s}") if style == "json" else (" ", "%s")

    def render(raw: Raw) -> str | None:
        try:
            return form % separator.join(filter(None, map(call, texts, raw)))
        except UndecodableError:
            return None

    return render


def _part_text(part: Part, style: FieldStyle, declared: Sequence[Field]) -> Callable[[bytes], str]:
    """Returns a function that raises UndecodableError where `text_of` renders nothing."""
    form, encode, separator = ('"%s":%s', _COMPACT, ",") if style == "json" else ("%s=%s", _SPACED, " ")
    last = max((at for at, field in enumerate(declared) if field.tag is None), default=0)
    early = frozenset(field.name for field in declared[:last] if field.tag is not None)

    if [(field.type.name, field.tag) for field in part.fields] == [("uuid", None)]:
        # Each topic has its own: nothing is gained by reading it by its schema.
        return lru_cache(maxsize=64)(lambda raw: form % (part.fields[0].json, f'"{uuid_text(raw) or _ZERO_UUID}"'))

    @lru_cache(maxsize=1 << 14)
    def text(raw: bytes) -> str:
        values = part.read(raw)
        shown = [each for each in part.fields if each.tag is None or values[each.name] != part.defaults[each.name]]
        if any(each.name in early for each in shown):
            raise UndecodableError("is printed in another order")
        return separator.join(form % (each.json, encode(rendered(each.type, values[each.name]))) for each in shown)

    return text
