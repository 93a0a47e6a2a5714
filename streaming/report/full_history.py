"""The whole history of a cluster that is replayed row by row, where a job's machine keeps the last hour."""

from collections.abc import Mapping

from rules.alert import Alert
from rules.evaluate import evaluate
from rules.finding import Thresholds
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from streaming.replay.machine import Machine
from streaming.status.event_history import EventHistory


class FullHistory:
    """One cluster's elections, voter changes, starts and recoveries, and the alerts of its rules if they are evaluated.

    `add` is called after each row that was applied to the machine.
    """

    def __init__(self, *, thresholds: Mapping[str, Thresholds], evaluate_from_ms: Millis | None) -> None:
        """Begins without rows.

        Args:
            thresholds: by rule id.
            evaluate_from_ms: rules are evaluated after each row from this time on, as the job does; None: never,
                because a ledger holds the alerts.
        """
        self.events = EventHistory()
        self.alerts: list[Alert] = []
        """The alert transitions of the evaluations."""
        self.began_ms: Millis | None = None
        """Time of the first row."""
        self._thresholds = thresholds
        self._evaluate_from_ms = evaluate_from_ms
        self._tracked = TrackedConditions()

    def add(self, machine: Machine) -> None:
        """Adds what the machine's newest row changed; a row that was added before changes nothing."""
        if machine.sequence <= self.events.sequence:
            return
        self.events.add(machine)
        self.began_ms = machine.now_ms if self.began_ms is None else self.began_ms
        if self._evaluate_from_ms is not None and machine.now_ms >= self._evaluate_from_ms:
            quorum = machine.quorum()
            evaluation = evaluate(quorum, self._thresholds)
            self._tracked, alerts = advance(self._tracked, evaluation, quorum, self._thresholds)
            self.alerts += alerts
