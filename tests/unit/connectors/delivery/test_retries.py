"""When a sink that failed is called again, and with which document."""

from connectors.delivery.retries import RetrySchedule, SetAside
from connectors.sinks.sink import Rejected, Retry
from rules.model.identifiers import Millis
from rules.notifications.notification import single_alert_notification
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

ONE = single_alert_notification(alert("one"))
RETRY = Retry(reason="HTTP 500")


def after(seconds: float) -> Millis:
    return Millis(NOON_MS + round(seconds * 1_000))


def test_a_new_alert_waits_for_ten_seconds_at_most_or_as_the_service_asks_but_a_quarter_of_an_hour_at_most() -> None:
    schedule = RetrySchedule()
    assert [schedule.failed(asked_s, NOON_MS) for asked_s in (0, 0, 0, 0, 0, 30, 7_200)] == [1, 2, 4, 8, 10, 30, 900]


def test_a_notification_that_failed_twice_while_the_sink_works_is_sent_as_a_minimal_document() -> None:
    aside = SetAside(ordered=False)
    evidence = []
    for _ in range(3):
        evidence.append(aside.document(ONE).root.evidence)
        aside.add([(ONE, RETRY)], sink_works=True, now_ms=NOON_MS)
    assert evidence == [ONE.root.evidence, ONE.root.evidence, {}]


def test_a_document_that_was_rejected_once_is_never_sent_whole_again() -> None:
    aside = SetAside(ordered=False)
    for outcome in (Rejected(reason="too long"), RETRY):
        aside.add([(ONE, outcome)], sink_works=False, now_ms=NOON_MS)
    assert aside.document(ONE).root.evidence == {}


def test_of_an_alert_whose_transitions_failed_only_the_oldest_is_sent_again() -> None:
    aside = SetAside(ordered=True)
    ended = single_alert_notification(alert("one", resolved=True))
    aside.add([(ONE, RETRY), (ended, RETRY)], sink_works=True, now_ms=NOON_MS)
    assert aside.due([ONE, ended], after(1)) == [ONE]
