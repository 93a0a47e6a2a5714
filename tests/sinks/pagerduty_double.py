"""A double of PagerDuty's Events API v2: it validates events by the documented schema and stores alerts."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from jsonschema import Draft202012Validator, ValidationError

from tests.sinks.server import HttpReply, ReceivedRequest

_SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parent / "pagerduty.schema.json").read_text()),
    format_checker=Draft202012Validator.FORMAT_CHECKER,
)
_CHANGE_SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parent / "pagerduty_change.schema.json").read_text()),
    format_checker=Draft202012Validator.FORMAT_CHECKER,
)
_MAX_EVENT_BYTES = 512 * 1024


@dataclass
class PagerdutyAlert:
    """One alert of the service."""

    key: str
    events: list[dict[str, Any]]
    state: str = "triggered"
    pages: int = 1
    """How often the person on call was paged."""
    acknowledgements: list[dict[str, Any]] = field(default_factory=list)
    """As the REST API lists them."""

    def acknowledge(self, person: str, at_ms: int) -> None:
        """A person acknowledges it."""
        self.state = "acknowledged"
        self._note("user_reference", person, at_ms)

    def time_out(self) -> None:
        """The acknowledgement ends by the service's own time limit: PagerDuty pages again."""
        self.state, self.acknowledgements = "triggered", []
        self.pages += 1

    def _note(self, kind: str, name: str, at_ms: int) -> None:
        at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        self.acknowledgements.append({"at": at, "acknowledger": {"type": kind, "id": "P1", "summary": name}})


@dataclass
class PagerdutyDouble:
    """One service."""

    alerts: list[PagerdutyAlert] = field(default_factory=list)
    api_token: str = ""
    dropped: list[dict[str, Any]] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    """The change events."""
    effects: list[tuple[str, str]] = field(default_factory=list)
    """Of each event that it understands: opened, repeated, resolved, dropped or acknowledged; and its key."""

    def open(self, key: str) -> PagerdutyAlert | None:
        return next((each for each in self.alerts if each.key == key and each.state != "resolved"), None)

    def reply(self, request: ReceivedRequest) -> HttpReply:
        """Applies an event and returns the reply of /v2/enqueue; or lists the incidents of a key."""
        if request.method == "GET":
            return self._listed(request)
        event = json.loads(request.body)
        is_change = request.path == "/v2/change/enqueue"
        try:
            assert is_change or request.path == "/v2/enqueue", request.path
            assert len(request.body) <= _MAX_EVENT_BYTES, "larger than 512 KB"
            (_CHANGE_SCHEMA if is_change else _SCHEMA).validate(event)
        except (ValidationError, AssertionError) as problem:
            error = problem.message if isinstance(problem, ValidationError) else str(problem)
            self.invalid.append(error)
            return _json_reply(
                400, {"status": "invalid event", "message": "Event object is invalid", "errors": [error]}
            )
        if is_change:
            self.changes.append(event)
            return _json_reply(202, {"status": "success", "message": "Change event processed"})
        self._apply(event)
        key = event["dedup_key"]
        return _json_reply(202, {"status": "success", "message": "Event processed", "dedup_key": key})

    def _listed(self, request: ReceivedRequest) -> HttpReply:
        path, _, query = request.path.partition("?")
        if path != "/incidents" or request.headers["Authorization"] != f"Token token={self.api_token}":
            return _json_reply(401, {"error": {"message": "Unauthorized", "code": 2006}})
        asked = parse_qs(query)
        found = [
            {
                "id": f"Q{number}",
                "incident_key": one.key,
                "status": one.state,
                "acknowledgements": one.acknowledgements,
            }
            for number, one in enumerate(self.alerts)
            if one.key in asked["incident_key"] and one.state in asked["statuses[]"]
        ]
        return _json_reply(200, {"incidents": found, "limit": 5, "offset": 0, "more": False})

    def _apply(self, event: dict[str, Any]) -> None:
        key = event["dedup_key"]
        alert = self.open(key)
        if event["event_action"] == "trigger":
            effect = "opened" if alert is None else "repeated"
            if alert is None:
                self.alerts.append(PagerdutyAlert(key, [event]))
            else:
                alert.events.append(event)
        elif alert is None:
            effect = "dropped"
            self.dropped.append(event)
        else:
            effect = alert.state = {"resolve": "resolved", "acknowledge": "acknowledged"}[event["event_action"]]
            if effect == "acknowledged":
                alert._note("events_api_v2_inbound_integration_reference", "kraftwatch", 0)
        self.effects.append((effect, key))


def _json_reply(status: int, body: dict[str, Any]) -> HttpReply:
    return HttpReply(status=status, body=json.dumps(body).encode())
