"""A ledger and its dispatcher, to which a test gives the transitions that are recorded and sent."""

from collections.abc import Callable, Sequence

from connectors.delivery.delivery_report import DeliveryReport
from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import Sink
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.route import Hold


class RecordingDispatcher:
    """Records and sends."""

    def __init__(
        self,
        ledger: Ledger,
        sinks: Sequence[Sink],
        *,
        silences: Callable[[Millis], Sequence[Hold]] = lambda _: (),
        deadline_s: float = 60,
        patience_s: float = 60,
    ) -> None:
        self.ledger, self._silences = ledger, silences
        self.dispatcher = Dispatcher(ledger, sinks, deadline_s=deadline_s, patience_s=patience_s)

    def deliver(self, alerts: Sequence[Alert], now_ms: Millis) -> DeliveryReport:
        recorded = len(self.ledger.record(alerts, now_ms))
        return DeliveryReport(recorded=recorded, sinks=self.dispatcher.deliver(now_ms, self._silences(now_ms)))
