"""Finds a credential in redacted record batches.

A mutation may move the bytes of a credential into another field, where nothing shows that they are one. That is no leak
if the record matches its schema to the last byte and its credential fields do not hold the secret.
"""

from contextlib import suppress

from connectors.errors import UndecodableError
from connectors.metadata.batches import BadBatch, RecordBatch, scan
from connectors.metadata.field_readers import field_reader, read_body
from connectors.metadata.record_framing import FramedRecord, framed_records, value_header
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, record_schemas


def leaked_secret(payload: bytes, secret: bytes) -> str | None:
    """Returns where redacted batches hold a secret; None if they do not."""
    if secret not in payload:
        return None
    for item in scan(payload):
        start, end = item.position, item.position + item.size
        if secret not in payload[start:end]:
            continue
        header = item if isinstance(item, RecordBatch) else item.header if isinstance(item, BadBatch) else None
        if header is None:
            return f"bytes {start} to {end}, which are no batch"
        for record in framed_records(payload, header):
            if secret in payload[record.start : record.end] and not _is_displaced(payload, record, secret):
                return f"the record at bytes {record.start} to {record.end}"
    return None


def _is_displaced(payload: bytes, record: FramedRecord, secret: bytes) -> bool:
    if record.fault is not None or record.value is None or record.key is not None:
        return False
    api_key, version, body = value_header(payload, *record.value)
    content = payload[body : record.value[1]]
    schema = record_schemas().records.get(api_key)
    if schema is None or version not in schema.versions:
        return False
    # A reader with names of spans refuses a body with fields that the schema lacks.
    names = CREDENTIAL_FIELDS.get(schema.name, frozenset({"none"}))
    fitting = []
    for fields in schema.versions[version]:
        with suppress(UndecodableError):
            fitting.append(_spans(read_body(field_reader(fields, spans=names), content), content))
    return bool(fitting) and not any(secret in credential for credentials in fitting for credential in credentials)


def _spans(value: object, content: bytes) -> list[bytes]:
    """Returns the bytes of every span in a struct's values: only spans are tuples."""
    match value:
        case tuple((int(start), int(end))):
            return [content[start:end]]
        case list(elements):
            return [one for element in elements for one in _spans(element, content)]
        case dict(fields):
            return _spans(list(fields.values()), content)
        case _:
            return []
