"""State, severity and start of a notification."""

import pytest

from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

CAUSE = alert("voter 1", rule="stale-voter-endpoint", severity=Severity.WARNING, started_at_ms=NOON_MS + 5_000)
WORST = alert("quorum", rule="failure-tolerance", severity=Severity.CRITICAL)
WORST_RESOLVED = alert("quorum", rule="failure-tolerance", severity=Severity.CRITICAL, resolved=True)
CAUSE_RESOLVED = alert("voter 1", rule="stale-voter-endpoint", severity=Severity.WARNING, resolved=True)


def notification_of(*alerts: Alert) -> Notification:
    return Notification(incident="1n", reason=NotifyReason.CHANGED, alerts=alerts, new_transitions=())


@pytest.mark.parametrize(
    ("alerts", "severity", "firing"),
    [
        ((CAUSE, WORST), Severity.CRITICAL, (CAUSE, WORST)),
        ((CAUSE, WORST_RESOLVED), Severity.WARNING, (CAUSE,)),
        ((CAUSE_RESOLVED, WORST_RESOLVED), Severity.CRITICAL, ()),
    ],
    ids=["all fire", "one resolved", "all resolved"],
)
def test_the_severity_is_the_worst_of_the_firing_alerts_and_when_none_fires_of_all(
    alerts: tuple[Alert, ...], severity: Severity, firing: tuple[Alert, ...]
) -> None:
    notification = notification_of(*alerts)
    state = AlertState.FIRING if firing else AlertState.RESOLVED
    assert (notification.severity, notification.firing, notification.state) == (severity, firing, state)


def test_the_start_is_that_of_the_earliest_alert() -> None:
    assert notification_of(CAUSE, WORST).started_at_ms == Millis(NOON_MS)


def test_a_resolved_notification_says_what_is_true_since_its_last_alert_resolved() -> None:
    """The text of an alert that resolved before describes the quorum of that moment."""
    earlier = alert("quorum", rule="failure-tolerance", resolved=True, summary="4 of 5 voters are in sync.")
    later = alert(
        "voter 1", resolved=True, summary="Voter 1 is in sync.", observed_at_ms=Millis(earlier.observed_at_ms + 7_000)
    )

    notification = notification_of(earlier, later)

    assert (notification.root, notification.summary) == (earlier, "Voter 1 is in sync.")
    assert notification.lasted_ms == later.observed_at_ms - NOON_MS
