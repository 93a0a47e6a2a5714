"""Field types and the pydantic configuration that all dataclasses of a cluster status share."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

from connectors.sinks.alert_json import from_iso, iso
from rules.model.identifiers import Millis

STATUS_CONFIG = ConfigDict(
    use_attribute_docstrings=True, serialize_by_alias=True, json_schema_serialization_defaults_required=True
)
"""A field's docstring is its description in docs/status.schema.json."""


def _from_json(value: object) -> object:
    return from_iso(value) if isinstance(value, str) else value


UtcTime: TypeAlias = Annotated[
    Millis,
    BeforeValidator(_from_json),
    PlainSerializer(iso, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Milliseconds since the epoch in Python; ISO 8601 UTC with milliseconds in JSON."""
