"""A checkpoint of the release before is gone on from: its state, its journal and its ledger; nothing is told twice."""

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


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    with tarfile.open(WRITTEN) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def recalled(checkpoint: Path) -> ClusterMonitor:
    return ClusterMonitor.from_bytes(
        (checkpoint / "state.bin").read_bytes(),
        cluster="lab",
        cluster_id="CnSk_ZxlQAy-mqSyAw8tSQ",
        bootstrap=("127.0.0.1:21480", "127.0.0.1:28837", "127.0.0.1:31584"),
        vantage=Vantage.INSIDE,
        thresholds=thresholds_for({"broker-fenced.hold": 5, "failure-tolerance.hold": 5, "voter-lagging.hold": 5}),
    )


def rows(checkpoint: Path) -> Iterator[DecodedRow]:
    journal = JournalReader(checkpoint / "journal")
    for row in journal.read(journal.first_sequence(), journal.published_end()):
        yield DecodedRow(row.sequence, Millis(row.observed_at_ms), tuple(decode_observation(row).events()))


def test_its_state_is_gone_on_from_and_only_what_is_new_is_told(checkpoint: Path) -> None:
    watch = recalled(checkpoint)
    assert watch.machine.sequence == 352
    assert {name for name, one in watch.machine.quorum().brokers.items() if one.fenced} == {NodeId(102)}

    # The whole journal again: re-delivery is normal.
    told = watch.observe(rows(checkpoint))

    assert [(alert.rule, alert.subject, alert.state.value) for alert in told] == [
        ("broker-fenced", "broker 102", "resolved")
    ]
    again = ClusterMonitor.from_bytes(
        watch.to_bytes(),
        cluster="lab",
        cluster_id=None,
        bootstrap=(),
        vantage=Vantage.INSIDE,
        thresholds=watch.thresholds,
    )
    assert again.observe(rows(checkpoint)) == ()


def test_what_it_did_not_keep_is_unknown_and_not_healthy(checkpoint: Path) -> None:
    watch = recalled(checkpoint)

    unknown = {(gap.rule, gap.subject): gap.why for gap in watch.evaluation().unknown}

    assert "supports are unknown until it registers again" in unknown["version-drift", None]


def test_its_ledger_still_owes_what_it_owed(checkpoint: Path) -> None:
    ledger = Ledger(checkpoint / "ledger.jsonl")
    told, owed = ledger.firing()
    assert (told.rule, owed.rule) == ("broker-fenced", "failure-tolerance")
    assert [alert.rule for alert in ledger.pending(SINK)] == ["failure-tolerance"]

    assert ledger.record((told, owed), Millis(told.observed_at_ms + 1)) == ()
    ledger.close()
    reopened = Ledger(checkpoint / "ledger.jsonl")
    assert [alert.rule for alert in reopened.pending(SINK)] == ["failure-tolerance"]
    reopened.close()
