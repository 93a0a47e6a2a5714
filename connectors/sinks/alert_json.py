"""A line: one alert as the JSON object that jsonl and every other machine-readable sink carries.

Other programs rely on its fields: cluster, cluster_id, rule, subject, severity, state, summary, evidence, remedy,
started_at, observed_at, sent_at, offset, fingerprint.
"""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from rules.alert import Alert
from rules.finding import Plain
from rules.model.identifiers import Millis

Key: TypeAlias = tuple[str, str, str, Millis, str, str, Millis]
"""`Alert.key`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_object(alert: Alert, sent_at_ms: Millis) -> dict[str, Plain]:
    """The object, its fields in their order."""
    return {
        "cluster": alert.cluster,
        "cluster_id": alert.cluster_id,
        "rule": alert.rule,
        "subject": alert.subject,
        "severity": alert.severity.value,
        "state": alert.state.value,
        "summary": alert.summary,
        "evidence": sayable(alert.evidence),
        "remedy": list(alert.remedy),
        "started_at": iso(alert.started_at_ms),
        "observed_at": iso(alert.observed_at_ms),
        "sent_at": iso(sent_at_ms),
        "offset": alert.offset,
        "fingerprint": alert.fingerprint,
    }


def to_line(alert: Alert, sent_at_ms: Millis) -> bytes:
    """The object as one line of UTF-8, its line feed included."""
    text = json.dumps(to_object(alert, sent_at_ms), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A character that UTF-8 cannot say becomes \udxxx, which is how JSON says it.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def key_of(line: bytes) -> Key | None:
    """`Alert.key` of the alert that a line tells; None if the line is no such object."""
    try:
        told = json.loads(line)
        started_at_ms = from_iso(told["started_at"])
        return (
            told["cluster_id"],
            told["rule"],
            told["subject"],
            started_at_ms,
            told["state"],
            told["severity"],
            from_iso(told["observed_at"]),
        )
    except (ValueError, TypeError, KeyError):
        return None


def iso(at_ms: Millis) -> str:
    """ISO 8601 in UTC with milliseconds: `2026-11-20T05:01:02.345Z`."""
    return (_EPOCH + at_ms * _MILLISECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_iso(text: str) -> Millis:
    """What `iso` wrote.

    Raises:
        ValueError: it is no time.
        TypeError: it is no text, or it names no time zone.
    """
    return Millis((datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND)


def sayable(evidence: Mapping[str, Plain]) -> dict[str, Plain]:
    """Evidence as JSON can say it: an alert is not lost over a NaN or an infinity, which become null."""
    return {name: _finite(value) for name, value in evidence.items()}


def _finite(value: Plain) -> Plain:
    match value:
        case float() if not math.isfinite(value):
            return None
        case list():
            return [_finite(each) for each in value]
        case dict():
            return sayable(value)
        case _:
            return value
