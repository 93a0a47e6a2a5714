"""The JSON object of one alert, which jsonl and every other machine-readable sink writes.

Other programs rely on its fields: cluster, cluster_id, rule, subject, severity, state, summary, evidence, remedy,
started_at, observed_at, sent_at, offset, fingerprint, and late_ms where the job was late. The object of a silence is
here too.
"""

import json
from dataclasses import replace

from connectors.store.stored_json import json_line, json_safe, parse_json
from rules.alert import Alert, AlertKey
from rules.finding import Plain
from rules.formatting import LATEST_MS, from_iso, iso
from rules.model.identifiers import Millis
from rules.notifications.route import Silence

_MAX_SUMMARY = 300
_REMEDY = "# This text is shortened: `kraftwatch check` and kraftwatch's page have the evidence and what to do."


def compact_json(value: object) -> bytes:
    """Returns plain data as JSON in ASCII, without blanks.

    Raises ValueError if it has a number that JSON does not have, or refers to itself, TypeError if it is not plain
    data.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def to_object(alert: Alert, sent_at_ms: Millis) -> dict[str, Plain]:
    """Returns the object, its fields in the documented order."""
    return {
        "cluster": alert.cluster,
        "cluster_id": alert.cluster_id,
        "rule": alert.rule,
        "subject": alert.subject,
        "severity": alert.severity.value,
        "state": alert.state.value,
        "summary": alert.summary,
        "evidence": json_safe(alert.evidence),
        "remedy": list(alert.remedy),
        "started_at": iso(alert.started_at_ms),
        "observed_at": iso(alert.observed_at_ms),
        "sent_at": iso(sent_at_ms),
        "offset": alert.offset,
        "fingerprint": alert.fingerprint,
        **({} if alert.late_ms is None else {"late_ms": alert.late_ms}),
    }


def minimal_alert(alert: Alert) -> Alert:
    """Returns the alert without evidence, with a short summary and with times that can be formatted."""
    return replace(
        alert,
        summary=alert.summary[:_MAX_SUMMARY],
        evidence={},
        remedy=(_REMEDY,),
        started_at_ms=_formattable(alert.started_at_ms),
        observed_at_ms=_formattable(alert.observed_at_ms),
    )


def _formattable(at_ms: Millis) -> Millis:
    return Millis(min(max(at_ms, 0), LATEST_MS))


def silence_to_json(silence: Silence, now_ms: Millis) -> dict[str, Plain]:
    """Returns a silence as the JSON object of `silence list --json` and the API."""
    return {
        "id": silence.id,
        "cluster": silence.cluster,
        "rule": silence.rule,
        "subject": silence.subject,
        "severity": silence.severity,
        "starts_at": iso(silence.starts_at_ms),
        "ends_at": iso(silence.ends_at_ms),
        "active": silence.active(now_ms),
        "author": silence.author,
        "comment": silence.comment,
    }


def to_line(alert: Alert, sent_at_ms: Millis) -> bytes:
    """Returns the object as one line of UTF-8, with its line feed; the minimal one if it cannot be formatted."""
    try:
        text = json_line(to_object(alert, sent_at_ms), (",", ":"))
    except (ValueError, TypeError, OverflowError, RecursionError):
        text = json_line(to_object(minimal_alert(alert), sent_at_ms), (",", ":"))
    return text.encode() + b"\n"


def key_of(line: bytes) -> AlertKey | None:
    """Returns `Alert.key` of the alert in a line; None if the line is not such an object."""
    try:
        found = parse_json(line)
        started_at_ms = from_iso(found["started_at"])
        return (
            found["cluster_id"],
            found["rule"],
            found["subject"],
            started_at_ms,
            found["state"],
            found["severity"],
            from_iso(found["observed_at"]),
        )
    except (ValueError, TypeError, KeyError):
        return None
