"""Random records of every type and version that any Kafka version knows, with plausible and with impossible values."""

import struct
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, FieldType, RecordSchema, record_schemas
from tests.unit.connectors.metadata.metadata_bytes import data, uvarint
from tests.unit.connectors.metadata.metadata_record_schemas import written

_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
_YEAR_10000_MS = 253_402_300_800_000
_TEXTS = ("", "a", "CONTROLLER", "metadata.version", "kraft.version", "topic-1", "host.test", "\0", "é" * 20, "x" * 300)
_UUIDS = (bytes(16), bytes(15) + b"\1", bytes(range(16)), b"\xff" * 16)
_SECRET_TYPES = frozenset({"compact_string", "compact_nullable_string", "compact_bytes"})


@cache
def _schemas() -> tuple[list[RecordSchema], list[RecordSchema]]:
    known = record_schemas()
    return list(known.records.values()), list(known.control.values())


def random_value(rng: Random) -> bytes:
    """Returns the value of a metadata record of any type."""
    schema = rng.choice(_schemas()[0])
    version = rng.choice(list(schema.versions))
    fields = rng.choice(schema.versions[version])
    body = written(fields, _struct(rng, fields, {}))
    type_ = schema.type if rng.random() < 0.97 else rng.choice((0, 10, 11, 127, 200, 2**31))
    version = version if rng.random() < 0.97 else rng.choice((0, 1, 2, 9, 300))
    return data(type_, version, body, frame=1 if rng.random() < 0.99 else rng.randrange(4))


def credential_value(rng: Random, secret: str) -> bytes:
    """Returns a ConfigRecord, a SCRAM credential or a delegation token whose credentials are the secret."""
    named = {schema.name: schema for schema in _schemas()[0]}
    schema = named[rng.choice(("ConfigRecord", "ConfigRecord", "UserScramCredentialRecord", "DelegationTokenRecord"))]
    version = rng.choice(list(schema.versions))
    type_ = rng.choice(schema.versions[version])
    secrets = dict.fromkeys(CREDENTIAL_FIELDS[schema.name], secret)
    return data(schema.type, version, written(type_, _struct(rng, type_, secrets)))


def random_control(rng: Random) -> tuple[bytes, bytes]:
    """Returns key and value of a control record."""
    schema = rng.choice(_schemas()[1])
    type_ = schema.versions[rng.choice(list(schema.versions))][0]
    value = _struct(rng, type_, {})
    if "version" in value and rng.random() < 0.95:
        value["version"] = 0
    code = schema.type if rng.random() < 0.97 else rng.choice((-1, 7, 99))
    return struct.pack(">hh", 0, code), written(type_, value)


def _struct(rng: Random, type_: FieldType, secrets: Mapping[str, str]) -> dict[str, Any]:
    values = {
        field.name: _value(rng, field.type, secrets, secret=secrets.get(field.name))
        for field in type_.fields
        if field.tag is None or rng.random() < 0.5
    }
    if rng.random() < 0.05:
        values["extra"] = [(rng.choice((5, 9, 63, 200)), rng.randbytes(rng.randrange(6)))]
    return values


def _value(rng: Random, type_: FieldType, secrets: Mapping[str, str], *, secret: str | None) -> Any:
    name = type_.name
    if name == "struct":
        return _struct(rng, type_, secrets)
    if name == "boolean":
        return rng.random() < 0.5
    if name in _BITS:
        return _number(rng, name)
    if name == "float64":
        return rng.choice((0.0, 1.5, -1.0, float("nan"), float("inf")))
    if name == "uuid":
        return rng.choice(_UUIDS)
    if name in _SECRET_TYPES:
        return _text(rng, name, secret)
    if "nullable" in name and rng.random() < 0.3:
        return None
    assert type_.of is not None
    count = rng.choice((0, 1, 1, 2, 3, 3)) if rng.random() < 0.998 else rng.choice((50, 1_200))
    if count > 3 and rng.random() < 0.5:
        return [_value(rng, type_.of, secrets, secret=secret)] * count
    return [_value(rng, type_.of, secrets, secret=secret) for _ in range(count)]


def _number(rng: Random, name: str) -> int:
    bits = _BITS[name]
    low, high = (0, 2**16 - 1) if name == "uint16" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    special = (-2, -1, low, high, high - 1, _YEAR_10000_MS, 2**62, 2**53 + 1)
    chosen = rng.randrange(6) if rng.random() < 0.85 else rng.choice(special)
    return min(max(chosen, low), high)


def _text(rng: Random, name: str, secret: str | None) -> Any:
    if secret is None:
        text = rng.choice(_TEXTS)
        if "nullable" in name and rng.random() < 0.2:
            return None
    else:
        text = secret
    return text.encode() if name == "compact_bytes" else text


def truncated_tags(value: bytes, rng: Random) -> bytes:
    """Returns a record's value with a tagged field that announces more bytes than follow."""
    return value[:-1] + uvarint(1) + uvarint(rng.randrange(300)) + uvarint(rng.choice((1, 200, 2**31, 2**63)))
