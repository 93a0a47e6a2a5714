"""The minimal content of a notification, for when its full document cannot be formatted or is refused.

Cluster, rule, subject, severity, state, summary and the incident stay, so a service shows it under the same key.
"""

from dataclasses import replace

from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification

_MAX_SUMMARY = 300
_LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, the latest time that can be formatted."""
_REMEDY = "# This text is shortened: `kraftwatch check` and kraftwatch's page have the evidence and what to do."


def minimal(notification: Notification) -> Notification:
    """Returns the notification with minimal alerts."""
    return replace(
        notification,
        alerts=tuple(map(minimal_alert, notification.alerts)),
        new_transitions=tuple(map(minimal_alert, notification.new_transitions)),
    )


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
    return Millis(min(max(at_ms, 0), _LATEST_MS))
