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


def test_a_resolved_notification_says_what_is_true_since_its_last_alert_resolved() -> None:
    """The text of an alert that resolved before describes the quorum of that moment."""
    earlier = alert("quorum", rule="failure-tolerance", resolved=True, summary="4 of 5 voters are in sync.")
    later = alert(
        "voter 1", resolved=True, summary="Voter 1 is in sync.", observed_at_ms=Millis(earlier.observed_at_ms + 7_000)
    )

    notification = notification_of(earlier, later)

    assert (notification.root, notification.summary) == (earlier, "Voter 1 is in sync.")
    assert notification.lasted_ms == later.observed_at_ms - NOON_MS


def test_a_firing_notification_says_what_its_root_cause_says() -> None:
    assert notification_of(CAUSE, WORST).summary == CAUSE.summary
