"""A checkpoint of commit 3980eb8 is continued: its state, journal and ledger; no alert is sent twice."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.decode_observation import decode_observation
from connectors.delivery.ledger import Ledger
from connectors.journal.reader import JournalReader
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import Vantage
from streaming.replay.cluster_monitor import ClusterMonitor, DecodedRow

WRITTEN = Path(__file__).parents[3] / "data" / "checkpoint" / "former-release.tar.xz"
SINK = "jsonl:alerts.jsonl"


def unpacked(folder: Path) -> Path:
    with tarfile.open(WRITTEN) as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return unpacked(tmp_path)


def monitor(blob: bytes | None) -> ClusterMonitor:
    return ClusterMonitor.from_bytes(
        blob,
        cluster="lab",
        cluster_id="CnSk_ZxlQAy-mqSyAw8tSQ",
        bootstrap=("127.0.0.1:21480", "127.0.0.1:28837", "127.0.0.1:31584"),
        vantage=Vantage.INSIDE,
        thresholds=thresholds_for({"broker-fenced.hold": 5, "failure-tolerance.hold": 5, "voter-lagging.hold": 5}),
    )


def restored(checkpoint: Path) -> ClusterMonitor:
    return monitor((checkpoint / "state.bin").read_bytes())


def rows(checkpoint: Path) -> Iterator[DecodedRow]:
    journal = JournalReader(checkpoint / "journal")
    for row in journal.read(journal.first_sequence(), journal.published_end()):
        yield DecodedRow(row.sequence, Millis(row.observed_at_ms), tuple(decode_observation(row).events()))


def test_stored_state_continues_and_only_new_alerts_are_sent(checkpoint: Path) -> None:
    continued = restored(checkpoint)
    assert continued.machine.sequence == 352
    assert {name for name, one in continued.machine.quorum().brokers.items() if one.fenced} == {NodeId(102)}

    # The whole journal again: redelivery is normal.
    alerts = continued.observe(rows(checkpoint))

    assert [(alert.rule, alert.subject, alert.state.value) for alert in alerts] == [
        ("broker-fenced", "broker 102", "resolved")
    ]
    again = ClusterMonitor.from_bytes(
        continued.to_bytes(),
        cluster="lab",
        cluster_id=None,
        bootstrap=(),
        vantage=Vantage.INSIDE,
        thresholds=continued.thresholds,
    )
    assert again.observe(rows(checkpoint)) == ()


def test_facts_that_were_not_stored_are_unknown_and_not_healthy(checkpoint: Path) -> None:
    unknown = {(gap.rule, gap.subject): gap.why for gap in restored(checkpoint).evaluation().unknown}

    assert "supports are unknown until it registers again" in unknown["version-drift", None]


def test_pending_notifications_stay_pending(checkpoint: Path) -> None:
    ledger = Ledger(checkpoint / "ledger.jsonl")
    delivered, pending = ledger.firing()
    assert (delivered.rule, pending.rule) == ("broker-fenced", "failure-tolerance")
    assert [alert.rule for alert in ledger.pending(SINK)] == ["failure-tolerance"]

    assert ledger.record((delivered, pending), Millis(delivered.observed_at_ms + 1)) == ()
    ledger.close()
    reopened = Ledger(checkpoint / "ledger.jsonl")
    assert [alert.rule for alert in reopened.pending(SINK)] == ["failure-tolerance"]
    reopened.close()
