"""Ledger records: each is one line of the ledger. A CRC-32C in each line confines damage to that line."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from crc32c import crc32c

from connectors.sinks.alert_json import json_safe
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis

_CHECKSUM_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecorded:
    """A transition of an alert, with its number in the ledger. It is pending for every known sink."""

    number: int
    recorded_at_ms: Millis
    incident: str
    """The id of the alert's incident (`rules.notifications.incident`)."""
    alert: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDelivered:
    """A sink is done with a transition: it was accepted, rejected permanently, or discarded."""

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


LedgerRecord: TypeAlias = AlertRecorded | AlertDelivered | IncidentNotified | SinkAdded | SinkRemoved


def to_line(record: LedgerRecord) -> bytes:
    """Returns the record as one line, with its line feed."""
    # ASCII only: every Python string is restored exactly.
    body = json.dumps(_to_plain(record), allow_nan=False, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (crc32c(body), body)


def from_line(line: bytes) -> LedgerRecord | None:
    """Parses a line without its line feed; None if the line is torn or damaged."""
    checksum, _, body = line.partition(b" ")
    if len(checksum) != _CHECKSUM_DIGITS or checksum != b"%08x" % crc32c(body):
        return None
    try:
        return _from_plain(json.loads(body))
    except (ValueError, TypeError, KeyError):
        return None


def _to_plain(record: LedgerRecord) -> dict[str, Any]:
    # The keys are a stored format: they must not change.
    match record:
        case AlertRecorded():
            alert = _alert_to_plain(record.alert)
            return {"n": record.number, "at": record.recorded_at_ms, "incident": record.incident, "alert": alert}
        case AlertDelivered(discarded=discarded):
            return {"n": record.number, "told": record.sink, **({"forgotten": True} if discarded else {})}
        case IncidentNotified():
            return {"heard": record.sink, "incident": record.incident, "at": record.at_ms}
        case SinkAdded():
            return {"opened": record.sink}
        case SinkRemoved():
            return {"closed": record.sink}


def _from_plain(plain: Mapping[str, Any]) -> LedgerRecord:
    if "alert" in plain:
        alert = _alert_from_plain(plain["alert"])
        # The first version of the ledger had no incidents: each alert is its own incident.
        incident = plain.get("incident", alert.fingerprint)
        return AlertRecorded(number=plain["n"], recorded_at_ms=plain["at"], incident=incident, alert=alert)
    if "told" in plain:
        return AlertDelivered(number=plain["n"], sink=plain["told"], discarded=plain.get("forgotten", False))
    if "heard" in plain:
        return IncidentNotified(sink=plain["heard"], incident=plain["incident"], at_ms=plain["at"])
    if "closed" in plain:
        return SinkRemoved(sink=plain["closed"])
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
