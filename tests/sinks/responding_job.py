"""What notifies in a job, with the ledger in a folder, sinks, and what people do in their services."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from connectors.delivery.ledger import Ledger
from connectors.process.wall_clock import wall_ms
from connectors.sinks.sink import Sink
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.collection import ServiceSilenceStore, SilenceStore
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.firing import Firing
from streaming.config import Config
from streaming.job.active_silences import ActiveHolds, ActiveSilences
from streaming.job.responses import SinkResponses
from streaming.pipeline.notifying import Notifying
from streaming.status.status_store import StatusStore
from tests.eventually import eventually
from tests.unit.connectors.sinks.sink_alerts import alert
from tests.unit.streaming.job.running_configuration import running_with

_CONFIG = Config.model_validate({"clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}]})


class RespondingJob:
    """One job of one cluster."""

    def __init__(self, folder: Path, open_sinks: Callable[[], Sequence[Sink]]) -> None:
        database = job_database(folder)
        self.sinks = open_sinks()
        self.acknowledgements, self.silences = AcknowledgementStore(database), SilenceStore(database)
        self.active = ActiveSilences(
            stored=self.silences, in_services=ServiceSilenceStore(database), running=running_with(_CONFIG)
        )
        self.notifying = Notifying(
            Ledger(database),
            self.sinks,
            store=StatusStore(["prod"]),
            holds=ActiveHolds(silences=self.active, acknowledgements=self.acknowledgements),
            patience_s=10,
        )
        self.responses = SinkResponses(self.notifying, self.acknowledgements, self.active)

    def fire(self, *alerts: Alert) -> None:
        """These alerts fire, and no others."""
        self.notifying.put(Firing(cluster="prod", evaluated_ms=wall_ms(), alerts=alerts))
        self.notifying.send()

    def stop(self) -> None:
        """Follows the sinks no longer; returns once their threads have ended."""
        self.responses.stop()

        def ended() -> None:
            assert [one.name for one in threading.enumerate() if one.name.startswith("follow ")] == []

        eventually(ended, within_s=30)

    def acknowledged(self) -> list[str]:
        """Returns by whom alerts are acknowledged."""
        return [one.by for one in self.acknowledgements.read() if one.active(wall_ms())]


def lagging(node: int = 2, severity: Severity = Severity.WARNING) -> Alert:
    """Returns an alert that fires from now on."""
    now_ms = wall_ms()
    return alert(
        f"voter {node}",
        rule="voter-lagging",
        cluster="prod",
        severity=severity,
        started_at_ms=now_ms,
        observed_at_ms=now_ms,
        due_at_ms=now_ms,
    )
