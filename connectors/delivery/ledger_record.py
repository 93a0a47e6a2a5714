"""An entry: one line of the ledger. It says by its CRC-32C whether it is whole, so a bad line costs only itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from crc32c import crc32c

from connectors.sinks.alert_json import sayable
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis

_CHECKSUM_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An alert that is to be told, by its number."""

    number: int
    recorded_at_ms: Millis
    incident: str
    """The incident it belongs to (`rules.notifications.incident`)."""
    alert: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A sink is done with an alert: it took it, or refused it for good, or need never be told."""

    number: int
    sink: str
    forgotten: bool = False
    """It was silenced from beginning to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A sink was told of an incident, news or a repetition."""

    sink: str
    incident: str
    at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A sink became known: it is told what was still firing at this line, and every alert after it."""

    sink: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A sink is known no more: it was gone for so long that what waited for it was given up."""

    sink: str


Entry: TypeAlias = Recorded | Told | Heard | Opened | Closed


def to_line(entry: Entry) -> bytes:
    """The entry as one line, its line feed included."""
    # ASCII only: every string that Python can hold comes back as it was.
    body = json.dumps(_plain(entry), allow_nan=False, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (crc32c(body), body)


def from_line(line: bytes) -> Entry | None:
    """What `to_line` made, without its line feed; None if the line is torn or damaged."""
    checksum, _, body = line.partition(b" ")
    if len(checksum) != _CHECKSUM_DIGITS or checksum != b"%08x" % crc32c(body):
        return None
    try:
        return _entry(json.loads(body))
    except (ValueError, TypeError, KeyError):
        return None


def _plain(entry: Entry) -> dict[str, Any]:
    match entry:
        case Recorded():
            alert = _plain_alert(entry.alert)
            return {"n": entry.number, "at": entry.recorded_at_ms, "incident": entry.incident, "alert": alert}
        case Told(forgotten=forgotten):
            return {"n": entry.number, "told": entry.sink, **({"forgotten": True} if forgotten else {})}
        case Heard():
            return {"heard": entry.sink, "incident": entry.incident, "at": entry.at_ms}
        case Opened():
            return {"opened": entry.sink}
        case Closed():
            return {"closed": entry.sink}


def _entry(plain: Mapping[str, Any]) -> Entry:
    if "alert" in plain:
        alert = _alert(plain["alert"])
        # A ledger of the first version knew no incidents: each alert is its own.
        incident = plain.get("incident", alert.fingerprint)
        return Recorded(number=plain["n"], recorded_at_ms=plain["at"], incident=incident, alert=alert)
    if "told" in plain:
        return Told(number=plain["n"], sink=plain["told"], forgotten=plain.get("forgotten", False))
    if "heard" in plain:
        return Heard(sink=plain["heard"], incident=plain["incident"], at_ms=plain["at"])
    if "closed" in plain:
        return Closed(sink=plain["closed"])
    return Opened(sink=plain["opened"])


def _plain_alert(alert: Alert) -> dict[str, Any]:
    return {
        "cluster": alert.cluster,
        "cluster_id": alert.cluster_id,
        "rule": alert.rule,
        "subject": alert.subject,
        "severity": alert.severity,
        "state": alert.state,
        "summary": alert.summary,
        "evidence": sayable(alert.evidence),
        "remedy": alert.remedy,
        "started_at_ms": alert.started_at_ms,
        "due_at_ms": alert.due_at_ms,
        "observed_at_ms": alert.observed_at_ms,
        "offset": alert.offset,
    }


def _alert(plain: Mapping[str, Any]) -> Alert:
    typed = {
        "severity": Severity(plain["severity"]),
        "state": AlertState(plain["state"]),
        "remedy": tuple(plain["remedy"]),
    }
    return Alert(**{**plain, **typed})
