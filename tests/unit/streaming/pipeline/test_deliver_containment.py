"""One cluster's output rows that cannot be used are skipped; errors of the disk end the batch."""

import logging
from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.ledger import Ledger
from connectors.errors import StoreError
from connectors.sinks.jsonl import JsonlSink
from connectors.store.collection import quarantine_of
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.firing import Firing
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.output_rows import OutputKind
from streaming.status.status_store import StatusStore
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.streaming.pipeline.delivering_job import batch, firing_row, refused


@pytest.fixture
def delivered() -> list[Any]:
    return []


@pytest.fixture
def deliver(tmp_path: Path, delivered: list[Any]) -> Deliver:
    ledger = Ledger(job_database(tmp_path))
    sink = JsonlSink(tmp_path / "alerts.jsonl")

    quarantine = quarantine_of(job_database(tmp_path))
    store = StatusStore(["alpha", "prod", "test"])
    notifying = Notifying(ledger, [sink], store=store, deadline_s=60)
    return Deliver(notifying, quarantine, store=store, on_batch=delivered.append)


def test_rows_that_cannot_be_used_are_skipped_and_the_others_delivered(
    deliver: Deliver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = Firing(cluster="alpha", evaluated_ms=NOON_MS, alerts=(alert(),))
    bodies = {OutputKind.STATUS: '{"secret": "hunter2"}', OutputKind.FIRING: '{"secret": "hunter2"}'}
    bad = [(kind, "liar", "f", bodies.get(kind, "hunter2")) for kind in (*bodies, OutputKind.EVALUATED)]
    with caplog.at_level(logging.ERROR):
        deliver(batch(*bad, (OutputKind.EVALUATED, "liar", "", "5"), firing_row(found)), 0)

    assert len((tmp_path / "alerts.jsonl").read_text().splitlines()) == 1
    skipped = [record.args[0] for record in caplog.records if isinstance(record.args, tuple)]
    assert skipped == ["status", "firing", "evaluated", "evaluated"]
    assert "hunter2" not in caplog.text


def test_quarantined_rows_are_kept_and_counted_by_cluster(
    deliver: Deliver, delivered: list[Any], tmp_path: Path
) -> None:
    deliver(batch(refused("prod"), refused("prod", 1), refused("test")), 0)

    kept = quarantine_of(job_database(tmp_path)).items().values()
    assert [(one["cluster"], one["sequence"]) for one in kept] == [("prod", 1), ("prod", 1), ("test", 1)]
    assert [each.quarantined for each in delivered] == [{"prod": 2, "test": 1}]


def test_a_damaged_quarantine_ends_the_batch(deliver: Deliver, tmp_path: Path) -> None:
    # The ledger has opened the file; the quarantine has not.
    (tmp_path / "kraftwatch.db").write_bytes(b"damaged" * 1_000)
    with pytest.raises(StoreError, match=r"kraftwatch\.db cannot be used: file is not a database"):
        deliver(batch(refused("prod")), 0)


def test_rows_that_the_disk_does_not_take_now_are_put_in_the_quarantine_with_the_next(
    deliver: Deliver, delivered: list[Any], tmp_path: Path
) -> None:
    file, kept = tmp_path / "kraftwatch.db", tmp_path / "kept"
    file.rename(kept)
    file.mkdir()
    deliver(batch(refused("prod")), 0)
    assert len(delivered) == 1

    file.rmdir()
    kept.rename(file)
    deliver(batch(refused("test")), 1)
    assert [one["cluster"] for one in quarantine_of(job_database(tmp_path)).items().values()] == ["prod", "test"]


def test_of_the_rows_that_the_disk_does_not_take_the_first_are_kept(
    deliver: Deliver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.pipeline.deliver.MOST_QUARANTINED", 3)
    file, kept = tmp_path / "kraftwatch.db", tmp_path / "kept"
    file.rename(kept)
    file.mkdir()
    for ordinal in range(10):
        deliver(batch(refused("prod", ordinal)), ordinal)

    file.rmdir()
    kept.rename(file)
    deliver(batch(refused("test")), 10)
    assert [*quarantine_of(job_database(tmp_path)).items()] == ["prod-1-0", "prod-1-1", "prod-1-2", "test-1-0"]


def test_snapshots_that_the_journal_cannot_store_end_no_batch(
    deliver: Deliver, delivered: list[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deliver._journal = JournalReader(tmp_path / "journal")
    row = (OutputKind.SNAPSHOT, "prod", "7 1800000000000", "c3RhdGU=")
    with caplog.at_level(logging.WARNING):
        deliver(batch(row), 0)

    (logged,) = caplog.messages
    assert logged.startswith("the snapshots of 1 cluster are lost: ")
    assert logged.endswith("cannot be used: unable to open database file; fix the cause and try again")
    assert len(delivered) == 1

    with JournalWriter(tmp_path / "journal"):
        deliver(batch(row), 1)
    (kept,) = JournalReader(tmp_path / "journal").snapshots("prod")
    assert (kept.sequence, kept.observed_at_ms, kept.state) == (7, 1_800_000_000_000, b"state")
