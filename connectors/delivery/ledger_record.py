"""Ledger records: each is one line of the ledger, with a CRC-32C and a link to the line before it.

A line that does not match its checksum is damaged; a line whose link does not match the line before it shows that
lines are missing between them. Ledgers of earlier versions have no links.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from crc32c import crc32c

from connectors.sinks.alert_json import compact_json, json_safe
from connectors.stored_json import parse_json
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis

_CHECKSUM_DIGITS = 8
_NUMBER_KEY, _PREVIOUS_KEY = "line", "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecorded:
    """A transition of an alert, with its number in the ledger. It is pending for every known sink."""

    number: int
    recorded_at_ms: Millis
    incident: str
    """The id of the alert's incident (`rules.notifications.incident`)."""
    alert: Alert
    escalations: int = 0
    """How often the incident had escalated, this transition included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDelivered:
    """A sink is done with a transition: it was accepted, or discarded."""

    number: int
    sink: str
    discarded: bool = False
    """The transition was never sent: it was silenced from beginning to end, or does not match the sink's route."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentNotified:
    """A sink was notified of an incident: changes or a repetition."""

    sink: str
    incident: str
    at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAdded:
    """A sink became known: what was firing at this line is pending for it, and every later transition."""

    sink: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRemoved:
    """A sink is no longer known: it was absent for so long that its pending transitions were dropped."""

    sink: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerDamaged:
    """The ledger was damaged, and what it lost is not restored yet: an `LedgerRestored` follows when it is."""

    reason: str
    """What was damaged, as part of a sentence."""
    kept_as: str | None
    """The name of the file that holds the damaged ledger; None if there was no file or it was not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRestored:
    """What a damaged ledger had lost is recorded again, as far as Spark's state knows it."""

    recorded: int
    """How many transitions were recorded again."""


LedgerRecord: TypeAlias = (
    AlertRecorded | AlertDelivered | IncidentNotified | SinkAdded | SinkRemoved | LedgerDamaged | LedgerRestored
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The place of a line in the chain of a ledger's lines."""

    number: int
    """Counts up by one from line to line, also when the file is rewritten."""
    previous: str
    """The checksum of the line before it in the file; empty in the first line of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """A line whose checksum matches."""

    checksum: str
    link: Link | None
    """None in a line that an earlier version wrote."""
    record: LedgerRecord | None
    """None if this version does not know the record."""


def to_line(record: LedgerRecord, link: Link | None = None) -> bytes:
    """Returns the record as one line, with its line feed."""
    plain = _to_plain(record)
    if link is not None:
        plain |= {_NUMBER_KEY: link.number, _PREVIOUS_KEY: link.previous}
    # ASCII only: every Python string is restored exactly.
    body = compact_json(plain)
    return b"%08x %s\n" % (crc32c(body), body)


def checksum_of(line: bytes) -> str:
    """Returns the checksum that a line begins with."""
    return line[:_CHECKSUM_DIGITS].decode("ascii")


def from_line(line: bytes) -> LedgerRecord | None:
    """Returns the record of a line without its line feed; None if the line is torn, damaged or of another version."""
    found = parse_line(line)
    return None if found is None else found.record


def parse_line(line: bytes) -> LedgerLine | None:
    """Parses a line without its line feed; None if the line is torn or damaged."""
    checksum, _, body = line.partition(b" ")
    if len(checksum) != _CHECKSUM_DIGITS or checksum != b"%08x" % crc32c(body):
        return None
    try:
        plain = parse_json(body)
        number = plain.get(_NUMBER_KEY)
        link = None if number is None else Link(number=int(number), previous=str(plain[_PREVIOUS_KEY]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    try:
        record = _from_plain(plain)
    except (ValueError, TypeError, KeyError):
        record = None
    return LedgerLine(checksum=checksum.decode("ascii"), link=link, record=record)


def _to_plain(record: LedgerRecord) -> dict[str, Any]:
    # The keys are a stored format: they must not change.
    match record:
        case AlertRecorded():
            alert = _alert_to_plain(record.alert)
            plain = {"n": record.number, "at": record.recorded_at_ms, "incident": record.incident, "alert": alert}
            return plain | ({"escalations": record.escalations} if record.escalations else {})
        case AlertDelivered(discarded=discarded):
            return {"n": record.number, "told": record.sink, **({"forgotten": True} if discarded else {})}
        case IncidentNotified():
            return {"heard": record.sink, "incident": record.incident, "at": record.at_ms}
        case SinkAdded():
            return {"opened": record.sink}
        case SinkRemoved():
            return {"closed": record.sink}
        case LedgerDamaged():
            return {"damaged": record.reason, "kept": record.kept_as}
        case LedgerRestored():
            return {"restored": record.recorded}


def _from_plain(plain: Mapping[str, Any]) -> LedgerRecord:
    if "alert" in plain:
        alert = _alert_from_plain(plain["alert"])
        # The first version of the ledger had no incidents: each alert is its own incident.
        incident = plain.get("incident", alert.fingerprint)
        return AlertRecorded(
            number=plain["n"],
            recorded_at_ms=plain["at"],
            incident=incident,
            alert=alert,
            escalations=plain.get("escalations", 0),
        )
    if "told" in plain:
        return AlertDelivered(number=plain["n"], sink=plain["told"], discarded=plain.get("forgotten", False))
    if "heard" in plain:
        return IncidentNotified(sink=plain["heard"], incident=plain["incident"], at_ms=plain["at"])
    if "closed" in plain:
        return SinkRemoved(sink=plain["closed"])
    if "damaged" in plain:
        return LedgerDamaged(reason=plain["damaged"], kept_as=plain["kept"])
    if "restored" in plain:
        return LedgerRestored(recorded=plain["restored"])
    return SinkAdded(sink=plain["opened"])


def _alert_to_plain(alert: Alert) -> dict[str, Any]:
    return {
        "cluster": alert.cluster,
        "cluster_id": alert.cluster_id,
        "rule": alert.rule,
        "subject": alert.subject,
        "severity": alert.severity,
        "state": alert.state,
        "summary": alert.summary,
        "evidence": json_safe(alert.evidence),
        "remedy": alert.remedy,
        "started_at_ms": alert.started_at_ms,
        "due_at_ms": alert.due_at_ms,
        "observed_at_ms": alert.observed_at_ms,
        "offset": alert.offset,
    }


def _alert_from_plain(plain: Mapping[str, Any]) -> Alert:
    typed = {
        "severity": Severity(plain["severity"]),
        "state": AlertState(plain["state"]),
        "remedy": tuple(plain["remedy"]),
    }
    return Alert(**{**plain, **typed})
