"""A job whose batches a test delivers: the rows as the processor yields them, one ledger, and one sink for people."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row

from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import DeliveryMode
from connectors.store.alert_codec import FIRING
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from rules.firing import Firing
from rules.model.identifiers import Millis
from streaming.pipeline.active_role import ActiveRole
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.output_rows import OutputKind, OutputRow, quarantined_rows
from streaming.replay.cluster_monitor import RefusedRow
from streaming.status.status_store import StatusStore
from tests.unit.connectors.sinks.sink_alerts import RecordingSink

FIELDS = ("kind", "cluster", "name", "body")


def batch(*rows: OutputRow) -> Any:
    """Returns what stands for Spark's DataFrame of one batch."""
    return SimpleNamespace(collect=lambda: [Row(**dict(zip(FIELDS, each, strict=True))) for each in rows])


def firing_row(firing: Firing) -> OutputRow:
    return OutputKind.FIRING, firing.cluster, "", FIRING.dump_json(firing).decode()


def refused(cluster: str, ordinal: int = 0) -> OutputRow:
    row = RefusedRow(sequence=1, observed_at_ms=Millis(1), ordinal=ordinal, offset=None, reason="r")
    (described,) = quarantined_rows(cluster, [row])
    return described


class FakeRole(ActiveRole):
    is_active = False
    is_standby = True

    def __init__(self) -> None:
        """Has no lease."""

    def becomes_active(self) -> None:
        self.is_active, self.is_standby = True, False

    def becomes_standby(self) -> None:
        self.is_active, self.is_standby = False, True

    def is_unsure(self) -> None:
        self.is_active = self.is_standby = False


class Job:
    """One of two jobs on one ledger. Each of its waits is one call of `while_it_waits`."""

    def __init__(self, folder: Path, patience_s: float = 60) -> None:
        self.role = FakeRole()
        self.sink = RecordingSink(name="people", mode=DeliveryMode.INCIDENTS, repeat_s=None)
        self.ledger = Ledger(job_database(folder))
        self.while_it_waits: Callable[[], bool] = lambda: pytest.fail("it waits")
        store = StatusStore(["alpha", "prod"])
        self.notifying = Notifying(self.ledger, [self.sink], store=store, role=self.role, patience_s=patience_s)
        self.deliver = Deliver(
            self.notifying,
            quarantine_of(job_database(folder)),
            store=store,
            wait=lambda _: self.while_it_waits(),
        )

    def finds(self, firing: Firing) -> None:
        """Its processor has evaluated a cluster."""
        self.notifying.put(firing)
        self.notifying.send()

    def sent(self) -> list[tuple[str, str]]:
        return [(one.rule, one.state) for one in self.sink.transitions]
