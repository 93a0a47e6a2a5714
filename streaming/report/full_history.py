"""A replay that keeps the whole history of a cluster, where a job's machine keeps the last hour."""

from collections.abc import Iterable, Mapping, Sequence

from rules.alert import Alert
from rules.evaluate import evaluate
from rules.finding import Thresholds
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from rules.model.quorum import Quorum
from streaming.replay import state_codec
from streaming.replay.cluster_monitor import DecodedRow
from streaming.replay.failure_reason import failure_reason
from streaming.replay.machine import Machine
from streaming.replay.observed_events import ObservedEvent
from streaming.status.event_history import EventHistory
from streaming.status.status_store import EndedRecovery

_ROWS_TOGETHER = 256
"""Rows between two stored forms of the state."""


class FullHistory(Machine):
    """One cluster's quorum, replayed, with all its elections, voter changes, starts and recoveries."""

    def __init__(self, cluster: str, *, thresholds: Mapping[str, Thresholds], evaluate_from_ms: Millis | None) -> None:
        """Makes a machine without observations.

        Args:
            cluster: its name in the configuration.
            thresholds: by rule id.
            evaluate_from_ms: rules are evaluated for each observation from this time on, as the job does; None: never,
                because a ledger holds the alerts.
        """
        super().__init__(cluster, None, (), Vantage.INSIDE)
        self.alerts: list[Alert] = []
        """The alert transitions of the evaluations."""
        self.began_ms: Millis | None = None
        """Time of the first observation."""
        self._thresholds = thresholds
        self._evaluate_from_ms = evaluate_from_ms
        self._tracked = TrackedConditions()
        self._events = EventHistory()
        self._stored: bytes | None = None
        self._since: list[DecodedRow] = []
        """Applied since the stored form."""

    def apply(self, events: Iterable[ObservedEvent], *, sequence: int, observed_at_ms: Millis) -> bool:
        """Applies events as the machine does, and keeps what is new in the history.

        Events that raise are skipped as a whole, as in the job.
        """
        applied = self._apply_contained(DecodedRow(sequence, observed_at_ms, tuple(events)))
        self.began_ms = self.now_ms if self.began_ms is None else self.began_ms
        self._events.add(self)
        if applied and self._evaluate_from_ms is not None and observed_at_ms >= self._evaluate_from_ms:
            quorum = self.quorum()
            evaluation = evaluate(quorum, self._thresholds)
            self._tracked, alerts = advance(self._tracked, evaluation, quorum, self._thresholds)
            self.alerts += alerts
        return applied

    def _apply_contained(self, row: DecodedRow) -> bool:
        try:
            applied = super().apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms)
        except (MemoryError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - the job skips such a row too
            self._restore()
            reason = f"could not be applied: {failure_reason(error)}"
            self.skip(sequence=row.sequence, observed_at_ms=row.observed_at_ms, reason=reason)
            self._store()
            return True
        self._since.append(row)
        if len(self._since) >= _ROWS_TOGETHER:
            self._store()
        return applied

    def _store(self) -> None:
        self._stored, self._since = self.to_bytes(), []

    def _restore(self) -> None:
        """Restores the state before a row that raised."""
        Machine.__init__(self, self.cluster, None, (), Vantage.INSIDE)
        if self._stored is not None:
            state_codec.restore(self, self._stored)
        self._quorum = None
        for row in self._since:
            super().apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms)

    @property
    def ended_recoveries(self) -> Sequence[EndedRecovery]:
        """The topics that were RECOVERING and no longer are, oldest first."""
        return self._events.ended_recoveries

    def quorum_with_full_history(self) -> Quorum:
        """Returns the present quorum with the whole history."""
        return self._events.added_to(self.quorum())
