"""The step: applies one cluster's events to its state and yields alerts; Spark keeps the state as one versioned blob.

Spark guarantees no order, so rows are sorted by their sequence in the journal. The replay skips what it has already
applied, so re-delivered rows change nothing. All decisions are pure and are in `streaming.replay.cluster_monitor`;
this module passes them in and out of Spark.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd
from pyspark.sql.streaming.state import GroupState

from connectors.event import Event
from connectors.event_columns import events_from_columns
from connectors.log_event import Undecodable
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.lifecycle import next_due
from rules.model.identifiers import Millis
from rules.model.monitoring import PLAINTEXT, Access, Vantage
from streaming.pipeline.output_rows import ALERT, OutputKind
from streaming.pipeline.python_worker import freeze_imports
from streaming.pipeline.schema import OUTPUT
from streaming.replay.cluster_monitor import ClusterMonitor, DecodedRow
from streaming.status.build_status import job_cluster_status
from streaming.status.status_json import to_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What the step needs from the configuration of a cluster."""

    cluster_id: str
    bootstrap: tuple[str, ...]
    vantage: Vantage
    access: Access = PLAINTEXT
    thresholds: Mapping[str, Thresholds] = field(default_factory=lambda: thresholds_for({}))
    """By rule id: the defaults with the configured overrides."""


class Step:
    """The function of `applyInPandasWithState`. Spark pickles it to the workers: it holds settings only."""

    # A worker keeps the decoded state between batches; it is valid while the blob is the same.
    _cache: ClassVar[dict[tuple[str, int], tuple[bytes, ClusterSettings, ClusterMonitor]]] = {}

    def __init__(self, clusters: Mapping[str, ClusterSettings]) -> None:
        """`clusters`: settings by cluster name."""
        self._clusters = dict(clusters)

    def __call__(
        self, key: tuple[str, int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Applies one micro-batch of one (cluster, shard); yields rows of `schema.OUTPUT`."""
        freeze_imports()
        cluster, shard = key
        settings = self._clusters.get(cluster)
        if settings is None:
            # The journal may still hold rows of a cluster that is no longer configured.
            return
        blob = bytes(state.get[0]) if state.exists else None
        watch = self._monitor(cluster, shard, settings, blob)
        rows = list(_rows(pd.concat(list(frames), ignore_index=True)))
        fresh = [row for row in rows if row.sequence > watch.machine.sequence]
        alerts = watch.observe(rows)
        after = watch.to_bytes()
        state.update((after,))
        Step._cache[(cluster, shard)] = (after, settings, watch)
        output = [*_alerts(cluster, alerts), *_quarantined(cluster, fresh), *_due(cluster, watch)]
        status = job_cluster_status(watch.machine.quorum(), watch.thresholds, watch.evaluation(), watch.tracked)
        output.append((OutputKind.STATUS, cluster, "", to_bytes(status).decode()))
        yield pd.DataFrame(output, columns=OUTPUT.fieldNames())

    def _monitor(self, cluster: str, shard: int, settings: ClusterSettings, blob: bytes | None) -> ClusterMonitor:
        cached = Step._cache.pop((cluster, shard), None)
        # A worker outlives a query, and the next query may have other settings.
        if cached is not None and cached[:2] == (blob, settings):
            return cached[2]
        return ClusterMonitor.from_bytes(
            blob,
            cluster=cluster,
            cluster_id=settings.cluster_id,
            bootstrap=settings.bootstrap,
            vantage=settings.vantage,
            access=settings.access,
            thresholds=settings.thresholds,
        )


def _rows(frame: pd.DataFrame) -> Iterator[DecodedRow]:
    """Yields the frame's events as one DecodedRow per observation, in journal order."""
    ordered = frame.sort_values(["sequence", "ordinal"], kind="stable")
    for sequence, part in ordered.groupby("sequence", sort=True):
        columns = {name: part[name].tolist() for name in part.columns}
        events: tuple[Event, ...] = tuple(events_from_columns(columns))
        yield DecodedRow(int(sequence), Millis(int(columns["observed_at_ms"][0])), events)


def _alerts(cluster: str, alerts: Iterable[Alert]) -> Iterator[tuple[str, str, str, str]]:
    for alert in alerts:
        yield OutputKind.ALERT, cluster, alert.fingerprint, ALERT.dump_json(alert).decode()


def _due(cluster: str, watch: ClusterMonitor) -> Iterator[tuple[str, str, str, str]]:
    """Yields the time at which a hold or clear time expires: the gatherer is asked for a poll at that time."""
    due = next_due(watch.tracked, watch.thresholds)
    if due is not None:
        yield OutputKind.DUE, cluster, "", str(due)


def _quarantined(cluster: str, rows: Iterable[DecodedRow]) -> Iterator[tuple[str, str, str, str]]:
    for row in rows:
        for ordinal, event in enumerate(row.events):
            if isinstance(event, Undecodable):
                body = json.dumps(
                    {
                        "cluster": cluster,
                        "sequence": row.sequence,
                        "observed_at_ms": row.observed_at_ms,
                        "offset": event.offset,
                        "length": event.length,
                        "reason": event.reason,
                    }
                )
                yield OutputKind.QUARANTINE, cluster, f"{row.sequence}-{ordinal}", body
