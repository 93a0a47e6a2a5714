"""Redaction: credential-bearing values are blanked in the batches themselves, before a byte is written anywhere.

The log holds passwords and private keys in plain text: ConfigRecord values (nothing marks a custom name as
secret, so every value goes), what UserScramCredentialRecord derives from a password, and delegation tokens.
What cannot be read might hold them too: unknown record types, unknown versions of those three, and batches
or records that are damaged lose their whole body. Lengths stay, so offsets and framing stay; decode finds
what lost its body unreadable and says so.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
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
from connectors.metadata.field_readers import FieldReader, Span, field_reader, read_body
from connectors.metadata.record_framing import (
    FRAME_VERSION,
    FramedRecord,
    control_type,
    framed_records,
    is_noop,
    value_type,
)
from connectors.metadata.record_schemas import merged_schemas

CREDENTIAL_FIELDS: Final = {
    "ConfigRecord": frozenset({"value"}),
    "UserScramCredentialRecord": frozenset({"salt", "salted_password", "stored_key", "server_key"}),
    "DelegationTokenRecord": frozenset({"owner", "requester", "renewers", "token_id"}),
    "RemoveDelegationTokenRecord": frozenset({"token_id"}),
}
"""The fields that are blanked, by record: of every Kafka's layout (3.3 kept the salted password itself)."""
_STAR: Final = b"*"
_ZERO: Final = b"\0"
_NO_OFFSET: Final = b"\xff" * 8

Edit: TypeAlias = tuple[int, int, bytes]
"""From, to, and the byte that is written there."""


def redact(batches: bytes) -> bytes:
    """The same batches without their credentials: the same length, each CRC-32C right that was right before.

    The very same object comes back when there was nothing to blank. Blanking twice changes nothing more.
    """
    out: bytearray | None = None
    follows: int | None = None
    for item in scan(batches):
        header = item if isinstance(item, RecordBatch) else item.header if isinstance(item, BadBatch) else None
        before, follows = follows, None if header is None else header.last_offset + 1
        if header is not None and is_noop(batches, header):
            continue
        edits = _in_batch(batches, header) if header is not None else _in_wreck(batches, item, before)
        changes = [edit for edit in edits if not _is_blank(batches, edit)]
        if not changes:
            continue
        out = bytearray(batches) if out is None else out
        for start, end, fill in changes:
            out[start:end] = fill * (end - start) if len(fill) == 1 else fill
        if header is not None:
            write_crc(memoryview(out)[header.position : header.end])
    return batches if out is None else bytes(out)


def _is_blank(chunk: bytes, edit: Edit) -> bool:
    start, end, fill = edit
    return chunk[start:end] == (fill * (end - start) if len(fill) == 1 else fill)


def _in_wreck(chunk: bytes, item: ScanItem, follows: int | None) -> Iterator[Edit]:
    """What goes of a batch that no CRC vouches for.

    That its first bytes are a header at all is only sure when they hold the offset that follows the batch before.
    Else, for a damaged length leads anywhere, only the length stays, so that a scan finds the same batches.
    """
    start, end = item.position, item.position + item.size
    length = int.from_bytes(chunk[start + 8 : start + FRAME], "big", signed=True)
    if item.size >= FRAME and follows is not None and item.base_offset == follows:
        yield min(start + CHECKED_AT, end), end, _ZERO
    elif item.size < HEADER.size or length + FRAME != item.size:
        yield start, end, _ZERO
    else:
        yield start, start + 8, _NO_OFFSET
        yield start + FRAME, start + MAGIC_AT, _ZERO
        yield start + MAGIC_AT, start + MAGIC_AT + 1, bytes((MAGIC,))
        yield start + MAGIC_AT + 1, end, _ZERO


def _in_batch(chunk: bytes, header: RecordBatch) -> Iterator[Edit]:
    """What goes of a batch with the right CRC."""
    if header.compression != "none":
        yield header.body, header.end, _ZERO
        return
    harmless = _harmless()
    for record in framed_records(chunk, header):
        value = record.value
        if record.fault is not None:
            yield record.inside, record.end, _ZERO
        elif header.is_control:
            yield from _in_control(chunk, record)
        elif record.key is not None or value is None:
            yield record.inside, record.end, _ZERO
        elif chunk[value[0] : value[0] + 2] not in harmless:
            yield from _in_value(chunk, *value)


def _in_control(chunk: bytes, record: FramedRecord) -> Iterator[Edit]:
    """KRaft's own records hold no credentials; what is none of them may hold anything."""
    try:
        known = control_type(chunk, record.key) in merged_schemas().control
    except UndecodableError:
        known = False
    if not known and record.value is not None:
        yield *record.value, _ZERO


def _in_value(chunk: bytes, start: int, end: int) -> Iterator[Edit]:
    """What goes of the value of a metadata record that may be bearing, or that nobody knows."""
    try:
        api_key, version, body = value_type(chunk, start, end)
    except UndecodableError:
        yield start, end, _ZERO
        return
    fits = False
    for reader in _readers().get((api_key, version), ()):
        # Should the body fit the layouts of two Kafkas, what either would show goes.
        with suppress(UndecodableError):
            yield from _in_fields(reader, chunk[body:end], body)
            fits = True
    if not fits:
        yield body, end, _ZERO


def _in_fields(reader: FieldReader, body: bytes, at: int) -> Iterator[Edit]:
    """The bearing fields of a record that is what its layout says."""
    for start, end in _spans(read_body(reader, body)):
        # Stars even where bytes stood: a string stays UTF-8, and people see what happened.
        yield at + start, at + end, _STAR


def _spans(value: object) -> Iterator[Span]:
    """Every span in a struct's values: nothing else in them is a tuple."""
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


@cache
def _harmless() -> frozenset[bytes]:
    """Frame version and api key of the records whose every version holds no credential."""
    known = merged_schemas().records.values()
    return frozenset(bytes((FRAME_VERSION, layout.type)) for layout in known if layout.name not in CREDENTIAL_FIELDS)


@cache
def _readers() -> dict[tuple[int, int], tuple[FieldReader, ...]]:
    """Readers that give the bearing fields as spans, by type and version: one for each layout."""
    return {
        (layout.type, version): tuple(field_reader(fields, spans=CREDENTIAL_FIELDS[layout.name]) for fields in ways)
        for layout in merged_schemas().records.values()
        if layout.name in CREDENTIAL_FIELDS
        for version, ways in layout.versions.items()
    }
