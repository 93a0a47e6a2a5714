"""The demo counts the notifications that a real webhook sink sends."""

from pathlib import Path

from connectors.delivery.ledger import Ledger
from connectors.settings.secret import Secret
from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.webhook import WebhookSection
from connectors.store.tables import job_database
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.demo.notification_counter import notification_counter
from tests.recording_dispatcher import RecordingDispatcher
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert


def test_begin_change_and_end_are_counted_once_each(tmp_path: Path) -> None:
    with notification_counter() as counter:
        sink = WebhookSection(url=Secret(text=counter.url)).open(MessageLinks(), tmp_path)
        dispatcher = RecordingDispatcher(Ledger(job_database(tmp_path)), [sink], deadline_s=60, patience_s=60)
        for seconds, severity, resolved in (
            (5, Severity.WARNING, False),
            (10, Severity.CRITICAL, False),
            (60, Severity.CRITICAL, True),
        ):
            at_ms = Millis(NOON_MS + 1_000 * seconds)
            dispatcher.deliver([alert(severity=severity, resolved=resolved, observed_at_ms=at_ms)], at_ms)
        # What was collected is sent.
        dispatcher.deliver([], Millis(NOON_MS + 180_000))

        (incident,) = counter.incidents
        assert counter.counts([incident]) == {"firing": 1, "changed": 1, "resolved": 1}
