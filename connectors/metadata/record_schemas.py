"""Record schemas: the fields of each metadata and control record in each version, as read from Kafka's own jars.

`schemas/records.json` is written by `make schemas` (`deploy.schemas`); nothing in it is written by hand. It holds
every version of every record that any of its Kafka versions knows, each with the first and the last that knows it.

A record states its type and version, but not the Kafka version that wrote it. That suffices for all but two records:
Kafka 3.3 encodes UserScramCredentialRecord and DelegationTokenRecord differently under the same version 0. A reader
that does not know the writer uses the newest schema that fits to the last byte.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

CONFIG_RECORD: Final = "ConfigRecord"
MIN_ISR: Final = "min.insync.replicas"
CREDENTIAL_FIELDS: Final = {
    CONFIG_RECORD: frozenset({"value"}),
    "UserScramCredentialRecord": frozenset({"salt", "salted_password", "stored_key", "server_key"}),
    "DelegationTokenRecord": frozenset({"owner", "requester", "renewers", "token_id"}),
    "RemoveDelegationTokenRecord": frozenset({"token_id"}),
}
"""The fields that are redacted, by record, in the schemas of all Kafka versions (3.3 stored the salted password)."""


def is_min_isr(name: bytes, value: bytes) -> bool:
    """Returns whether this is the value of a ConfigRecord that is not redacted: a number that rules need, no secret."""
    return name == MIN_ISR.encode() and value.isdigit() and len(value) <= _MOST_DIGITS


_MOST_DIGITS: Final = 5


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchema:
    """One type of record, in all versions that are known."""

    type: int
    """The api key of a metadata record, or the type of a control record."""
    name: str
    """Kafka's class: `PartitionChangeRecord`."""
    constant: str | None
    """Its name in `MetadataRecordType`: `PARTITION_CHANGE_RECORD`; None for control records."""
    versions: Mapping[int, tuple[FieldType, ...]]
    """The different schemas of each record version, the newest Kafka's first; nearly always one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchemas:
    """Every record of one or of several Kafka versions, by type."""

    known_to: str
    """The Kafka versions, as the end of a sentence: `any Kafka up to 4.4.0`."""
    records: Mapping[int, RecordSchema]
    control: Mapping[int, RecordSchema]


@cache
def record_schemas(kafka: str | None = None) -> RecordSchemas:
    """Returns the records that any known Kafka version can write, or those that the named version can write.

    Raises:
        ValueError: `kafka` is not one of `kafka_versions()`.
    """
    return RecordSchemas(
        known_to=f"any Kafka up to {kafka_versions()[-1]}" if kafka is None else f"Kafka {kafka}",
        records=_known_to(kafka, _document()["records"]),
        control=_known_to(kafka, _document()["control"]),
    )


@cache
def kafka_versions() -> tuple[str, ...]:
    """Returns the Kafka versions whose schemas are known, oldest first."""
    return tuple(_document()["kafka"])


@cache
def known_records() -> str:
    """Returns what identifies what this build can read of a recorded log; another text if it is more or less.

    Types and versions of records, and what is not redacted of one: a build before has overwritten that.
    """
    known = (
        f"{kind} {each['type']} {line['version']}"
        for kind in ("records", "control")
        for each in _document()[kind]
        for line in each["versions"]
    )
    redacted = (f"redacted {name} {field}" for name, fields in CREDENTIAL_FIELDS.items() for field in fields)
    lines = sorted({*known, *redacted, f"kept {CONFIG_RECORD} {MIN_ISR}"})
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _known_to(kafka: str | None, described: list[dict[str, Any]]) -> dict[int, RecordSchema]:
    """Returns the records that a Kafka version knows, in the record versions that it knows; None: any version."""
    order = kafka_versions()
    index = None if kafka is None else order.index(kafka)
    found: dict[int, RecordSchema] = {}
    for record in described:
        versions: dict[int, tuple[FieldType, ...]] = {}
        for line in sorted(record["versions"], key=lambda line: order.index(_until(line)), reverse=True):
            if index is None or order.index(line["since"]) <= index <= order.index(_until(line)):
                fields, newer = _struct(line["fields"], "", record["defaults"]), versions.get(line["version"], ())
                if _encoding(fields) not in map(_encoding, newer):
                    versions[line["version"]] = (*newer, fields)
        if versions:
            name, constant = record["name"], record.get("constant")
            found[record["type"]] = RecordSchema(type=record["type"], name=name, constant=constant, versions=versions)
    return found


def _until(line: Mapping[str, Any]) -> str:
    """Returns the last Kafka version that knows these fields of a record version."""
    return str(line.get("until", kafka_versions()[-1]))


def _encoding(type_: FieldType) -> tuple[object, ...]:
    """Returns the part of a schema that decides how bytes are read. Names are excluded: the newest Kafka's are used."""
    of = None if type_.of is None else _encoding(type_.of)
    return type_.name, of, tuple((field.tag, _encoding(field.type)) for field in type_.fields)


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files(__package__).joinpath("schemas", "records.json").read_text("utf-8"))
    return found


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
