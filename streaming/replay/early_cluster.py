"""EarlyCluster: the rules that need no history, evaluated on the rows of one cluster from any point on."""

from dataclasses import replace
from typing import Final

from connectors.observations.observation import Observation, ObservationKind
from rules.evaluate import BLIND
from rules.firing import Firing
from rules.lifecycle import TrackedConditions
from rules.model.identifiers import Millis
from rules.model.job_state import BlindCluster
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings

EARLY_RULES: Final = frozenset({"no-leader", BLIND})
"""They need no history: a quorum without a leader answers no fetch, so its log cannot be read anyway."""
_ROWS_TOGETHER = 16
"""Few: the state is small, and each cluster keeps these rows in the driver's memory."""


class EarlyCluster:
    """The early evaluation of one cluster, on rows from any point of its journal on."""

    def __init__(self, settings: ClusterSettings, tracked: TrackedConditions) -> None:
        """`tracked`: the conditions whose alerts are firing."""
        others_off = {
            rule: thresholds if rule in EARLY_RULES else replace(thresholds, enabled=False)
            for rule, thresholds in settings.thresholds.items()
        }
        of_early_rules = {
            key: condition for key, condition in tracked.conditions.items() if condition.rule in EARLY_RULES
        }
        self._monitor = ClusterMonitor(
            replace(settings, thresholds=others_off),
            tracked=replace(tracked, conditions=of_early_rules),
            rows_together=_ROWS_TOGETHER,
            pace_ms=0,
        )
        self._firing: Firing | None = None
        self._until_ms: Millis | None = None
        """The newest evaluated time when the first status of the step arrived."""

    def observe(self, row: Observation) -> Firing | None:
        """Applies one row; returns what fires then by these rules; None: the row is not evaluated."""
        if row.kind is ObservationKind.SNAPSHOT:
            return None
        unread = replace(row, payload=b"") if row.kind is ObservationKind.RECORDS else row
        changed = self._monitor.apply((unread,)).alerts
        self._firing = replace(self._monitor.firing(self._firing, changed), rules=EARLY_RULES)
        return self._firing

    @property
    def blind(self) -> BlindCluster | None:
        """The cluster, if no data source of its quorum answers, whether or not the alert fires already."""
        for condition in self._monitor.tracked.conditions.values():
            if condition.facts.unobserved is not None:
                return BlindCluster(
                    name=self._monitor.settings.name,
                    since_ms=condition.started_at_ms,
                    reasons=frozenset(condition.facts.unobserved),
                    alert=None,
                    critical=True,
                )
        return None

    def is_superseded(self, evaluated_ms: Millis) -> bool:
        """Returns whether the step, by its newest status, has evaluated what was evaluated here at its first one."""
        if self._until_ms is None:
            self._until_ms = self._monitor.machine.now_ms
        return evaluated_ms >= self._until_ms
