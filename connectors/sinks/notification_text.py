"""What several sinks write about an alert for people: the whole alert as text, other alerts, why it comes late."""

from collections.abc import Sequence

from rules.alert import Alert, AlertState
from rules.evidence_text import plain_evidence
from rules.formatting import late_text, utc_text, visible
from rules.notifications.notification import Notification

_INDENT = "  "


def alert_text(alert: Alert) -> str:
    """Returns an alert as plain text: headline, summary, start, evidence, and the numbered steps of the remedy.

    No text in it, such as the name of a host, spreads over lines.
    """
    firing = alert.state is AlertState.FIRING
    offset = "unknown" if alert.offset is None else str(alert.offset)
    lines = [
        f"{alert.severity.upper() if firing else 'RESOLVED'} {alert.rule} · {alert.subject} · {alert.cluster}",
        alert.summary,
        f"first observed {utc_text(alert.started_at_ms)}, metadata offset {offset}, fingerprint {alert.fingerprint}",
        *([] if alert.late_ms is None else [late_text(alert.late_ms)]),
        "Evidence" if firing else "Evidence while it was firing",
        *(f"{_INDENT}{line}" for line in plain_evidence(alert.evidence)),
        *(["What to do"] if alert.remedy else []),
    ]
    for number, step in enumerate(alert.remedy, start=1):
        lines.append(f"{_INDENT}{number}. {step[1:].strip() if step.startswith('#') else f'$ {step}'}")
    return "\n".join(map(visible, lines)) + "\n"


def other_alert_lines(alerts: Sequence[Alert], cluster: str, limit: int) -> list[str]:
    """Returns one line for each of the first `limit` alerts that are listed below a root cause, and how many follow.

    The line of an alert of another cluster than `cluster` names its cluster: a storm incident has many clusters.
    """
    lines = [
        visible(
            f"{alert.state.value} {alert.severity.value} {'' if alert.cluster == cluster else alert.cluster + ' '}"
            f"{alert.rule} {alert.subject}: {alert.summary}"
        )
        for alert in alerts[:limit]
    ]
    return [*lines, f"and {len(alerts) - limit} more"] if len(alerts) > limit else lines


def delay_text(notification: Notification, service: str) -> str | None:
    """Returns why a notification comes later than what it reports; None if it does not."""
    missed = notification.state is AlertState.RESOLVED and not notification.previously_notified
    if notification.late_ms is not None:
        return f"{'fired and resolved unnoticed, ' if missed else ''}{late_text(notification.late_ms)}"
    return f"fired and resolved before {service} could be notified" if missed else None
