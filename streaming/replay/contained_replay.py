"""Contained replay: a row that cannot be applied or evaluated is skipped and reported; the other rows are applied.

The unit is the row. After a row that raises, the state is exactly what it was before the row, except the recorded
violation and the time; so the result does not depend on how the rows are batched. Nothing is done beyond
`ClusterMonitor.observe` until something raises. Then the rows are halved until the ones that raise stand alone: each of
them costs a logarithm of the rows, and the state is restored from its newest blob before every part.

A state that cannot be stored (`to_bytes` raises) is found in the same way; the row that brought it about is skipped.
An OSError concerns the disk with the pages of the state, never a row: it is raised.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rules.alert import Alert
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.contract_violations import APPLIES
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.failure_reason import failure_reason
from streaming.replay.observed_events import event_count, first_offset

RestoreMonitor = Callable[[bytes | None], ClusterMonitor]
"""Returns the monitor of a stored state; a new one for None."""
_Attempt = Callable[[ClusterMonitor, DecodedRow, str], tuple[Alert, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRow:
    """A row that could not be applied or evaluated."""

    sequence: int
    observed_at_ms: Millis
    ordinal: int
    """The number of its events: no event of the row has this ordinal."""
    offset: int | None
    """Of the first record in it, if it holds records."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainedResult:
    """The monitor after all rows, its stored form, the alerts in order, and the rows that failed."""

    monitor: ClusterMonitor
    blob: bytes
    alerts: tuple[Alert, ...] = ()
    failed: tuple[FailedRow, ...] = ()


def observe_contained(
    monitor: ClusterMonitor, blob: bytes | None, rows: Sequence[DecodedRow], restore: RestoreMonitor
) -> ContainedResult:
    """Observes each row; a row that raises an exception is skipped and reported.

    Args:
        monitor: is changed, and must not be used again: use the result's.
        blob: the stored form of `monitor`; None if it is new.
        rows: at least one, ordered by sequence number.
        restore: returns a monitor for a stored form.
    """
    try:
        alerts = monitor.observe(rows)
        return ContainedResult(monitor=monitor, blob=monitor.to_bytes(), alerts=alerts)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a row raises concerns this cluster only
        reason = failure_reason(error)
    if len(rows) == 1:
        return _observe_failed(blob, rows[0], reason, restore)
    middle = len(rows) // 2
    first = observe_contained(restore(blob), blob, rows[:middle], restore)
    second = observe_contained(first.monitor, first.blob, rows[middle:], restore)
    return ContainedResult(
        monitor=second.monitor,
        blob=second.blob,
        alerts=first.alerts + second.alerts,
        failed=first.failed + second.failed,
    )


def _observe_failed(blob: bytes | None, row: DecodedRow, reason: str, restore: RestoreMonitor) -> ContainedResult:
    """Returns the result of a row that raised: the first of these attempts that works.

    1. The row is skipped. 2. If the state before it cannot be evaluated either, the row is not the cause: it is
    applied, and only the violated contracts are evaluated. 3. The row is skipped, and only the contracts are evaluated.
    4. The state stays, and only the row's sequence counts.
    """
    failed = failed_row(row, f"could not be applied: {reason}")
    attempts: tuple[_Attempt, ...] = (ClusterMonitor.skip, _apply_unevaluated, _skip_unevaluated)
    for attempt in attempts:
        monitor = restore(blob)
        try:
            alerts = attempt(monitor, row, failed.reason)
            return ContainedResult(monitor=monitor, blob=monitor.to_bytes(), alerts=alerts, failed=(failed,))
        except (MemoryError, OSError):
            raise
        except Exception:  # noqa: BLE001, S112 - the next attempt asks less of the state
            continue
    monitor = restore(blob)
    monitor.machine.sequence = max(row.sequence, monitor.machine.sequence)
    return ContainedResult(monitor=monitor, blob=monitor.to_bytes(), failed=(failed,))


def failed_row(row: DecodedRow, reason: str) -> FailedRow:
    """Returns a row that failed, with the reason."""
    return FailedRow(
        sequence=row.sequence,
        observed_at_ms=row.observed_at_ms,
        ordinal=event_count(row.events),
        offset=first_offset(row.events),
        reason=reason,
    )


def _apply_unevaluated(monitor: ClusterMonitor, row: DecodedRow, reason: str) -> tuple[Alert, ...]:
    monitor.machine.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms)
    monitor.machine.record_failure(APPLIES, reason)
    return monitor.advance_unevaluated(reason)


def _skip_unevaluated(monitor: ClusterMonitor, row: DecodedRow, reason: str) -> tuple[Alert, ...]:
    monitor.machine.skip(sequence=row.sequence, observed_at_ms=row.observed_at_ms, reason=reason)
    return monitor.advance_unevaluated(reason)
