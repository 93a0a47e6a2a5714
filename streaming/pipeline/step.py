"""The step: applies one cluster's events to its state and yields alerts; Spark keeps the state as one versioned blob.

Spark guarantees no order, so rows are sorted by their sequence in the journal. The replay skips what it has already
applied, so re-delivered rows change nothing. All decisions are pure and are in `streaming.replay.cluster_monitor`;
this module passes them in and out of Spark.

An exception here would end the query for all clusters, and again after each restart. So whatever raises while one
cluster's rows are decoded, applied, evaluated or rendered is contained: it becomes a violated data contract of that
cluster, and the row goes into quarantine (`streaming.replay.contained_replay`). Only a state that a newer kraftwatch or
another cluster wrote is refused: nothing is lost then, and only an operator can decide.
"""

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

import pandas as pd
from pyspark.sql.streaming.state import GroupState

from connectors.errors import UsageError
from connectors.event import Event
from connectors.event_columns import events_from_columns
from connectors.log_event import Undecodable
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.lifecycle import next_due
from rules.model.identifiers import Millis
from rules.model.monitoring import PLAINTEXT, Access, ContractViolation, Vantage
from streaming.pipeline.output_rows import ALERT, OutputKind, OutputRow, quarantine_row
from streaming.pipeline.python_worker import freeze_imports
from streaming.pipeline.schema import OUTPUT
from streaming.replay.cluster_monitor import ClusterMonitor, DecodedRow, readable_conditions
from streaming.replay.contained_replay import FailedRow, failed_row, observe_contained
from streaming.replay.contract_violations import EVALUATES, READS, RENDERS
from streaming.replay.failure_reason import failure_reason
from streaming.replay.state_codec import DamagedStateError
from streaming.status.build_status import job_cluster_status
from streaming.status.status_json import to_bytes

_T = TypeVar("_T")
QUARANTINED_STATE_MAX = 64 << 20
"""Bytes of the largest damaged state that is copied into the quarantine."""


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
        rows = list(_rows(pd.concat(list(frames), ignore_index=True)))
        output: list[OutputRow] = []
        monitor = self._cached(cluster, shard, settings, blob)
        if monitor is None:
            monitor, damage = _restored(cluster, settings, blob, rows[0])
            if damage is not None:
                output.append(damage)
                blob = monitor.to_bytes()
        applied, failing_before = monitor.machine.sequence, _failing_rules(monitor)
        result = observe_contained(monitor, blob, rows, lambda stored: _monitor(cluster, settings, stored))
        monitor, after = result.monitor, result.blob
        fresh = [row for row in rows if row.sequence > applied]
        failed = (*result.failed, *_failed_rules(monitor, failing_before, rows))
        output += [*_quarantined(cluster, fresh), *(_failed_row(cluster, one) for one in failed)]
        rendered, failure = _rendered(cluster, monitor, result.alerts)
        if failure is not None:
            monitor.machine.record_failure(RENDERS, failure)
            after = monitor.to_bytes()
        state.update((after,))
        Step._cache[(cluster, shard)] = (after, settings, monitor)
        yield pd.DataFrame([*output, *rendered], columns=OUTPUT.fieldNames())

    def _cached(self, cluster: str, shard: int, settings: ClusterSettings, blob: bytes | None) -> ClusterMonitor | None:
        cached = Step._cache.pop((cluster, shard), None)
        # A worker outlives a query, and the next query may have other settings.
        return cached[2] if cached is not None and cached[:2] == (blob, settings) else None


def _monitor(cluster: str, settings: ClusterSettings, blob: bytes | None) -> ClusterMonitor:
    return ClusterMonitor.from_bytes(
        blob,
        cluster=cluster,
        cluster_id=settings.cluster_id,
        bootstrap=settings.bootstrap,
        vantage=settings.vantage,
        access=settings.access,
        thresholds=settings.thresholds,
    )


def _restored(
    cluster: str, settings: ClusterSettings, blob: bytes | None, first: DecodedRow
) -> tuple[ClusterMonitor, OutputRow | None]:
    """Returns the monitor of a stored state.

    For a damaged state: a new monitor that reports it and continues from the first row, and the state for quarantine.

    Raises:
        UsageError: the state is of a newer kraftwatch or of another cluster.
    """
    try:
        return _monitor(cluster, settings, blob), None
    except DamagedStateError as error:
        reason = str(error)
    except (UsageError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a state that cannot be read concerns this cluster only
        reason = f"the checkpoint's state of cluster {cluster} is damaged: {failure_reason(error)}"
    assert blob is not None
    monitor = _monitor(cluster, settings, None)
    monitor.tracked = readable_conditions(cluster, blob)
    violations = monitor.machine.contract_violations
    violations.failed(READS, reason, sequence=first.sequence, now_ms=first.observed_at_ms)
    return monitor, _quarantined_state(cluster, blob, reason)


def _rows(frame: pd.DataFrame) -> Iterator[DecodedRow]:
    """Yields the frame's events as one DecodedRow per observation, in journal order."""
    ordered = frame.sort_values(["sequence", "ordinal"], kind="stable")
    for sequence, part in ordered.groupby("sequence", sort=True):
        columns = {name: part[name].tolist() for name in part.columns}
        try:
            events: tuple[Event, ...] = tuple(events_from_columns(columns))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - one row's columns must not end the query for all clusters
            events = (Undecodable(offset=None, reason=f"its events cannot be read: {failure_reason(error)}", length=0),)
        yield DecodedRow(int(sequence), Millis(int(columns["observed_at_ms"][0])), events)


def _rendered(cluster: str, monitor: ClusterMonitor, alerts: Iterable[Alert]) -> tuple[list[OutputRow], str | None]:
    """Returns the rows of what can be rendered, and the reason why the rest cannot: None if all can.

    An alert that cannot be rendered is rendered without its evidence.
    """
    output: list[OutputRow] = []
    failure: str | None = None
    for alert in alerts:
        rows, reason = _contained(_alert, cluster, alert)
        if reason is not None:
            rows, _ = _contained(_alert, cluster, replace(alert, evidence={"evidence": reason}))
        output += rows
        failure = failure or reason
    for render in (_due, _status):
        rows, reason = _contained(render, cluster, monitor)
        output += rows
        failure = failure or reason
    return output, failure


def _contained(
    render: Callable[[str, _T], Iterable[OutputRow]], cluster: str, value: _T
) -> tuple[list[OutputRow], str | None]:
    """Returns the rows of a value, or none of them and the reason if it cannot be rendered."""
    try:
        return list(render(cluster, value)), None
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - what cannot be rendered must not end the query for all clusters
        return [], f"could not be rendered: {failure_reason(error)}"


def _alert(cluster: str, alert: Alert) -> Iterator[OutputRow]:
    yield OutputKind.ALERT, cluster, alert.fingerprint, ALERT.dump_json(alert).decode()


def _status(cluster: str, monitor: ClusterMonitor) -> Iterator[OutputRow]:
    quorum, evaluation = monitor.machine.quorum(), monitor.evaluation()
    status = job_cluster_status(quorum, monitor.thresholds, evaluation, monitor.tracked)
    yield OutputKind.STATUS, cluster, "", to_bytes(status).decode()


def _due(cluster: str, monitor: ClusterMonitor) -> Iterator[OutputRow]:
    """Yields the time at which a hold or clear time expires: the gatherer is asked for a poll at that time."""
    due = next_due(monitor.tracked, monitor.thresholds)
    if due is not None:
        yield OutputKind.DUE, cluster, "", str(due)


def _quarantined(cluster: str, rows: Iterable[DecodedRow]) -> Iterator[OutputRow]:
    for row in rows:
        for ordinal, event in enumerate(row.events):
            if isinstance(event, Undecodable):
                yield quarantine_row(
                    cluster,
                    f"{row.sequence}-{ordinal}",
                    sequence=row.sequence,
                    observed_at_ms=row.observed_at_ms,
                    offset=event.offset,
                    length=event.length,
                    reason=event.reason,
                )


def _failed_row(cluster: str, failed: FailedRow) -> OutputRow:
    return quarantine_row(
        cluster,
        f"{failed.sequence}-{failed.ordinal}",
        sequence=failed.sequence,
        observed_at_ms=failed.observed_at_ms,
        offset=failed.offset,
        length=0,
        reason=failed.reason,
    )


def _failing_rules(monitor: ClusterMonitor) -> ContractViolation | None:
    violations = monitor.machine.contract_violations.violations
    return next((one for one in violations if one.contract == EVALUATES), None)


def _failed_rules(
    monitor: ClusterMonitor, before: ContractViolation | None, rows: Iterable[DecodedRow]
) -> Iterator[FailedRow]:
    """Yields the row after which rules began to fail; a failure that lasts puts no more rows into quarantine."""
    now = _failing_rules(monitor)
    if now is None or (before is not None and before.example == now.example):
        return
    for row in rows:
        if row.sequence == now.sequence:
            yield failed_row(row, f"could not be evaluated: {now.example}")


def _quarantined_state(cluster: str, blob: bytes, reason: str) -> OutputRow:
    """Returns a damaged state for the quarantine: it may be the only record of what was known."""
    body = {
        "cluster": cluster,
        "reason": reason,
        "bytes": len(blob),
        "state": base64.b64encode(blob).decode() if len(blob) <= QUARANTINED_STATE_MAX else None,
    }
    return OutputKind.QUARANTINE, cluster, f"state-{zlib.crc32(blob):08x}", json.dumps(body)
