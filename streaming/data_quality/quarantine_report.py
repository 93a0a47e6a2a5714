"""What is in quarantine: rows, batches and records that did not decode, explained, and decoded once more.

The quarantine holds where each one stood and why; the bytes are in the journal, as long as it keeps them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from connectors.decode_observation import events_of
from connectors.errors import JournalError, UndecodableError
from connectors.event import At, Event, Undecodable
from connectors.journal.reader import Journal
from connectors.metadata.batches import Batch, scan
from connectors.metadata.record_framing import Framed, framed, head
from connectors.metadata.record_schemas import forms
from connectors.observation import Kind, Observation
from rules.finding import Plain

_ADVICE = (
    (
        "is not known to",
        "a Kafka newer than this kraftwatch wrote it: upgrade kraftwatch. Its body was blanked when it was recorded, "
        "because it might hold a secret: what it said is read again only by a job with a new --checkpoint.",
    ),
    (
        "CRC-32C",
        "its bytes are damaged: they were so when the controller sent them, for the journal has a checksum of its own. "
        "Look at the controllers' disks: `kraftwatch decode` reads a segment there.",
    ),
    (
        "torn",
        "an answer ended inside a batch: report it as a fault of kraftwatch, whose gatherer records whole batches.",
    ),
    ("compressed", "KRaft never compresses its log: something else wrote it. Look at who writes to the controllers."),
    ("is no event", "another version of kraftwatch recorded this look, or the journal was changed by hand."),
)
_ELSE = "it is not laid out as Kafka lays it out: look at the controller's own copy with `kraftwatch decode`."


class Now(StrEnum):
    """What comes of it when it is decoded again."""

    DECODES = "decodes"
    BLANKED = "blanked"
    """Its type is known by now, but its body was blanked when it was recorded, because it was not known then."""
    NOT_YET = "does not decode"
    GONE = "gone"
    """The journal no longer holds the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One thing in quarantine."""

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
        """What it means, and what to do."""
        return next((advice for words, advice in _ADVICE if words in self.reason), _ELSE)

    def plain(self) -> dict[str, Plain]:
        """As JSON says it."""
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
class Again:
    """One thing in quarantine, decoded again."""

    held: Held
    now: Now
    why: str
    """What it decodes to, or why it does not."""
    row: Observation | None
    """The journal's row, while it is kept."""


def held(folder: Path) -> Sequence[Held]:
    """Everything in a quarantine, in the order of the journal; a file that is none of ours is passed over.

    Raises:
        OSError: the folder cannot be read.
    """
    # Not by glob, which takes a folder that may not be read for an empty one.
    found = [_held(path) for path in folder.iterdir() if path.suffix == ".json"] if folder.is_dir() else []
    return sorted((one for one in found if one is not None), key=lambda one: (one.sequence, one.ordinal))


def again(things: Sequence[Held], journal: Journal) -> Iterator[Again]:
    """Decode each once more, by the layouts of this kraftwatch, from the journal's bytes.

    Raises:
        JournalError: there is no journal.
    """
    first, end = journal.first(), journal.published()
    row: Observation | None = None
    for one in things:
        if row is None or row.sequence != one.sequence:
            row = None
            if not first <= one.sequence < end:
                place = f"the journal holds rows {first} to {end - 1}" if end > first else "the journal holds no rows"
                yield Again(held=one, now=Now.GONE, why=place, row=None)
                continue
            try:
                (row,) = journal.read(one.sequence, one.sequence + 1)
            except JournalError as problem:
                yield Again(held=one, now=Now.GONE, why=str(problem), row=None)
                continue
        yield _again(one, row)


def _again(one: Held, row: Observation) -> Again:
    blanked = None if one.offset is None else _blanked(row, one.offset)
    if blanked is not None:
        return Again(held=one, now=Now.BLANKED, why=blanked, row=row)
    events = tuple(events_of(row).events())
    still = [each for each in events if isinstance(each, Undecodable) and each.offset == one.offset]
    if still:
        return Again(held=one, now=Now.NOT_YET, why=still[0].reason, row=row)
    said = next((each.type for each in events if one.offset in (None, _offset(each))), "nothing that a rule needs")
    return Again(held=one, now=Now.DECODES, why=said, row=row)


def _offset(event: Event) -> int | None:
    at: At | None = getattr(event, "at", None)
    return None if at is None else at.offset


def _blanked(row: Observation, offset: int) -> str | None:
    """The name of the record at an offset whose body is nothing but zeros; None when there is none such."""
    if row.kind not in (Kind.RECORDS, Kind.SNAPSHOT):
        return None
    for batch in scan(row.payload):
        if isinstance(batch, Batch) and not batch.is_control and batch.base_offset <= offset <= batch.last_offset:
            record = next((one for one in framed(row.payload, batch) if batch.base_offset + one.delta == offset), None)
            return None if record is None else _name_if_blank(row.payload, record)
    return None


def _name_if_blank(payload: bytes, record: Framed) -> str | None:
    if record.value is None or record.fault is not None:
        return None
    try:
        api_key, _, body = head(payload, *record.value)
    except UndecodableError:
        return None
    layout = forms().records.get(api_key)
    content = payload[body : record.value[1]]
    return layout.name if layout is not None and len(content) > 1 and not any(content) else None


def _held(path: Path) -> Held | None:
    try:
        told: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Held(
            id=path.stem,
            cluster=str(told["cluster"]),
            sequence=int(told["sequence"]),
            ordinal=int(path.stem.rpartition("-")[2]),
            observed_at_ms=int(told["observed_at_ms"]),
            offset=None if told["offset"] is None else int(told["offset"]),
            length=int(told["length"]),
            reason=str(told["reason"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
