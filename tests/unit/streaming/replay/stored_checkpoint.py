"""The checkpoint of commit fae3086 that `tests/data/checkpoint/README.md` describes, and how its alerts compare."""

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from connectors.decode_observation import decode_observation
from connectors.journal.reader import JournalReader
from connectors.observation import Observation
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from streaming.pipeline.checkpoint import Checkpoint
from streaming.replay.cluster_monitor import ClusterMonitor, DecodedRow

WRITTEN = Path(__file__).parents[3] / "data" / "checkpoint" / "every-stored-format.tar.xz"
CLUSTER_IDS = {"prod": "prod-cluster-id-000000", "staging": "staging-cluster-id-000"}
THRESHOLDS = thresholds_for(
    {
        "failure-tolerance.hold": 20,
        "broker-fenced.hold": 10,
        "voter-lagging.hold": 10,
        "unclean-election.hold": 0,
        "views-disagree.hold": 5,
    }
)
FIRST_MS = 1_795_150_000_000
"""`observed_at_ms` of the journal's first row."""
SLACK, JSONL, WEBHOOK = "slack:#kafka", "jsonl:alerts.jsonl", "webhook:127.0.0.1:1"
AlertFacts: TypeAlias = list[str | int]
"""Cluster, rule, subject, severity, state, start, observation time (both since FIRST_MS), fingerprint."""


def unpacked(folder: Path) -> Checkpoint:
    with tarfile.open(WRITTEN) as packed:
        packed.extractall(folder, filter="data")
    return Checkpoint(folder=folder)


def expected(checkpoint: Checkpoint) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((checkpoint.folder / "expected.json").read_text())
    return document


def observations(checkpoint: Checkpoint) -> Sequence[Observation]:
    journal = JournalReader(checkpoint.journal)
    return list(journal.read(journal.first_sequence(), journal.published_end()))


def rows(stored: Sequence[Observation], cluster: str) -> Sequence[DecodedRow]:
    return [
        DecodedRow(row.sequence, Millis(row.observed_at_ms), tuple(decode_observation(row).events()))
        for row in stored
        if row.cluster == cluster
    ]


def monitor(cluster: str, blob: bytes | None) -> ClusterMonitor:
    return ClusterMonitor.from_bytes(
        blob,
        cluster=cluster,
        cluster_id=CLUSTER_IDS[cluster],
        bootstrap=tuple(f"c{node}.kafka.example:9093" for node in (1, 2, 3)),
        vantage=Vantage.INSIDE,
        thresholds=THRESHOLDS,
    )


def restored(checkpoint: Checkpoint, cluster: str) -> ClusterMonitor:
    return monitor(cluster, (checkpoint.folder / f"state-{cluster}.bin").read_bytes())


def facts(alert: Alert) -> AlertFacts:
    return [
        alert.cluster,
        alert.rule,
        alert.subject,
        alert.severity.value,
        alert.state.value,
        alert.started_at_ms - FIRST_MS,
        alert.observed_at_ms - FIRST_MS,
        alert.fingerprint,
    ]
