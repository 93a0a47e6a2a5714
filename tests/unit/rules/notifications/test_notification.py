"""What a notice says of its incident as a whole."""

from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice, NotifyReason, each
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

CAUSE = alert("voter 1", rule="stale-voter-endpoint", severity=Severity.WARNING, started_at_ms=NOON_MS + 5_000)
WORST = alert("quorum", rule="failure-tolerance", severity=Severity.CRITICAL)
WORST_IS_OVER = alert("quorum", rule="failure-tolerance", severity=Severity.CRITICAL, resolved=True)
CAUSE_IS_OVER = alert("voter 1", rule="stale-voter-endpoint", severity=Severity.WARNING, resolved=True)


def told(*alerts: Alert) -> Notice:
    return Notice(incident="1n", reason=NotifyReason.CHANGED, alerts=alerts, news=())


def test_it_is_as_bad_as_the_worst_that_fires() -> None:
    notice = told(CAUSE, WORST)
    assert (notice.root, notice.severity, notice.state) == (CAUSE, Severity.CRITICAL, AlertState.FIRING)
    assert notice.firing == (CAUSE, WORST)


def test_what_is_over_does_not_count_while_another_one_fires() -> None:
    notice = told(CAUSE, WORST_IS_OVER)
    assert (notice.severity, notice.state, notice.firing) == (Severity.WARNING, AlertState.FIRING, (CAUSE,))


def test_once_it_is_over_it_was_as_bad_as_its_worst() -> None:
    notice = told(CAUSE_IS_OVER, WORST_IS_OVER)
    assert (notice.severity, notice.state, notice.firing) == (Severity.CRITICAL, AlertState.RESOLVED, ())


def test_it_began_with_the_first_of_its_alerts_whichever_stands_first() -> None:
    assert told(CAUSE, WORST).started_at_ms == Millis(NOON_MS)


def test_a_record_is_told_each_transition_by_itself() -> None:
    begun, over = each(WORST), each(WORST_IS_OVER)
    assert (begun.reason, begun.alerts, begun.news) == (NotifyReason.FIRING, (WORST,), (WORST,))
    assert (over.reason, over.alerts, over.news) == (NotifyReason.RESOLVED, (WORST_IS_OVER,), (WORST_IS_OVER,))
    assert begun.incident == over.incident == WORST.fingerprint
