"""Layouts: which fields each metadata and control record has in each version, as read from Kafka's own jars.

`schemas/records.json` is written by `make schemas` (`deploy.schemas`); nothing in it is written by hand. It holds
every version of every record that any of the Kafkas in it knows, each with the first and the last that knows it.

A record says its type and version, and nothing says which Kafka wrote it. That is enough for all but a few: Kafka 3.3
laid out UserScramCredentialRecord and DelegationTokenRecord otherwise than its successors, under the same version 0.
So who reads a log whose writer is not known (`forms`) takes the newest layout that fits to the last byte.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """A type of Kafka's protocol: `int32`, `compact_string`, `compact_array`, `struct`, ..."""

    name: str
    of: "FieldType | None" = None
    """An array's elements."""
    fields: tuple["Field", ...] = ()
    """A struct's fields as Kafka declares and prints them: without the tagged ones, which may be absent, this is the
    order of the wire."""
    defaults: Mapping[str, object]
    """What a struct's fields are when they are absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field. With a tag it stands in the tagged fields (KIP-482), or not at all."""

    name: str
    json: str
    """What Kafka's own JSON calls it."""
    type: FieldType
    tag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchema:
    """One type of record, in all the versions this Kafka knows."""

    type: int
    """The api key of a metadata record, or the type of a control record."""
    name: str
    """Kafka's class: `PartitionChangeRecord`."""
    constant: str | None
    """What `MetadataRecordType` calls it: `PARTITION_CHANGE_RECORD`; None for control records."""
    versions: Mapping[int, FieldType]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchemas:
    """Every record of one Kafka version, by type."""

    kafka: str
    records: Mapping[int, RecordSchema]
    control: Mapping[int, RecordSchema]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSchema:
    """One type of record, in all the versions that several Kafkas know between them."""

    type: int
    name: str
    constant: str | None
    versions: Mapping[int, tuple[FieldType, ...]]
    """Every way in which one of them lays out a version, the newest first; hardly ever more than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSchemas:
    """Every record of several Kafkas, by type."""

    known_to: str
    """Whose they are, as the end of a sentence: `any Kafka up to 4.3.1`."""
    records: Mapping[int, MergedSchema]
    control: Mapping[int, MergedSchema]


@cache
def merged_schemas(kafka: str | None = None) -> MergedSchemas:
    """What any of the Kafkas here could have written; what one of them could, where it is named.

    Raises:
        KeyError: it is none of `kafka_versions()`.
    """
    newest_first = [record_schemas(name) for name in (kafka_versions()[::-1] if kafka is None else (kafka,))]
    return MergedSchemas(
        known_to=f"any Kafka up to {kafka_versions()[-1]}" if kafka is None else f"Kafka {kafka}",
        records=_together([each.records for each in newest_first]),
        control=_together([each.control for each in newest_first]),
    )


@cache
def record_schemas(kafka: str | None = None) -> RecordSchemas:
    """The layouts of one Kafka version, of the newest unless another is named.

    Raises:
        KeyError: it is none of `kafka_versions()`.
    """
    whole = _whole()
    kafka = kafka_versions()[-1] if kafka is None else kafka
    if kafka not in kafka_versions():
        raise KeyError(kafka)
    return RecordSchemas(
        kafka=kafka,
        records={layout.type: layout for layout in _known(whole["records"], kafka)},
        control={layout.type: layout for layout in _known(whole["control"], kafka)},
    )


@cache
def kafka_versions() -> tuple[str, ...]:
    """The Kafkas whose layouts there are, oldest first."""
    return tuple(_whole()["kafka"])


def _together(newest_first: Sequence[Mapping[int, RecordSchema]]) -> dict[int, MergedSchema]:
    found: dict[int, MergedSchema] = {}
    for known in newest_first:
        for type_, layout in known.items():
            newer = found.get(type_)
            versions = {} if newer is None else dict(newer.versions)
            for version, fields in layout.versions.items():
                before = versions.get(version, ())
                if _wire(fields) not in map(_wire, before):
                    versions[version] = (*before, fields)
            named = newer or layout
            found[type_] = MergedSchema(type=type_, name=named.name, constant=named.constant, versions=versions)
    return found


def _wire(type_: FieldType) -> tuple[object, ...]:
    """What of a layout decides how bytes are read: not the names, which the newest Kafka's are good for."""
    of = None if type_.of is None else _wire(type_.of)
    return type_.name, of, tuple((field.tag, _wire(field.type)) for field in type_.fields)


@cache
def _whole() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files(__package__).joinpath("schemas", "records.json").read_text("utf-8"))
    return found


def _known(records: list[dict[str, Any]], kafka: str) -> Iterator[RecordSchema]:
    """The records that one Kafka knows, in the versions that it knows."""
    order = kafka_versions()
    place = order.index(kafka)
    for record in records:
        lines = [
            line
            for line in record["versions"]
            if order.index(line["since"]) <= place <= order.index(line.get("until", order[-1]))
        ]
        if lines:
            yield _record(record, lines)


def _record(record: dict[str, Any], lines: list[dict[str, Any]]) -> RecordSchema:
    named: dict[str, set[str]] = {}
    for line in lines:
        _note(line["fields"], "", named)
    # What only another Kafka has is no field of this one's.
    defaults = {
        path: {name: value for name, value in record["defaults"][path].items() if name in names}
        for path, names in named.items()
    }
    return RecordSchema(
        type=record["type"],
        name=record["name"],
        constant=record.get("constant"),
        versions={line["version"]: _struct(line["fields"], "", defaults) for line in lines},
    )


def _note(fields: list[dict[str, Any]], path: str, named: dict[str, set[str]]) -> None:
    """Which fields there are, by the path of the struct that they are in."""
    names = named.setdefault(path, set())
    for field in fields:
        names.add(field["name"])
        inner = field.get("of", field)
        if "fields" in inner:
            _note(inner["fields"], _inside(path, field["name"]), named)


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _struct(fields: list[dict[str, Any]], path: str, defaults: Mapping[str, Mapping[str, object]]) -> FieldType:
    known = tuple(
        Field(
            name=field["name"],
            json=field.get("json", _camel(field["name"])),
            type=_type(field, _inside(path, field["name"]), defaults),
            tag=field.get("tag"),
        )
        for field in fields
    )
    return FieldType(name="struct", fields=known, defaults=defaults[path])


def _type(described: dict[str, Any], path: str, defaults: Mapping[str, Mapping[str, object]]) -> FieldType:
    if described["type"] == "struct":
        return _struct(described["fields"], path, defaults)
    of = _type(described["of"], path, defaults) if "of" in described else None
    return FieldType(name=described["type"], of=of, defaults={})


def _camel(snake: str) -> str:
    first, *rest = snake.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
