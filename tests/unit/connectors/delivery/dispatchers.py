"""Dispatchers with sinks that hang, or whose disk is full."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import DeliveryMode, Outcome, Sink
from connectors.store import alert_store
from connectors.store.tables import job_database
from rules.notifications.notification import Notification
from tests.recording_dispatcher import RecordingDispatcher
from tests.unit.connectors.sinks.sink_alerts import RecordingSink


def dispatcher_with(path: Path, *sinks: Sink, **more: Any) -> RecordingDispatcher:
    """Returns a dispatcher that waits for its sinks, however slow the machine is, unless the test changes that."""
    return RecordingDispatcher(Ledger(job_database(path)), sinks, **{"deadline_s": 30, "patience_s": 30, **more})


class HangingSink(RecordingSink):
    """Returns when the test sets `release`."""

    def __init__(self, name: str = "hanging", mode: DeliveryMode = DeliveryMode.TRANSITIONS) -> None:
        super().__init__(name, mode)
        self.release = Event()

    def respond(self, notifications: Sequence[Notification]) -> Sequence[Outcome]:
        assert self.release.wait(30)
        return super().respond(notifications)


@contextmanager
def full_disk(ledger: Ledger) -> Iterator[None]:
    """The database of a ledger cannot become larger, and what cannot be written is tried again at once."""
    database = ledger._store._database
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alert_store, "_RETRY_S", 0.0)
        with database.transaction() as connection:
            # The size that the database has.
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
        yield
        with database.transaction() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
