"""Values that are secret."""

from connectors.metadata.record_schemas import (
    FieldType,
)

SECRET = "hunter2-in-plain-text"


PUBLIC_FIELDS = {"name", "resource_name", "topic_name"}
"""String fields of a record with credentials that are not secret."""


def secret_value(name: str, type_: FieldType) -> object:
    """Returns a value for any field; every string and byte string except a name is the secret."""
    if type_.name == "struct":
        return {field.name: secret_value(field.name, field.type) for field in type_.fields}
    if type_.of is not None:
        return [secret_value(name, type_.of)]
    if "bytes" in type_.name:
        return SECRET.encode()
    if "string" in type_.name:
        return "a-name" if name in PUBLIC_FIELDS else SECRET
    return bytes(range(16)) if type_.name == "uuid" else 1
