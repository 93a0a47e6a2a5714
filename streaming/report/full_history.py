"""A replay that keeps the whole history of a cluster, where a job's machine keeps the last hour."""

from collections.abc import Iterable, Mapping, Sequence

from rules.alert import Alert
from rules.evaluate import evaluate
from rules.finding import Thresholds
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.replay.observed_events import ObservedEvent
from streaming.status.event_history import EventHistory
from streaming.status.status_store import EndedRecovery


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

    def apply(self, events: Iterable[ObservedEvent], *, sequence: int, observed_at_ms: Millis) -> bool:
        """Applies events as the machine does, and keeps what is new in the history."""
        applied = super().apply(events, sequence=sequence, observed_at_ms=observed_at_ms)
        self.began_ms = self.now_ms if self.began_ms is None else self.began_ms
        self._events.add(self)
        if applied and self._evaluate_from_ms is not None and observed_at_ms >= self._evaluate_from_ms:
            quorum = self.quorum()
            evaluation = evaluate(quorum, self._thresholds)
            self._tracked, alerts = advance(self._tracked, evaluation, quorum, self._thresholds)
            self.alerts += alerts
        return applied

    @property
    def ended_recoveries(self) -> Sequence[EndedRecovery]:
        """The topics that were RECOVERING and no longer are, oldest first."""
        return self._events.ended_recoveries

    def quorum_with_full_history(self) -> Quorum:
        """Returns the present quorum with the whole history."""
        return self._events.added_to(self.quorum())
