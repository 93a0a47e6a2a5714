"""Redaction: overwrites credentials in the record batches themselves, before any byte is written to disk.

The log holds passwords and private keys in plain text: ConfigRecord values (a custom config name does not show that
it is secret, so every value is overwritten but the digits of min.insync.replicas), what UserScramCredentialRecord
derives from a password, and delegation tokens. Content that cannot be read might hold them too. So only a record that
its schema reads completely, with no unknown tagged field and no byte after the last field, keeps its body; any other
record, a damaged batch and unknown types are overwritten completely. Lengths, offsets and framing stay. The decoder
reports bodies that were overwritten as undecodable, and those of an unknown type or version as such: a build that knows
them fetches them again (`read_again`).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

from connectors.errors import UndecodableError
from connectors.metadata.batches import (
    CHECKED_AT,
    FRAME,
    HEADER,
    MAGIC,
    MAGIC_AT,
    BadBatch,
    RecordBatch,
    ScanItem,
    scan,
    write_crc,
)
from connectors.metadata.field_readers import Span, read_body, read_fitting, schema_readers
from connectors.metadata.record_framing import (
    FramedRecord,
    control_type,
    framed_record,
    is_control_version,
    is_noop,
    value_header,
)
from connectors.metadata.record_layouts import is_text, read_records
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, is_min_isr, record_schemas

STAR: Final = b"*"
_ZERO: Final = b"\0"
BLANK: Final = 0xFF
"""Replaces the body of a known record: no schema reads it, while zeros are a valid body of some records."""
_BLANKED: Final = bytes((BLANK,))
_UNKNOWN: Final = b"\xfe"
"""Replaces the body of a record whose type or version is unknown. No schema reads it: no varint ends with this byte."""
_CONTROL_KEY: Final = 4
_CONFIG_KEY: Final = 4
"""The api key of a ConfigRecord."""
_NO_OFFSET: Final = b"\xff" * 8

Edit: TypeAlias = tuple[int, int, bytes]
"""Start, end, and the byte (or the exact bytes) to write there."""
RareRecord: TypeAlias = Callable[[int, int], object]
"""Is called with the api key of a metadata record and the position of its value."""


def redact(batches: bytes, *, rare: RareRecord | None = None) -> bytes:
    """Returns the batches without their credentials: same length, and every CRC-32C that was valid is valid.

    Returns the same object if there was nothing to redact. Redacting twice changes nothing more.

    Args:
        batches: record batches, of which the last may be cut off.
        rare: is called for each record of undamaged batches that has no layout.
    """
    out: bytearray | None = None
    next_offset: int | None = None
    for item in scan(batches):
        header = item if isinstance(item, RecordBatch) else item.header if isinstance(item, BadBatch) else None
        expected, next_offset = next_offset, None if header is None else header.last_offset + 1
        if header is None:
            out = _edited(batches, out, None, _damaged_batch_edits(batches, item, expected))
        elif is_noop(batches, header):
            continue
        else:
            out = _edited(batches, out, header, _batch_edits(batches, header, rare))
    return batches if out is None else bytes(out)


def _edited(chunk: bytes, out: bytearray | None, header: RecordBatch | None, edits: Iterable[Edit]) -> bytearray | None:
    """Applies the edits of one batch to the copy of the chunk; makes the copy if there is none and it has to change."""
    whole = ((start, end, fill * (end - start) if len(fill) == 1 else fill) for start, end, fill in edits)
    changes = [(start, end, content) for start, end, content in whole if chunk[start:end] != content]
    if not changes:
        return out
    out = bytearray(chunk) if out is None else out
    for start, end, content in changes:
        out[start:end] = content
    if header is not None:
        write_crc(memoryview(out)[header.position : header.end])
    return out


def _damaged_batch_edits(chunk: bytes, item: ScanItem, expected: int | None) -> Iterator[Edit]:
    """Yields the edits of a batch without a valid CRC.

    Its first bytes are certainly a header only if they hold the offset that is expected after the batch before. Then
    the header before the CRC stays. Otherwise only the length stays, so that a scan finds the same batches.
    """
    start, end = item.position, item.position + item.size
    length = int.from_bytes(chunk[start + 8 : start + FRAME], "big", signed=True)
    if item.size >= FRAME and expected is not None and item.base_offset == expected:
        yield min(start + CHECKED_AT, end), end, _ZERO
    elif item.size < HEADER.size or length + FRAME != item.size:
        yield start, end, _ZERO
    else:
        yield start, start + 8, _NO_OFFSET
        yield start + FRAME, start + MAGIC_AT, _ZERO
        yield start + MAGIC_AT, start + MAGIC_AT + 1, bytes((MAGIC,))
        yield start + MAGIC_AT + 1, end, _ZERO


def _batch_edits(chunk: bytes, header: RecordBatch, rare: RareRecord | None) -> Iterator[Edit]:
    """Yields the edits of a batch with a valid CRC."""
    if header.compression != "none":
        yield header.body, header.end, _ZERO
        return
    for position, delta, layout, found in read_records(chunk, header):
        if layout is None:
            is_control = header.is_control and found.fault is None
            yield from _control_record_edits(chunk, found) if is_control else _record_edits(chunk, found, rare)
        elif all(map(is_text, layout.plain_texts(found))):
            if layout.config is not None and is_min_isr(*layout.config(found)):
                continue
            for start, end in layout.credentials:
                yield position + start, position + end, STAR
        else:
            yield from _record_edits(chunk, framed_record(chunk, position, header, delta), rare)


def _control_record_edits(chunk: bytes, record: FramedRecord) -> Iterator[Edit]:
    """Yields the edits of a control record: KRaft's own hold no credentials, an unknown or incomplete one may."""
    key, value = record.key, record.value
    if key is None or key[1] - key[0] != _CONTROL_KEY:
        yield from ((*span, _ZERO) for span in (key, value) if span is not None)
    elif value is not None:
        type_ = control_type(chunk, key)
        body = chunk[value[0] : value[1]]
        version = int.from_bytes(body[:2], "big", signed=True)
        schema = record_schemas().control.get(type_)
        if schema is None:
            yield *value, _UNKNOWN
        elif version not in schema.versions and is_control_version(version) and len(body) > 2:
            yield value[0] + 2, value[1], _UNKNOWN
        elif not was_unknown(body[2:]):
            try:
                read_fitting(schema_readers(type_, version, control=True, spans=True), body)
            except UndecodableError:
                yield *value, _BLANKED


def _record_edits(chunk: bytes, record: FramedRecord, rare: RareRecord | None) -> Iterator[Edit]:
    """Yields the edits of a metadata record, or of any with a fault; none if it is complete without credentials."""
    if record.fault is not None or record.key is not None or record.value is None:
        yield record.content_start, record.end, _ZERO
        return
    start, end = record.value
    try:
        api_key, version, body = value_header(chunk, start, end)
    except UndecodableError:
        yield start, end, _ZERO
        return
    if rare is not None:
        rare(api_key, start)
    fits = False
    for reader in schema_readers(api_key, version, control=False, spans=True):
        # If the body fits the schemas of two Kafka versions, the credentials of both are redacted.
        with suppress(UndecodableError):
            # Stars also replace bytes: a string stays valid UTF-8, and a reader sees that the value was redacted.
            values = read_body(reader, chunk[body:end])
            spans = [(body + at, body + to) for at, to in _spans(values)]
            name = values["name"].encode() if api_key == _CONFIG_KEY else b""
            yield from ((at, to, STAR) for at, to in spans if not is_min_isr(name, chunk[at:to]))
            fits = True
    # A body that is blanked already stays as it is.
    if not fits and not is_blanked(chunk[body:end]):
        schema = record_schemas().records.get(api_key)
        if schema is None or version not in schema.versions:
            yield body, end, _UNKNOWN
        else:
            yield body, end, _ZERO if schema.name in CREDENTIAL_FIELDS else _BLANKED


def is_blanked(body: bytes) -> bool:
    """Returns whether redaction overwrote a record's body."""
    return was_unknown(body) or (len(body) > 1 and body.count(body[:1]) == len(body) and body[:1] in (_ZERO, _BLANKED))


def was_unknown(body: bytes) -> bool:
    """Returns whether redaction overwrote a body because the record's type or version was unknown then."""
    return body[:1] == _UNKNOWN and body.count(_UNKNOWN) == len(body)


def _spans(value: object) -> Iterator[Span]:
    """Yields every span in a struct's values: only spans are tuples."""
    match value:
        case tuple((int(start), int(end))):
            yield start, end
        case list(elements):
            for element in elements:
                yield from _spans(element)
        case dict(fields):
            yield from _spans(list(fields.values()))
        case _:
            return
