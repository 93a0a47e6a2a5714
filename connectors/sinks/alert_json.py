"""The JSON objects of an alert and of a silence, for sinks, commands and the API; other programs rely on their fields.

A type here is the only definition of its object: of what is written, of its schema and of its part of the API's
document.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, Final, NotRequired, cast

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from connectors.store.stored_json import json_line, json_safe, parse_json
from rules.alert import Alert, AlertKey, AlertState
from rules.claims.claim import Claim, Question
from rules.finding import Plain, Severity
from rules.formatting import LATEST_MS, from_iso, iso
from rules.model.identifiers import Millis
from rules.notifications.route import Silence

_MAX_SUMMARY = 300
_REMEDY = "# This text is shortened: `kraftwatch check` and kraftwatch's page have the evidence and what to do."

OBJECT: Final = ConfigDict(extra="forbid", use_attribute_docstrings=True)
"""Of each type of an object."""
_Text = Annotated[str, Field(min_length=1)]
Time = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$")]
"""ISO 8601 in UTC with milliseconds."""


@with_config(OBJECT)
class ClaimObject(TypedDict):
    """What is said of the quorum or of one node, as values."""

    question: Question
    """What it answers (docs/alerts.md has the list)."""
    node: int | None
    """The node that it is about; null: the quorum, or of `may-restart` every controller."""
    answer: list[str | int]
    """The answer. If it is not known more exactly, each value that it may be; empty: it is unknown."""
    of: int | None
    """Of how many voters it counts some."""
    observed_at: Time | None
    """When the observation that proves it was made; null: it rests on several."""
    undecided: list[int]
    """If it is unknown: the controllers that decide it."""


@with_config(OBJECT)
class AlertObject(TypedDict):
    """One transition of an alert."""

    cluster: _Text
    """The cluster's name in the configuration; `kraftwatch` if the alert is about the job itself."""
    cluster_id: str
    """Kafka's cluster id."""
    rule: Annotated[str, Field(pattern="^[a-z]+(-[a-z]+)*$")]
    """The rule's id, as `kraftwatch explain` lists it."""
    subject: _Text
    """The part of the cluster that the alert is about."""
    severity: Severity
    """A change of severity is a new firing object with the same fingerprint and started_at."""
    state: AlertState
    """firing or resolved."""
    summary: _Text
    """What is wrong, for people."""
    evidence: dict[str, Any]
    """The facts behind the alert, for people: each rule has its own names, which may change with the rule
    (CHANGELOG.md). NaN and infinity are null."""
    claims: list[ClaimObject]
    """What the summary and the remedy say of the quorum and its nodes, for programs; of a resolved alert, what its
    summary says is true now. The first is `condition`: whether what it is about lasts."""
    remedy: list[_Text]
    """The steps in order: each is a shell command, or a sentence that begins with `#`."""
    started_at: Time
    """The time of the first observation that showed the condition, ISO 8601 in UTC with milliseconds."""
    observed_at: Time
    """The time of the observation that caused this transition."""
    offset: Annotated[int, Field(ge=0)] | None
    """The newest committed offset of the metadata log that was known at that time; null if none was known."""
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    """Identifies the alert from firing to resolved: a hash of cluster, cluster_id, rule and
    subject; of an alert that a version before 0.2.0 left open, without the cluster."""
    late_ms: NotRequired[Annotated[int, Field(ge=60_000)]]
    """How long after observed_at the job evaluated the observation, while it worked off a backlog; absent below a
    minute."""


@with_config(OBJECT)
class AlertLine(AlertObject):
    """A line of a jsonl sink, the value of a message of a Kafka sink, and each object in alerts and new_transitions of
    a webhook document. Fields may be added; no field is removed or changes its meaning."""

    sent_at: Time
    """When this line was written; the only field that differs when a transition is sent again."""


@with_config(OBJECT)
class SilenceObject(TypedDict):
    """A silence; several with one id belong together."""

    id: str
    """Its id."""
    cluster: str
    """Pattern of the cluster's name."""
    rule: str
    """Pattern of the rule's id."""
    subject: str
    """Pattern of the alert's subject."""
    severity: str
    """Pattern of the severity."""
    starts_at: str
    """When it begins, ISO 8601."""
    ends_at: str
    """When it ends, ISO 8601."""
    active: bool
    """Whether it is in force now."""
    author: str
    """Who silences; `configuration` for a maintenance window."""
    comment: str
    """The reason."""


def compact_json(value: object) -> bytes:
    """Returns plain data as JSON in ASCII, without blanks.

    Raises ValueError if it has a number that JSON does not have, or refers to itself, TypeError if it is not plain
    data.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def alert_object(alert: Alert) -> AlertObject:
    """Returns the object of an alert."""
    found: AlertObject = {
        "cluster": alert.cluster,
        "cluster_id": alert.cluster_id,
        "rule": alert.rule,
        "subject": alert.subject,
        "severity": alert.severity,
        "state": alert.state,
        "summary": alert.summary,
        "evidence": json_safe(alert.evidence),
        "claims": [claim_object(one) for one in alert.claims],
        "remedy": list(alert.remedy),
        "started_at": iso(alert.started_at_ms),
        "observed_at": iso(alert.observed_at_ms),
        "offset": alert.offset,
        "fingerprint": alert.fingerprint,
    }
    if alert.late_ms is not None:
        found["late_ms"] = alert.late_ms
    return found


def claim_object(one: Claim) -> ClaimObject:
    """Returns the object of a claim."""
    return {
        "question": one.question,
        "node": one.node,
        "answer": [*one.answer],
        "of": one.of,
        "observed_at": None if one.observed_at_ms is None else iso(one.observed_at_ms),
        "undecided": [*one.undecided],
    }


def claims_json(claims: Iterable[Claim]) -> list[Plain]:
    """Returns the objects of these claims, as plain data."""
    return cast(list[Plain], [*map(claim_object, claims)])


def claims_text(claims: Iterable[Claim], most: int) -> str:
    """Returns the first of these claims as a JSON array of at most so many characters; empty without any."""
    kept, left = list[str](), most - len("[]")
    for one in claims:
        text = compact_json(claim_object(one)).decode()
        left -= len(text) + len(",")
        if left < 0:
            break
        kept.append(text)
    return f"[{','.join(kept)}]" if kept else ""


def to_object(alert: Alert, sent_at_ms: Millis) -> AlertLine:
    """Returns the object of an alert that is sent."""
    return {**alert_object(alert), "sent_at": iso(sent_at_ms)}


def alert_schema() -> dict[str, Any]:
    """Returns the JSON Schema of AlertLine: docs/alert.schema.json."""
    found = described(TypeAdapter(AlertLine).json_schema(), TypeAdapter(AlertObject).json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:kraftwatch:alert:1", **found}


def described(schema: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a type with the descriptions of the type that it extends: pydantic reads its own alone."""
    fields = {name: {**base["properties"].get(name, {}), **field} for name, field in schema["properties"].items()}
    return {**schema, "properties": fields}


def minimal_alert(alert: Alert) -> Alert:
    """Returns the alert without evidence, with a short summary and with times that can be formatted."""
    return replace(
        alert,
        summary=alert.summary[:_MAX_SUMMARY],
        evidence={},
        claims=(),
        remedy=(_REMEDY,),
        started_at_ms=_formattable(alert.started_at_ms),
        observed_at_ms=_formattable(alert.observed_at_ms),
    )


def _formattable(at_ms: Millis) -> Millis:
    return Millis(min(max(at_ms, 0), LATEST_MS))


def silence_to_json(silence: Silence, now_ms: Millis) -> SilenceObject:
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
            found["cluster"],
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
