"""The recorded observations of `tests/data/recordings`, and a checkpoint of a job that monitored two clusters."""

import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from connectors.delivery.ledger import Ledger
from connectors.observations.observation import Observation
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.model.identifiers import Millis
from streaming.demo.recorded_incident import row_of
from streaming.pipeline.checkpoint import Checkpoint
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import DecodedRow, decode_observation

_FOLDER = Path(__file__).parent / "data" / "recordings"
_ROWS_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedJournal:
    """The rows of some clusters, and the configuration of the job that monitored them."""

    name: str
    cluster_ids: Mapping[str, str]
    bootstrap: tuple[str, ...]
    thresholds: Mapping[str, Thresholds]

    def observations(self) -> Sequence[Observation]:
        """Returns the rows in their order, with sequence numbers from 0 on."""
        return recorded(self.name)

    def rows(self, cluster: str) -> Sequence[DecodedRow]:
        """Returns the decoded rows of one cluster."""
        return [decoded(row) for row in self.observations() if row.cluster == cluster]

    def monitor(
        self,
        cluster: str,
        *,
        kind: type[ClusterMonitor] = ClusterMonitor,
        thresholds: Mapping[str, Thresholds] | None = None,
    ) -> ClusterMonitor:
        """Returns a new monitor of one cluster."""
        return kind(
            ClusterSettings(
                name=cluster,
                cluster_id=self.cluster_ids[cluster],
                bootstrap=self.bootstrap,
                thresholds=self.thresholds if thresholds is None else thresholds,
            )
        )


TWO_CLUSTERS = RecordedJournal(
    name="two-clusters",
    cluster_ids={"prod": "prod-cluster-id-000000", "staging": "staging-cluster-id-000"},
    bootstrap=tuple(f"c{node}.kafka.example:9093" for node in (1, 2, 3)),
    thresholds=thresholds_for(
        {
            "failure-tolerance.hold": 20,
            "broker-fenced.hold": 10,
            "voter-lagging.hold": 10,
            "unclean-election.hold": 0,
            "views-disagree.hold": 5,
        }
    ),
)
BROKER_RESTART = RecordedJournal(
    name="broker-restart",
    cluster_ids={"lab": "CnSk_ZxlQAy-mqSyAw8tSQ"},
    bootstrap=("127.0.0.1:21480", "127.0.0.1:28837", "127.0.0.1:31584"),
    thresholds=thresholds_for({"broker-fenced.hold": 5, "failure-tolerance.hold": 5, "voter-lagging.hold": 5}),
)


@cache
def recorded(name: str) -> Sequence[Observation]:
    """Returns the rows of a file of `tests/data/recordings`, with sequence numbers from 0 on."""
    lines = lzma.decompress((_FOLDER / f"{name}.jsonl.xz").read_bytes()).splitlines()
    return tuple(row_of(line, sequence) for sequence, line in enumerate(lines))


def decoded(row: Observation) -> DecodedRow:
    """Returns a row with its events."""
    return DecodedRow(row.sequence, Millis(row.observed_at_ms), tuple(decode_observation(row).events()))


@cache
def _alerts() -> Sequence[Alert]:
    monitors = {cluster: TWO_CLUSTERS.monitor(cluster) for cluster in TWO_CLUSTERS.cluster_ids}
    rows = TWO_CLUSTERS.observations()
    return tuple(alert for row in rows for alert in monitors[row.cluster].apply([decoded(row)]).alerts)


def recorded_checkpoint(folder: Path) -> Checkpoint:
    """Writes the checkpoint of a job that monitored TWO_CLUSTERS, without Spark's files."""
    checkpoint = Checkpoint(folder=folder)
    with JournalWriter(checkpoint.journal) as writer:
        rows = TWO_CLUSTERS.observations()
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            writer.append(rows[first : first + _ROWS_AT_ONCE])
            writer.publish()
    ledger = Ledger(job_database(checkpoint.folder))
    for alert in _alerts():
        ledger.record([alert], alert.observed_at_ms)
    checkpoint.record_cluster_ids(TWO_CLUSTERS.cluster_ids)
    return checkpoint
