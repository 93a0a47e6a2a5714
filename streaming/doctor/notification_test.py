"""Sends a test notification through a sink to the people or systems behind it, and says what must arrive where."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import assert_never

from connectors.sinks.alertmanager import LASTS_S
from connectors.sinks.error_redaction import redact
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from connectors.sinks.sink_config import (
    Alertmanager,
    Apprise,
    Console,
    Jsonl,
    KafkaTopic,
    Pagerduty,
    SinkConfig,
    SinkSpec,
    SlackBot,
    SlackWebhook,
    Webhook,
)
from connectors.wall_clock import wall_ms
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import single_alert_notification
from rules.notifications.route import JOB_CLUSTER_ID

DEADLINE_S = 15.0
RULE = "test"
"""In place of a rule's id."""
PAGER_PAUSE_S = 30.0
"""How long the alert in a pager stays open: one that resolves at once may page nobody."""
_SUMMARY = "This is a test of kraftwatch's configuration. Nothing is wrong; no action is needed."


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationTest:
    """What is sent to each sink."""

    severity: Severity | None = None
    """The severity of the test; None: the lowest that the sink takes."""
    pause: Callable[[float], None] = time.sleep
    """Waits for so many seconds."""

    def severity_for(self, spec: SinkSpec) -> Severity | None:
        """Returns the severity of the test for this sink; None if the sink does not take the requested one."""
        lowest = spec.route.min_severity
        if self.severity is None:
            return lowest
        return self.severity if self.severity.rank >= lowest.rank else None


def send_test(sink: Sink, spec: SinkSpec, severity: Severity, pause: Callable[[float], None]) -> str | None:
    """Sends an alert that fires and resolves.

    An Alertmanager gets only the firing alert, which ends by itself: Alertmanager notifies only of an alert that is
    still firing after `group_wait`. In a pager the alert stays open for a while.

    Returns:
        Why the sink did not accept it, without a secret; None if it did.
    """
    now_ms = wall_ms()
    error = _send(sink, _alert(AlertState.FIRING, severity, now_ms))
    if error is not None or isinstance(spec.config, Alertmanager):
        return error
    try:
        if isinstance(spec.config, Pagerduty):
            pause(PAGER_PAUSE_S)
    finally:
        # Also after ^C, so that no incident stays open in a pager.
        error = _send(sink, _alert(AlertState.RESOLVED, severity, now_ms))
    return error


def expectation(spec: SinkSpec, name: str, severity: Severity) -> str:
    """Returns what a person should see after the test, and where.

    Args:
        spec: the sink.
        name: the sink's name in the ledger; it contains no secret.
        severity: the severity of the test.
    """
    config: SinkConfig = spec.config
    match config:
        case Console():
            return "stderr shows two lines above: firing and resolved"
        case Jsonl():
            return f"{config.path} has two new lines with rule {RULE}: firing and resolved"
        case KafkaTopic():
            return f"topic {config.topic} has two new messages with rule {RULE}: firing and resolved"
        case Webhook():
            return f"{name} received two documents with rule {RULE}: firing and resolved"
        case Alertmanager():
            ends = datetime.fromtimestamp(wall_ms() / 1000 + LASTS_S, UTC)
            return (
                f"Alertmanager routes alertname {RULE}, cluster {JOB_CLUSTER_ID}, severity {severity}: its receiver is "
                f"notified after the route's group_wait (30 s by default); it ends by itself at {ends:%H:%M:%S} UTC"
            )
        case SlackBot():
            return f"channel {config.channel} has a new message, edited to resolved"
        case SlackWebhook():
            return "the webhook's channel has two new messages: firing and resolved"
        case Pagerduty():
            return (
                f"PagerDuty pages for the service of this key: an alert of severity {severity}, open for "
                f"{PAGER_PAUSE_S:.0f} s and then resolved"
            )
        case Apprise():
            return f"the recipients of {name} get two messages: firing and resolved"
        case _:
            assert_never(config)


def _send(sink: Sink, alert: Alert) -> str | None:
    notification = single_alert_notification(alert)
    try:
        outcomes: Sequence[Outcome] = sink.send([notification], sent_at_ms=wall_ms(), deadline_s=DEADLINE_S)
    except Exception as problem:  # noqa: BLE001 - a defect of one sink must not prevent the check of the others
        return redact(f"{type(problem).__name__}: {problem}")
    match outcomes:
        case [Retry(reason=reason) | Rejected(reason=reason)]:
            return reason
        case [Delivered()]:
            return None
        case _:
            return f"the sink returned {len(outcomes)} outcomes for one notification"


def _alert(state: AlertState, severity: Severity, now_ms: Millis) -> Alert:
    return Alert(
        cluster=JOB_CLUSTER_ID,
        cluster_id=JOB_CLUSTER_ID,
        rule=RULE,
        subject="a test",
        severity=severity,
        state=state,
        summary=_SUMMARY,
        evidence={},
        remedy=("# No action is needed: this is a test.",),
        started_at_ms=now_ms,
        due_at_ms=now_ms,
        observed_at_ms=now_ms,
        offset=None,
    )
