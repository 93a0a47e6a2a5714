"""State, severity and start of a notification."""

from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason, single_alert_notification
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

CAUSE = alert("voter 1", rule="stale-voter-endpoint", severity=Severity.WARNING, started_at_ms=NOON_MS + 5_000)
WORST = alert("quorum", rule="failure-tolerance", severity=Severity.CRITICAL)
WORST_RESOLVED = alert("quorum", rule="failure-tolerance", severity=Severity.CRITICAL, resolved=True)
CAUSE_RESOLVED = alert("voter 1", rule="stale-voter-endpoint", severity=Severity.WARNING, resolved=True)


def notification_of(*alerts: Alert) -> Notification:
    return Notification(incident="1n", reason=NotifyReason.CHANGED, alerts=alerts, new_transitions=())


def test_the_severity_is_the_worst_of_the_firing_alerts() -> None:
    notification = notification_of(CAUSE, WORST)
    assert (notification.root, notification.severity, notification.state) == (
        CAUSE,
        Severity.CRITICAL,
        AlertState.FIRING,
    )
    assert notification.firing == (CAUSE, WORST)


def test_a_resolved_alert_does_not_count_while_another_is_firing() -> None:
    notification = notification_of(CAUSE, WORST_RESOLVED)
    assert (notification.severity, notification.state, notification.firing) == (
        Severity.WARNING,
        AlertState.FIRING,
        (CAUSE,),
    )


def test_a_resolved_notification_has_the_worst_severity_of_all_alerts() -> None:
    notification = notification_of(CAUSE_RESOLVED, WORST_RESOLVED)
    assert (notification.severity, notification.state, notification.firing) == (
        Severity.CRITICAL,
        AlertState.RESOLVED,
        (),
    )


def test_the_start_is_that_of_the_earliest_alert() -> None:
    assert notification_of(CAUSE, WORST).started_at_ms == Millis(NOON_MS)


def test_a_record_gets_one_notification_per_transition() -> None:
    firing, resolved = single_alert_notification(WORST), single_alert_notification(WORST_RESOLVED)
    assert (firing.reason, firing.alerts, firing.new_transitions) == (NotifyReason.FIRING, (WORST,), (WORST,))
    assert (resolved.reason, resolved.alerts, resolved.new_transitions) == (
        NotifyReason.RESOLVED,
        (WORST_RESOLVED,),
        (WORST_RESOLVED,),
    )
    assert firing.incident == resolved.incident == WORST.fingerprint
