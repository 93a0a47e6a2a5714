"""The quarantine: undecodable rows, batches and records, explained and decoded again.

The quarantine has the offset and the reason of each; the bytes are in the journal, as long as it keeps them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, NamedTuple

from connectors.errors import JournalError, UndecodableError
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import framed_records, value_header
from connectors.metadata.record_schemas import record_schemas
from connectors.metadata.redaction import is_blanked
from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Observation, ObservationKind, event_type
from connectors.store.journal_reader import JournalReader
from rules.finding import Plain
from streaming.replay.decoded_row import decode_observation

_ADVICE = {
    "is not known to": "a Kafka newer than this kraftwatch wrote it: upgrade kraftwatch. Its body was blanked when it "
    "was recorded, because it might contain a secret: only a job with a new --checkpoint reads it again.",
    "CRC-32C": "its bytes were damaged when the controller sent them, or later on the disk of this host. Check the "
    "controllers' disks first: `kraftwatch data decode` reads a segment there.",
    "torn": "an answer ended inside a batch: report it as a bug of kraftwatch, whose gatherer records complete "
    "batches.",
    "compressed": "KRaft never compresses its log: another program wrote it. Check which programs write to the "
    "controllers.",
    "could not be": "it decodes, and kraftwatch failed on it: the cluster's state is what it was before the row. "
    "Report it as a bug of kraftwatch, with this line.",
    "is no event": "another version of kraftwatch recorded this observation, or the journal was changed by hand.",
}
"""By a part of the reason."""
NOT_APPLIED = ("could not be applied", "could not be evaluated")
"""How the reason of a row begins that decodes: decoding it again does not show whether it can be applied now."""
_ELSE = "it does not have Kafka's format: check the controller's own copy with `kraftwatch data decode`."


DECODES, BLANKED, NOT_YET, GONE = "decodes", "blanked", "does not decode", "gone"
STATUS_TEXTS = {
    DECODES: "decodes now",
    BLANKED: "known now, but its body was blanked",
    NOT_YET: "still does not decode",
    GONE: "no longer in the journal",
}
"""The results of decoding a quarantined item again. A body was blanked if its record was not known completely then."""
_STORED = ("cluster", "sequence", "observed_at_ms", "offset", "length", "reason")


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
        return next((advice for words, advice in _ADVICE.items() if words in self.reason), _ELSE)


class RetryResult(NamedTuple):
    """One quarantined item, decoded again."""

    item: QuarantinedItem
    status: str
    """A key of STATUS_TEXTS."""
    reason: str
    """The event that it decodes to, or why it does not decode."""
    row: Observation | None
    """The journal's row; None if the journal no longer has it."""

    def plain(self) -> dict[str, Plain]:
        """Returns the JSON object."""
        return {**asdict(self.item), "now": self.status, "why": self.reason}


def quarantined_items(stored: Mapping[str, Mapping[str, Any]]) -> Sequence[QuarantinedItem]:
    """Returns the items of the stored quarantine in journal order, without damaged states."""
    found = [
        QuarantinedItem(id=name, ordinal=int(name.rpartition("-")[2]), **{key: fields[key] for key in _STORED})
        for name, fields in stored.items()
        if "sequence" in fields
    ]
    return sorted(found, key=lambda one: (one.sequence, one.ordinal))


def decode_again(items: Sequence[QuarantinedItem], journal: JournalReader) -> Iterator[RetryResult]:
    """Decodes each item again from the journal's bytes, with the record schemas of this kraftwatch."""
    first, end = journal.first_sequence(), journal.published_end()
    for sequence, of_row in groupby(items, key=lambda one: one.sequence):
        row = None
        problem = f"the journal holds rows {first} to {end - 1}" if end > first else "the journal holds no rows"
        if first <= sequence < end:
            try:
                (row,) = journal.read(sequence, sequence + 1)
            except JournalError as error:
                problem = str(error)
        for item in of_row:
            yield RetryResult(item, GONE, problem, None) if row is None else _retry(item, row)


def _retry(one: QuarantinedItem, row: Observation) -> RetryResult:
    blanked = None if one.offset is None else _blanked(row, one.offset)
    if blanked is not None:
        return RetryResult(one, BLANKED, blanked, row)
    events = tuple(decode_observation(row).events())
    still = [event.reason for event in events if isinstance(event, Undecodable) and event.offset == one.offset]
    if still or one.reason.startswith(NOT_APPLIED):
        return RetryResult(one, NOT_YET, (*still, one.reason)[0], row)
    at = [getattr(getattr(event, "at", None), "offset", None) for event in events]
    found = [event_type(each) for each, offset in zip(events, at, strict=True) if one.offset in (None, offset)]
    return RetryResult(one, DECODES, (*found, "nothing that a rule needs")[0], row)


def _blanked(row: Observation, offset: int) -> str | None:
    """Returns the name of the record at an offset if its body is blanked, else None."""
    batches = scan(row.payload) if row.kind in (ObservationKind.RECORDS, ObservationKind.SNAPSHOT) else ()
    for batch in batches:
        if isinstance(batch, RecordBatch) and not batch.is_control and batch.base_offset <= offset <= batch.last_offset:
            for record in framed_records(row.payload, batch):
                if batch.base_offset + record.delta == offset and record.value is not None and record.fault is None:
                    with suppress(UndecodableError):
                        api_key, _, body = value_header(row.payload, *record.value)
                        schema = record_schemas().records.get(api_key)
                        blank = is_blanked(row.payload[body : record.value[1]])
                        return schema.name if schema is not None and blank else None
    return None
