"""Reads a record's body with the schemas of every Kafka version that could have written it."""

from functools import cache

from connectors.errors import UndecodableError
from connectors.metadata.field_readers import FieldReader, Values, field_reader, read_body
from connectors.metadata.record_schemas import MergedSchema, merged_schemas
from connectors.metadata.redaction import is_blanked


def read_values(schema: MergedSchema, version: int, body: bytes) -> Values:
    """Returns the fields of a body, read with the newest schema that fits it.

    Raises:
        UndecodableError: the version is unknown, or no schema fits; the reason names the record.
    """
    if version not in schema.versions:
        raise UndecodableError(f"{schema.name} version {version} is not known to {merged_schemas().known_to}")
    problem: UndecodableError | None = None
    for reader in _readers(schema.name, version):
        try:
            return read_body(reader, body)
        except UndecodableError as error:
            problem = problem or error
    if is_blanked(body):
        raise UndecodableError(f"{schema.name} version {version} did not match its schema and was blanked")
    raise UndecodableError(f"{schema.name} version {version} {problem}")


@cache
def _readers(name: str, version: int) -> tuple[FieldReader, ...]:
    """Returns the readers of a record's version, one for each schema, the newest first."""
    known = merged_schemas()
    schema = next(schema for schema in (*known.records.values(), *known.control.values()) if schema.name == name)
    return tuple(map(field_reader, schema.versions[version]))
