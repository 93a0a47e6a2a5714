"""The step: one cluster's events in, its transitions out, its state kept by Spark as one versioned blob.

Spark tells no order: rows are sorted by their place in the journal here. What was applied before is skipped by
the replay, so re-delivery changes nothing. Everything that decides anything is pure and lives in
`streaming.replay.cluster_monitor`; this module only carries it in and out of Spark.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd
from pyspark.sql.streaming.state import GroupState

from connectors.event import Event, Undecodable
from connectors.event_columns import events_of
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.lifecycle import next_due
from rules.model.identifiers import Millis
from rules.model.monitoring import PLAINTEXT, Access, Vantage
from streaming.pipeline.deliver import ALERT, ALERT_KIND, DUE_KIND, PORTRAIT_KIND, QUARANTINE_KIND
from streaming.pipeline.python_worker import settle
from streaming.pipeline.schema import OUTPUT
from streaming.replay.cluster_monitor import Row, Watch
from streaming.status.cluster_status import portrait


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What the step must know of a cluster that no observation tells."""

    cluster_id: str
    bootstrap: tuple[str, ...]
    vantage: Vantage
    access: Access = PLAINTEXT
    thresholds: Mapping[str, Thresholds] = field(default_factory=lambda: thresholds_for({}))
    """By rule id: the defaults, unless the configuration lays others over them."""


class Step:
    """The function of `applyInPandasWithState`. Pickled to the workers: holds settings only."""

    # Between batches a worker may keep what it would only decode again: the blob decides whether it is still true.
    _kept: ClassVar[dict[tuple[str, int], tuple[bytes, ClusterSettings, Watch]]] = {}

    def __init__(self, clusters: Mapping[str, ClusterSettings]) -> None:
        """`clusters` by their name in the configuration."""
        self._clusters = dict(clusters)

    def __call__(
        self, key: tuple[str, int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Apply one micro-batch of one (cluster, shard); yields rows of `schema.OUTPUT`."""
        settle()
        cluster, shard = key
        settings = self._clusters.get(cluster)
        if settings is None:
            # Rows of a cluster that is no longer watched: the journal may still hold some.
            return
        blob = bytes(state.get[0]) if state.exists else None
        watch = self._watch(cluster, shard, settings, blob)
        rows = list(_rows(pd.concat(list(frames), ignore_index=True)))
        fresh = [row for row in rows if row.sequence > watch.machine.sequence]
        alerts = watch.observe(rows)
        after = watch.to_bytes()
        state.update((after,))
        Step._kept[(cluster, shard)] = (after, settings, watch)
        output = [*_alerts(cluster, alerts), *_quarantined(cluster, fresh), *_due(cluster, watch)]
        shown = portrait(watch.machine.quorum(), watch.thresholds, watch.evaluation(), watch.book)
        output.append((PORTRAIT_KIND, cluster, "", json.dumps(shown)))
        yield pd.DataFrame(output, columns=OUTPUT.fieldNames())

    def _watch(self, cluster: str, shard: int, settings: ClusterSettings, blob: bytes | None) -> Watch:
        kept = Step._kept.pop((cluster, shard), None)
        # A worker outlives a query: the next one may come with other settings.
        if kept is not None and kept[:2] == (blob, settings):
            return kept[2]
        return Watch.of(
            blob,
            cluster=cluster,
            cluster_id=settings.cluster_id,
            bootstrap=settings.bootstrap,
            vantage=settings.vantage,
            access=settings.access,
            thresholds=settings.thresholds,
        )


def _rows(frame: pd.DataFrame) -> Iterator[Row]:
    """The frame's events, one Row an observation, in recorded order."""
    ordered = frame.sort_values(["sequence", "ordinal"], kind="stable")
    for sequence, part in ordered.groupby("sequence", sort=True):
        columns = {name: part[name].tolist() for name in part.columns}
        events: tuple[Event, ...] = tuple(events_of(columns))
        yield Row(int(sequence), Millis(int(columns["observed_at_ms"][0])), events)


def _alerts(cluster: str, alerts: Iterable[Alert]) -> Iterator[tuple[str, str, str, str]]:
    for alert in alerts:
        yield ALERT_KIND, cluster, alert.fingerprint, ALERT.dump_json(alert).decode()


def _due(cluster: str, watch: Watch) -> Iterator[tuple[str, str, str, str]]:
    """When time alone would tell something: the gatherer is asked for an observation just then."""
    due = next_due(watch.book, watch.thresholds)
    if due is not None:
        yield DUE_KIND, cluster, "", str(due)


def _quarantined(cluster: str, rows: Iterable[Row]) -> Iterator[tuple[str, str, str, str]]:
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
                yield QUARANTINE_KIND, cluster, f"{row.sequence}-{ordinal}", body
