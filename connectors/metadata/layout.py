"""Layouts: which fields each metadata and control record has in each version, as read from Kafka's own jar.

The files in `schemas/` are written by `python -m deploy.schemas`; nothing in them is written by hand.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

NEWEST: Final = "4.3.1"
"""The Kafka whose layouts are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """A type of Kafka's protocol: `int32`, `compact_string`, `compact_array`, `struct`, ..."""

    name: str
    of: "FieldType | None" = None
    """An array's elements."""
    fields: tuple["Field", ...] = ()
    """A struct's fields, in the order of the wire; the tagged ones among them may be absent."""
    defaults: Mapping[str, object]
    """What a struct's fields are when they are absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field. With a tag it stands in the tagged fields (KIP-482), or not at all."""

    name: str
    type: FieldType
    tag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLayout:
    """One type of record, in all the versions this Kafka knows."""

    type: int
    """The api key of a metadata record, or the type of a control record."""
    name: str
    """Kafka's class: `PartitionChangeRecord`."""
    versions: Mapping[int, FieldType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """Every record of one Kafka version, by type."""

    kafka: str
    records: Mapping[int, RecordLayout]
    control: Mapping[int, RecordLayout]


@cache
def layouts(kafka: str = NEWEST) -> Layouts:
    """The layouts of one Kafka version; which there are is what `schemas/` holds."""
    found = json.loads(files(__package__).joinpath("schemas", f"{kafka}.json").read_text("utf-8"))
    return Layouts(
        kafka=found["kafka"],
        records={record["type"]: _record(record) for record in found["records"]},
        control={record["type"]: _record(record) for record in found["control"]},
    )


def _record(record: dict[str, Any]) -> RecordLayout:
    versions = {
        int(version): FieldType(name="struct", fields=_fields(fields), defaults=record["defaults"])
        for version, fields in record["versions"].items()
    }
    return RecordLayout(type=record["type"], name=record["name"], versions=versions)


def _fields(fields: list[dict[str, Any]]) -> tuple[Field, ...]:
    return tuple(Field(name=field["name"], type=_type(field), tag=field.get("tag")) for field in fields)


def _type(described: dict[str, Any]) -> FieldType:
    return FieldType(
        name=described["type"],
        of=_type(described["of"]) if "of" in described else None,
        fields=_fields(described.get("fields", [])),
        defaults=described.get("defaults", {}),
    )
