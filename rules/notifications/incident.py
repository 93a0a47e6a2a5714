"""Incidents: alerts that have one root cause and are notified together while at least one of them is firing.

An alert joins an open incident of its cluster if a firing alert of that incident has the same rule, or if one of the
two rules explains the other (`Rule.inhibited_by`, `Rule.grouped_with`). Otherwise the alert opens a new incident.
If too many incidents were opened within a short time (for example, a whole site is down), further alerts of any
cluster share one incident, the storm incident: one page for two hundred alerts is more useful than two hundred pages.
"""

import hashlib
from collections import deque
from collections.abc import Mapping
from copy import copy

from rules.alert import Alert, AlertState
from rules.finding import Rule
from rules.model.identifiers import Millis

STORM_AT = 20
"""When this many incidents were opened within the window, further ones are merged."""
STORM_WINDOW_MS = Millis(600_000)


class IncidentGrouper:
    """Assigns alerts to incidents. The same alerts in the same order always give the same incidents."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        """`rules` by id: they say which rule explains which."""
        self._related = _related(rules)
        self._incident_of: dict[str, str] = {}
        """The incident of each firing alert, by fingerprint."""
        self._firing: dict[str, dict[str, None]] = {}
        """The fingerprints of the firing alerts of each open incident."""
        self._firing_by_rule: dict[tuple[str, str], dict[str, str]] = {}
        """By (cluster id, rule): the firing fingerprints and their incidents."""
        self._opened_at_ms: deque[Millis] = deque()
        self._storm_incident: str | None = None

    def copy(self) -> "IncidentGrouper":
        """Returns an independent copy of the current state."""
        other = copy(self)
        other._incident_of = dict(self._incident_of)
        other._firing = {incident: dict(firing) for incident, firing in self._firing.items()}
        other._firing_by_rule = {key: dict(firing) for key, firing in self._firing_by_rule.items()}
        other._opened_at_ms = deque(self._opened_at_ms)
        return other

    def assign(self, alert: Alert, *, at_ms: Millis) -> str:
        """Adds an alert and returns the id of its incident, 16 hex digits.

        Args:
            alert: the next transition, in the order of the ledger.
            at_ms: the wall clock when the transition was recorded.
        """
        incident = self._incident_of.get(alert.fingerprint)
        if incident is None:
            incident = self._related_incident(alert)
        if incident is None:
            incident = self._new_incident(alert, at_ms)
        self.add(alert, incident, at_ms=at_ms)
        return incident

    def add(self, alert: Alert, incident: str, *, at_ms: Millis) -> None:
        """Adds an alert whose incident is known, for example when a ledger is re-read."""
        same_rule = self._firing_by_rule.setdefault((alert.cluster_id, alert.rule), {})
        if alert.state is AlertState.FIRING:
            if incident not in self._firing:
                self._count_opened(incident, at_ms)
            self._incident_of[alert.fingerprint] = incident
            self._firing.setdefault(incident, {})[alert.fingerprint] = None
            same_rule[alert.fingerprint] = incident
            return
        self._incident_of.pop(alert.fingerprint, None)
        same_rule.pop(alert.fingerprint, None)
        still_firing = self._firing.get(incident, {})
        still_firing.pop(alert.fingerprint, None)
        if not still_firing:
            self._firing.pop(incident, None)
            if incident == self._storm_incident:
                self._storm_incident = None

    def _related_incident(self, alert: Alert) -> str | None:
        for rule in (alert.rule, *self._related.get(alert.rule, ())):
            firing = self._firing_by_rule.get((alert.cluster_id, rule))
            if firing:
                return next(iter(firing.values()))
        return None

    def _new_incident(self, alert: Alert, at_ms: Millis) -> str:
        new = hashlib.sha256(f"{alert.fingerprint}\x00{alert.started_at_ms}".encode()).hexdigest()[:16]
        if alert.state is AlertState.RESOLVED or self._opened_in_window(at_ms) < STORM_AT:
            return new
        return self._storm_incident or new

    def _count_opened(self, incident: str, at_ms: Millis) -> None:
        if self._opened_in_window(at_ms) < STORM_AT:
            self._opened_at_ms.append(at_ms)
        else:
            self._storm_incident = incident

    def _opened_in_window(self, at_ms: Millis) -> int:
        # If the wall clock was set back, the count starts again.
        while self._opened_at_ms and not 0 <= at_ms - self._opened_at_ms[0] < STORM_WINDOW_MS:
            self._opened_at_ms.popleft()
        return len(self._opened_at_ms)


def _related(rules: Mapping[str, Rule]) -> Mapping[str, tuple[str, ...]]:
    """Returns the rules that share a cause with each rule, in stable order: the rules that explain it first."""
    related: dict[str, dict[str, None]] = {rule: {} for rule in rules}
    for rule in rules.values():
        for cause in (*rule.inhibited_by, *rule.grouped_with):
            related[rule.id][cause] = None
    for rule in rules.values():
        for cause in (*rule.inhibited_by, *rule.grouped_with):
            related.setdefault(cause, {})[rule.id] = None
    return {rule: tuple(others) for rule, others in related.items()}
