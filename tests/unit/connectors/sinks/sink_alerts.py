"""Alerts for the sinks' tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.sinks.sink import Delivered, Outcome, Retry, Style, Terms
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis, Offset
from rules.notifications.notification import Notice
from rules.notifications.route import Route

NOON_MS = Millis(1_795_150_862_345)
"""2026-11-20T05:01:02.345Z."""


def alert(subject: str = "voter 2", *, started_at_ms: int = NOON_MS, resolved: bool = False, **changed: Any) -> Alert:
    stated: dict[str, Any] = {
        "cluster": "alpha",
        "cluster_id": "kP1x",
        "rule": "no-leader",
        "subject": subject,
        "severity": Severity.CRITICAL,
        "state": AlertState.RESOLVED if resolved else AlertState.FIRING,
        "summary": "Nobody leads.",
        "evidence": {"leader_epoch": 7, "asked": ["c1:9093", "c2:9093"]},
        "remedy": ("# Start a controller.", "bin/kafka-server-start.sh $NODE_PROPERTIES"),
        "started_at_ms": Millis(started_at_ms),
        "due_at_ms": Millis(started_at_ms + 5_000),
        "observed_at_ms": Millis(started_at_ms + 5_000),
        "offset": Offset(991),
    }
    return Alert(**{**stated, **changed})


@dataclass
class Recording:
    """A sink that keeps what it is told, and answers as it is told to."""

    name: str = "recording"
    style: Style = Style.EACH
    repeat_s: float | None = None
    answers: list[Outcome] = field(default_factory=list)
    """The answers to come, one for each notice; Delivered after them."""
    notices: list[Notice] = field(default_factory=list)
    """What it took."""
    told: list[Alert] = field(default_factory=list)
    """The news of what it took."""
    calls: int = 0
    away: bool = False
    route: Route = field(default_factory=Route)

    @property
    def terms(self) -> Terms:
        return Terms(name=self.name, style=self.style, repeat_s=self.repeat_s, route=self.route)

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        self.calls += 1
        if self.away:
            return [Retry(reason="away")] * len(notices)
        outcomes = [self.answers.pop(0) if self.answers else Delivered() for _ in notices]
        taken = [one for one, outcome in zip(notices, outcomes, strict=True) if isinstance(outcome, Delivered)]
        self.notices += taken
        self.told += [each for notice in taken for each in notice.news]
        return outcomes
