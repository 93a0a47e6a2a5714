"""PagerDuty's Events API v2, as far as we use it: its documented schema held strictly, and its alerts."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from tests.sinks.server import Answer, Request

_SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parent / "pagerduty.schema.json").read_text()),
    format_checker=Draft202012Validator.FORMAT_CHECKER,
)
_LARGEST = 512 * 1024


@dataclass
class Alert:
    """One alert of the service."""

    key: str
    events: list[dict[str, Any]]
    state: str = "triggered"
    pages: int = 1
    """How often somebody's phone rang."""


@dataclass
class Pagerduty:
    """One service, and who is on call for it."""

    alerts: list[Alert] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)

    def open(self, key: str) -> Alert | None:
        return next((each for each in self.alerts if each.key == key and each.state != "resolved"), None)

    def answer(self, request: Request) -> Answer:
        """What /v2/enqueue answers, and what comes of it."""
        event = json.loads(request.body)
        try:
            assert request.path == "/v2/enqueue", request.path
            assert len(request.body) <= _LARGEST, "larger than 512 KB"
            _SCHEMA.validate(event)
        except (ValidationError, AssertionError) as problem:
            why = problem.message if isinstance(problem, ValidationError) else str(problem)
            self.invalid.append(why)
            return _said(400, {"status": "invalid event", "message": "Event object is invalid", "errors": [why]})
        self._take(event)
        key = event["dedup_key"]
        return _said(202, {"status": "success", "message": "Event processed", "dedup_key": key})

    def _take(self, event: dict[str, Any]) -> None:
        alert = self.open(event["dedup_key"])
        match event["event_action"]:
            case "trigger" if alert is None:
                self.alerts.append(Alert(event["dedup_key"], [event]))
            case "trigger":
                assert alert is not None
                alert.events.append(event)
            case _ if alert is None:
                self.dropped.append(event)
            case "resolve":
                alert.state = "resolved"
            case _:
                alert.state = "acknowledged"


def _said(status: int, body: dict[str, Any]) -> Answer:
    return Answer(status=status, body=json.dumps(body).encode())
