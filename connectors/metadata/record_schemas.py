"""Record schemas: the fields of each metadata and control record in each version, as read from Kafka's own jars.

`schemas/records.json` is written by `make schemas` (`deploy.schemas`); nothing in it is written by hand. It holds
every version of every record that any of its Kafka versions knows, each with the first and the last that knows it.

A record states its type and version, but not the Kafka version that wrote it. That suffices for all but two records:
Kafka 3.3 encodes UserScramCredentialRecord and DelegationTokenRecord differently under the same version 0. A reader
that does not know the writer (`merged_schemas`) uses the newest schema that fits to the last byte.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Generic, TypeAlias, TypeVar

CREDENTIAL_FIELDS: Final = {
    "ConfigRecord": frozenset({"value"}),
    "UserScramCredentialRecord": frozenset({"salt", "salted_password", "stored_key", "server_key"}),
    "DelegationTokenRecord": frozenset({"owner", "requester", "renewers", "token_id"}),
    "RemoveDelegationTokenRecord": frozenset({"token_id"}),
}
"""The fields that are redacted, by record, in the schemas of all Kafka versions (3.3 stored the salted password)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """A type of Kafka's protocol: `int32`, `compact_string`, `compact_array`, `struct`, ..."""

    name: str
    of: "FieldType | None" = None
    """The type of an array's elements."""
    fields: tuple["Field", ...] = ()
    """A struct's fields in Kafka's order of declaration, in which it also prints them. Without the tagged fields, this
    is the order on the wire."""
    defaults: Mapping[str, object]
    """The values of a struct's absent fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field. A field with a tag is in the tagged fields (KIP-482) or absent."""

    name: str
    json: str
    """Its name in Kafka's own JSON."""
    type: FieldType
    tag: int | None


_VersionT = TypeVar("_VersionT")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchema(Generic[_VersionT]):
    """One type of record, in all versions that are known."""

    type: int
    """The api key of a metadata record, or the type of a control record."""
    name: str
    """Kafka's class: `PartitionChangeRecord`."""
    constant: str | None
    """Its name in `MetadataRecordType`: `PARTITION_CHANGE_RECORD`; None for control records."""
    versions: Mapping[int, _VersionT]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchemas(Generic[_VersionT]):
    """Every record of one or of several Kafka versions, by type."""

    known_to: str
    """The Kafka versions, as the end of a sentence: `any Kafka up to 4.3.1`."""
    records: Mapping[int, RecordSchema[_VersionT]]
    control: Mapping[int, RecordSchema[_VersionT]]


MergedSchema: TypeAlias = RecordSchema[tuple[FieldType, ...]]
"""One type of record, in all versions that any of several Kafka versions knows: the different schemas of each record
version, the newest first; nearly always one."""


@cache
def merged_schemas(kafka: str | None = None) -> RecordSchemas[tuple[FieldType, ...]]:
    """Returns the records that any known Kafka version can write, or those that the named version can write.

    Raises:
        KeyError: `kafka` is not one of `kafka_versions()`.
    """
    newest_first = [record_schemas(name) for name in (kafka_versions()[::-1] if kafka is None else (kafka,))]
    return RecordSchemas(
        known_to=f"any Kafka up to {kafka_versions()[-1]}" if kafka is None else f"Kafka {kafka}",
        records=_merge([each.records for each in newest_first]),
        control=_merge([each.control for each in newest_first]),
    )


@cache
def record_schemas(kafka: str | None = None) -> RecordSchemas[FieldType]:
    """Returns the schemas of one Kafka version, of the newest if none is named.

    Raises:
        KeyError: `kafka` is not one of `kafka_versions()`.
    """
    document = _document()
    kafka = kafka_versions()[-1] if kafka is None else kafka
    if kafka not in kafka_versions():
        raise KeyError(kafka)
    return RecordSchemas(
        known_to=f"Kafka {kafka}",
        records={schema.type: schema for schema in _schemas_known_to(document["records"], kafka)},
        control={schema.type: schema for schema in _schemas_known_to(document["control"], kafka)},
    )


@cache
def kafka_versions() -> tuple[str, ...]:
    """Returns the Kafka versions whose schemas are known, oldest first."""
    return tuple(_document()["kafka"])


def _merge(newest_first: Sequence[Mapping[int, RecordSchema[FieldType]]]) -> dict[int, MergedSchema]:
    found: dict[int, MergedSchema] = {}
    for known in newest_first:
        for type_, schema in known.items():
            newer = found.get(type_)
            versions = {} if newer is None else dict(newer.versions)
            for version, fields in schema.versions.items():
                before = versions.get(version, ())
                if _encoding(fields) not in map(_encoding, before):
                    versions[version] = (*before, fields)
            named_by = newer or schema
            found[type_] = RecordSchema(type=type_, name=named_by.name, constant=named_by.constant, versions=versions)
    return found


def _encoding(type_: FieldType) -> tuple[object, ...]:
    """Returns the part of a schema that decides how bytes are read. Names are excluded: the newest Kafka's are used."""
    of = None if type_.of is None else _encoding(type_.of)
    return type_.name, of, tuple((field.tag, _encoding(field.type)) for field in type_.fields)


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files(__package__).joinpath("schemas", "records.json").read_text("utf-8"))
    return found


def _schemas_known_to(records: list[dict[str, Any]], kafka: str) -> Iterator[RecordSchema[FieldType]]:
    """Yields the records that one Kafka version knows, in the record versions that it knows."""
    order = kafka_versions()
    index = order.index(kafka)
    for record in records:
        lines = [
            line
            for line in record["versions"]
            if order.index(line["since"]) <= index <= order.index(line.get("until", order[-1]))
        ]
        if lines:
            yield _record(record, lines)


def _record(record: dict[str, Any], lines: list[dict[str, Any]]) -> RecordSchema[FieldType]:
    names_by_path: dict[str, set[str]] = {}
    for line in lines:
        _collect_names(line["fields"], "", names_by_path)
    # Fields that only other Kafka versions have get no default here.
    defaults = {
        path: {name: value for name, value in record["defaults"][path].items() if name in names}
        for path, names in names_by_path.items()
    }
    return RecordSchema(
        type=record["type"],
        name=record["name"],
        constant=record.get("constant"),
        versions={line["version"]: _struct(line["fields"], "", defaults) for line in lines},
    )


def _collect_names(fields: list[dict[str, Any]], path: str, names_by_path: dict[str, set[str]]) -> None:
    """Adds the names of all fields to `names_by_path`, by the path of their struct."""
    names = names_by_path.setdefault(path, set())
    for field in fields:
        names.add(field["name"])
        inner = field.get("of", field)
        if "fields" in inner:
            _collect_names(inner["fields"], _join(path, field["name"]), names_by_path)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _struct(fields: list[dict[str, Any]], path: str, defaults: Mapping[str, Mapping[str, object]]) -> FieldType:
    known = tuple(
        Field(
            name=field["name"],
            json=field.get("json", _camel(field["name"])),
            type=_type(field, _join(path, field["name"]), defaults),
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
