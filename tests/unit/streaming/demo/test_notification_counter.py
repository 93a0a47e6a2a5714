"""The demo counts the notifications that a real webhook sink sends: begin, worse, end, and what nobody needed."""

from pathlib import Path

from pydantic import SecretStr

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink_config import SinkSpec, open_sink
from connectors.sinks.webhook import WebhookSection
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.demo.notification_counter import NotificationCounter, NotificationCounts, notification_counter
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert


def delivered(counter: NotificationCounter, folder: Path, *alerts: Alert) -> None:
    sink = open_sink(SinkSpec(section=WebhookSection(url=SecretStr(counter.url))), store=folder)
    dispatcher = Dispatcher(Ledger(job_database(folder)), [sink], deadline_s=60, patience_s=60)
    for each in alerts:
        dispatcher.deliver([each], each.observed_at_ms)
    # What was collected is sent.
    dispatcher.deliver([], Millis(alerts[-1].observed_at_ms + 120_000))


def observed(seconds: int, *, severity: Severity = Severity.WARNING, resolved: bool = False) -> Alert:
    return alert(severity=severity, resolved=resolved, observed_at_ms=Millis(NOON_MS + 1_000 * seconds))


def test_begin_worse_and_end_are_counted_once_each(tmp_path: Path) -> None:
    with notification_counter() as counter:
        delivered(
            counter,
            tmp_path,
            observed(5),
            observed(10, severity=Severity.CRITICAL),
            observed(60, severity=Severity.CRITICAL, resolved=True),
        )

        (incident,) = counter.incidents
        assert counter.counts([incident]) == NotificationCounts(begin=1, worse=1, end=1)
        assert str(counter.counts([incident])) == "1 / 1 / 1"
        assert counter.all_ended([incident])


def test_a_notification_that_says_nothing_worse_is_counted_apart(tmp_path: Path) -> None:
    with notification_counter() as counter:
        delivered(counter, tmp_path, observed(5, severity=Severity.CRITICAL), observed(100))

        (incident,) = counter.incidents
        assert str(counter.counts([incident])) == "1 / 0 / 0, 1 other"
        assert not counter.all_ended([incident])
