"""The quarantine: undecodable rows, batches and records, explained and decoded again.

The quarantine has the offset and the reason of each; the bytes are in the journal, as long as it keeps them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from connectors.errors import JournalError, UndecodableError
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import FramedRecord, framed_records, value_header
from connectors.metadata.record_schemas import merged_schemas
from connectors.metadata.redaction import is_blanked
from connectors.observations.event import Event
from connectors.observations.log_event import RecordPosition, Undecodable
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_reader import JournalReader
from rules.finding import Plain
from streaming.replay.decoded_row import decode_observation

_ADVICE = (
    (
        "is not known to",
        "a Kafka newer than this kraftwatch wrote it: upgrade kraftwatch. Its body was blanked when it was recorded, "
        "because it might contain a secret: only a job with a new --checkpoint reads it again.",
    ),
    (
        "CRC-32C",
        "its bytes were damaged when the controller sent them, or later on the disk of this host. Check the "
        "controllers' disks first: `kraftwatch decode` reads a segment there.",
    ),
    (
        "torn",
        "an answer ended inside a batch: report it as a bug of kraftwatch, whose gatherer records complete batches.",
    ),
    (
        "compressed",
        "KRaft never compresses its log: another program wrote it. Check which programs write to the controllers.",
    ),
    (
        "could not be",
        "it decodes, and kraftwatch failed on it: the cluster's state is what it was before the row. Report it as a "
        "bug of kraftwatch, with this line.",
    ),
    ("is no event", "another version of kraftwatch recorded this observation, or the journal was changed by hand."),
)
NOT_APPLIED = ("could not be applied", "could not be evaluated")
"""How the reason of a row begins that decodes: decoding it again does not show whether it can be applied now."""
_ELSE = "it does not have Kafka's format: check the controller's own copy with `kraftwatch decode`."


class RetryStatus(StrEnum):
    """The result of decoding a quarantined item again."""

    DECODES = "decodes"
    BLANKED = "blanked"
    """The record type is known now, but its body was blanked when it was recorded: it was not known completely then."""
    NOT_YET = "does not decode"
    GONE = "gone"
    """The journal no longer holds the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedItem:
    """One undecodable row, batch or record."""

    id: str
    """CLUSTER-SEQUENCE-ORDINAL."""
    cluster: str
    sequence: int
    ordinal: int
    observed_at_ms: int
    offset: int | None
    length: int
    reason: str

    @property
    def advice(self) -> str:
        """What it means and what to do."""
        return next((advice for words, advice in _ADVICE if words in self.reason), _ELSE)

    def plain(self) -> dict[str, Plain]:
        """Returns the JSON object."""
        return {
            "id": self.id,
            "cluster": self.cluster,
            "sequence": self.sequence,
            "ordinal": self.ordinal,
            "observed_at_ms": self.observed_at_ms,
            "offset": self.offset,
            "length": self.length,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryResult:
    """One quarantined item, decoded again."""

    item: QuarantinedItem
    status: RetryStatus
    reason: str
    """The event that it decodes to, or why it does not decode."""
    row: Observation | None
    """The journal's row; None if the journal no longer has it."""


def quarantined_items(stored: Mapping[str, Any]) -> Sequence[QuarantinedItem]:
    """Returns the items of the stored quarantine in journal order, without damaged states."""
    found = [_item(name, fields) for name, fields in stored.items() if "sequence" in fields]
    return sorted(found, key=lambda one: (one.sequence, one.ordinal))


def decode_again(things: Sequence[QuarantinedItem], journal: JournalReader) -> Iterator[RetryResult]:
    """Decodes each item again from the journal's bytes, with the record schemas of this kraftwatch.

    Raises:
        JournalError: there is no journal.
    """
    first, end = journal.first_sequence(), journal.published_end()
    row: Observation | None = None
    for one in things:
        if row is None or row.sequence != one.sequence:
            row = None
            if not first <= one.sequence < end:
                place = f"the journal holds rows {first} to {end - 1}" if end > first else "the journal holds no rows"
                yield RetryResult(item=one, status=RetryStatus.GONE, reason=place, row=None)
                continue
            try:
                (row,) = journal.read(one.sequence, one.sequence + 1)
            except JournalError as problem:
                yield RetryResult(item=one, status=RetryStatus.GONE, reason=str(problem), row=None)
                continue
        yield _retry(one, row)


def _retry(one: QuarantinedItem, row: Observation) -> RetryResult:
    blanked = None if one.offset is None else _blanked(row, one.offset)
    if blanked is not None:
        return RetryResult(item=one, status=RetryStatus.BLANKED, reason=blanked, row=row)
    events = tuple(decode_observation(row).events())
    still = [each for each in events if isinstance(each, Undecodable) and each.offset == one.offset]
    if still:
        return RetryResult(item=one, status=RetryStatus.NOT_YET, reason=still[0].reason, row=row)
    if one.reason.startswith(NOT_APPLIED):
        return RetryResult(item=one, status=RetryStatus.NOT_YET, reason=one.reason, row=row)
    decoded = next((each.type for each in events if one.offset in (None, _offset(each))), "nothing that a rule needs")
    return RetryResult(item=one, status=RetryStatus.DECODES, reason=decoded, row=row)


def _offset(event: Event) -> int | None:
    at: RecordPosition | None = getattr(event, "at", None)
    return None if at is None else at.offset


def _blanked(row: Observation, offset: int) -> str | None:
    """Returns the name of the record at an offset if its body is blanked, else None."""
    if row.kind not in (ObservationKind.RECORDS, ObservationKind.SNAPSHOT):
        return None
    for batch in scan(row.payload):
        if isinstance(batch, RecordBatch) and not batch.is_control and batch.base_offset <= offset <= batch.last_offset:
            record = next(
                (one for one in framed_records(row.payload, batch) if batch.base_offset + one.delta == offset), None
            )
            return None if record is None else _name_if_blank(row.payload, record)
    return None


def _name_if_blank(payload: bytes, record: FramedRecord) -> str | None:
    if record.value is None or record.fault is not None:
        return None
    try:
        api_key, _, body = value_header(payload, *record.value)
    except UndecodableError:
        return None
    schema = merged_schemas().records.get(api_key)
    content = payload[body : record.value[1]]
    return schema.name if schema is not None and is_blanked(content) else None


def _item(name: str, fields: Mapping[str, Any]) -> QuarantinedItem:
    return QuarantinedItem(
        id=name,
        cluster=fields["cluster"],
        sequence=fields["sequence"],
        ordinal=int(name.rpartition("-")[2]),
        observed_at_ms=fields["observed_at_ms"],
        offset=fields["offset"],
        length=fields["length"],
        reason=fields["reason"],
    )
