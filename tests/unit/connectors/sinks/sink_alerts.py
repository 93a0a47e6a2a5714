"""Alerts and a recording sink for tests."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from connectors.sinks.sink import Delivered, DeliveryMode, DeliveryOptions, Outcome, Retry
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis, Offset
from rules.notifications.notification import Notification
from rules.notifications.route import Route

NOON_MS = Millis(1_795_150_862_345)
"""2026-11-20T05:01:02.345Z."""
ALERT_SCHEMA = Draft202012Validator(json.loads((Path(__file__).parents[4] / "docs" / "alert.schema.json").read_text()))
"""Of each line that is written of an alert, as it is published."""


def alert(subject: str = "voter 2", *, started_at_ms: int = NOON_MS, resolved: bool = False, **changed: Any) -> Alert:
    fields: dict[str, Any] = {
        "cluster": "alpha",
        "cluster_id": "kP1x",
        "rule": "no-leader",
        "subject": subject,
        "severity": Severity.CRITICAL,
        "state": AlertState.RESOLVED if resolved else AlertState.FIRING,
        "summary": "No leader elected.",
        "evidence": {"leader_epoch": 7, "asked": ["c1:9093", "c2:9093"]},
        "remedy": ("# Start a controller.", "bin/kafka-server-start.sh $NODE_PROPERTIES"),
        "started_at_ms": Millis(started_at_ms),
        "due_at_ms": Millis(started_at_ms + 5_000),
        "observed_at_ms": Millis(started_at_ms + 5_000),
        "offset": Offset(991),
    }
    return Alert(**{**fields, **changed})


@dataclass
class RecordingSink:
    """A sink that stores what it is sent, and returns the configured outcomes."""

    name: str = "recording"
    mode: DeliveryMode = DeliveryMode.TRANSITIONS
    repeat_s: float | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    """The next outcomes, one for each notification; Delivered after them."""
    notifications: list[Notification] = field(default_factory=list)
    """What it accepted."""
    transitions: list[Alert] = field(default_factory=list)
    """The new transitions of what it accepted."""
    calls: int = 0
    unreachable: bool = False
    route: Route = field(default_factory=Route)

    @property
    def options(self) -> DeliveryOptions:
        return DeliveryOptions(name=self.name, mode=self.mode, repeat_s=self.repeat_s, route=self.route)

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        self.calls += 1
        if self.unreachable:
            return [Retry(reason="unreachable")] * len(notifications)
        results = self.respond(notifications)
        accepted = [one for one, outcome in zip(notifications, results, strict=False) if isinstance(outcome, Delivered)]
        self.notifications += accepted
        self.transitions += [each for notification in accepted for each in notification.new_transitions]
        return results

    def respond(self, notifications: Sequence[Notification]) -> Sequence[Outcome]:
        return [self.outcomes.pop(0) if self.outcomes else Delivered() for _ in notifications]
