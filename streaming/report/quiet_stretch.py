"""A stretch of quiet rows in a back-test: only the last ones are applied, if the result is the same.

The rows of the last minute bring the state to where all rows would have brought it: its windows are not longer. If that
makes no alert and changes no tracked condition, then no row of the stretch did, because all of them repeated that the
cluster is healthy, and an age that has passed its threshold stays above it. Otherwise the caller applies every row.
"""

from collections import deque
from typing import Final

from connectors.observation import Observation
from rules.lifecycle import TrackedConditions
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.poll_history import WINDOW_MS
from streaming.status.as_of import decoded_row

CALM_MS: Final = 90_000
"""How long a cluster must have been quiet before rows are left out: longer than the windows of the state."""
LONGEST_MS: Final = 3_600_000
"""A longer stretch is divided, so that few rows are applied again where something happened by time alone."""
_APPLIED_MS: Final = WINDOW_MS + 15_000
"""The rows of this time are applied at the end of a stretch."""
_EVALUATED_MS: Final = 12_000
"""The rules are evaluated after the rows of this time: by then every source has answered again."""


class QuietStretch:
    """Holds the newest rows of a stretch."""

    def __init__(self, blob: bytes, *, first: int, tracked: TrackedConditions) -> None:
        """Begins a stretch.

        Args:
            blob: the stored form of the monitor before it.
            first: the sequence of its first row.
            tracked: the tracked conditions before it.
        """
        self.blob = blob
        self.first = first
        self._tracked = tracked
        self._rows: deque[Observation] = deque()
        self._began_ms: int | None = None

    @property
    def newest_ms(self) -> Millis:
        """Time of its newest row; 0 without one."""
        return Millis(self._rows[-1].observed_at_ms if self._rows else 0)

    def add(self, row: Observation) -> bool:
        """Adds a quiet row; returns False if the stretch is long enough and must end before it."""
        at_ms, rows = row.observed_at_ms, self._rows
        if self._began_ms is None:
            self._began_ms = at_ms
        if at_ms - self._began_ms > LONGEST_MS:
            return False
        rows.append(row)
        while at_ms - rows[0].observed_at_ms > _APPLIED_MS:
            rows.popleft()
        return True

    def settled(self, monitor: ClusterMonitor) -> bytes | None:
        """Applies the last rows to the monitor; returns its stored form, or None if every row must be applied."""
        if not self._rows:
            return self.blob
        evaluated_from_ms = self.newest_ms - _EVALUATED_MS
        try:
            for row in self._rows:
                decoded = decoded_row(row)
                if row.observed_at_ms >= evaluated_from_ms:
                    if monitor.observe([decoded]):
                        return None
                else:
                    monitor.machine.apply(
                        decoded.events, sequence=decoded.sequence, observed_at_ms=decoded.observed_at_ms
                    )
            return monitor.to_bytes() if _states(monitor.tracked) == _states(self._tracked) else None
        except (MemoryError, OSError):
            raise
        except Exception:  # noqa: BLE001 - every row is applied then, each one contained
            return None


def _states(tracked: TrackedConditions) -> dict[str, tuple[object, ...]]:
    """Returns what of the conditions decides about alerts."""
    return {
        key: (one.started_at_ms, one.notified_severity, one.clearing_since_ms, one.milder_since_ms)
        for key, one in tracked.conditions.items()
    }
