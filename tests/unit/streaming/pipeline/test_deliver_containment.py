"""One cluster's output rows that cannot be used are skipped; errors of the disk end the batch."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.errors import StoreError
from connectors.sinks.jsonl import JsonlSink
from connectors.store.alert_codec import ALERT
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from rules.model.identifiers import Millis
from streaming.metrics.batch_stats import DeliveredBatch
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.output_rows import OutputKind, OutputRow, quarantined_row
from streaming.replay.cluster_monitor import RefusedRow
from streaming.status.status_store import StatusStore
from tests.unit.connectors.sinks.sink_alerts import alert

FIELDS = ("kind", "cluster", "name", "body")


def row(*values: str) -> Row:
    return Row(**dict(zip(FIELDS, values, strict=True)))


class Batch:
    """Stands for Spark's DataFrame of one batch."""

    def __init__(self, *rows: Row) -> None:
        self.rows = list(rows)

    def collect(self) -> list[Row]:
        return self.rows


def refused(cluster: str, ordinal: int = 0) -> OutputRow:
    row = RefusedRow(sequence=1, observed_at_ms=Millis(1), ordinal=ordinal, offset=None, reason="r")
    return quarantined_row(cluster, row)


@pytest.fixture
def deliver(tmp_path: Path) -> Iterator[Deliver]:
    ledger = Ledger(job_database(tmp_path))
    dispatcher = Dispatcher(ledger, [JsonlSink(tmp_path / "alerts.jsonl")], deadline_s=60)

    def unreachable(_cluster: str, _due: Millis) -> None:
        raise BrokenPipeError

    quarantine = quarantine_of(job_database(tmp_path))
    yield Deliver(lambda: dispatcher, ledger, quarantine, store=StatusStore(["prod"]), request_poll=unreachable)


def test_rows_that_cannot_be_used_are_skipped_and_the_others_delivered(
    deliver: Deliver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = [
        row(OutputKind.STATUS, "liar", "", '{"secret": "hunter2"}'),
        row(OutputKind.ALERT, "liar", "f", '{"secret": "hunter2"}'),
        row(OutputKind.DUE, "liar", "", "hunter2"),
        row(OutputKind.DUE, "liar", "", "5"),
    ]
    good = row(OutputKind.ALERT, "prod", "f", ALERT.dump_json(alert()).decode())
    with caplog.at_level(logging.ERROR):
        deliver(Batch(*bad, good), 0)  # type: ignore[arg-type]

    assert len((tmp_path / "alerts.jsonl").read_text().splitlines()) == 1
    assert [record.args[0] for record in caplog.records if record.args] == ["status", "alert", "due", "due"]  # type: ignore[index]
    assert "hunter2" not in caplog.text


def test_quarantined_rows_of_two_clusters_with_the_same_sequence_are_both_kept(
    deliver: Deliver, tmp_path: Path
) -> None:
    deliver(Batch(*(row(*refused(cluster)) for cluster in ("prod", "test"))), 0)  # type: ignore[arg-type]

    kept = quarantine_of(job_database(tmp_path)).items().values()
    assert [(one["cluster"], one["sequence"]) for one in kept] == [("prod", 1), ("test", 1)]


def test_quarantined_rows_are_counted_by_cluster(tmp_path: Path) -> None:
    batches: list[DeliveredBatch] = []
    ledger = Ledger(job_database(tmp_path))
    counting = Deliver(
        lambda: Dispatcher(ledger, []),
        ledger,
        quarantine_of(job_database(tmp_path)),
        store=StatusStore(["prod", "test"]),
        request_poll=lambda *_: None,
        on_batch=batches.append,
    )
    rows = (("prod", 0), ("prod", 1), ("test", 0))
    counting(Batch(*(row(*refused(cluster, ordinal)) for cluster, ordinal in rows)), 0)  # type: ignore[arg-type]

    assert [each.quarantined for each in batches] == [{"prod": 2, "test": 1}]


def test_a_quarantine_that_cannot_be_written_ends_the_batch(deliver: Deliver, tmp_path: Path) -> None:
    # The ledger has opened the file; the quarantine has not.
    (tmp_path / "kraftwatch.db").unlink()
    (tmp_path / "kraftwatch.db").mkdir()
    with pytest.raises(StoreError, match=r"kraftwatch\.db cannot be used"):
        deliver(Batch(row(*refused("prod"))), 0)  # type: ignore[arg-type]
