"""Incidents: alerts of one cluster that have one root cause, told together as long as one of them stands.

An alert joins an open incident of its cluster where a firing alert there is of the same rule, or where one rule
says that the other explains it (`Rule.inhibited_by`, `Rule.grouped_with`). Otherwise it opens one. When too many
were opened in a short time (a whole site is gone), the next ones share one incident, whatever their cluster: a
pager that rings two hundred times tells less than one that rings once.
"""

import hashlib
from collections import deque
from collections.abc import Mapping
from copy import copy

from rules.alert import Alert, AlertState
from rules.finding import Rule
from rules.model.identifiers import Millis

STORM_AT = 20
"""So many incidents opened within the window; the next ones are merged."""
STORM_WINDOW_MS = Millis(600_000)


class Incidents:
    """Which incident each alert belongs to. The same alerts in the same order give the same incidents."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        """`rules` by id: what explains what."""
        self._related = _related(rules)
        self._incident_of: dict[str, str] = {}
        """Of each firing alert, by fingerprint."""
        self._firing: dict[str, dict[str, None]] = {}
        """The fingerprints of each open incident's firing alerts."""
        self._places: dict[tuple[str, str], dict[str, str]] = {}
        """The firing fingerprints, and their incidents, of each (cluster id, rule)."""
        self._openings: deque[Millis] = deque()
        self._storm: str | None = None

    def copy(self) -> "Incidents":
        """One of its own, that goes on from here."""
        other = copy(self)
        other._incident_of = dict(self._incident_of)
        other._firing = {incident: dict(firing) for incident, firing in self._firing.items()}
        other._places = {place: dict(firing) for place, firing in self._places.items()}
        other._openings = deque(self._openings)
        return other

    def place(self, alert: Alert, *, at_ms: Millis) -> str:
        """The incident that this alert belongs to, 16 hex digits; takes it in.

        Args:
            alert: the next transition, in the order of the ledger.
            at_ms: the wall clock when it was recorded.
        """
        known = self._incident_of.get(alert.fingerprint)
        if known is None:
            known = self._joined(alert)
        if known is None:
            known = self._opened(alert, at_ms)
        self.take(alert, known, at_ms=at_ms)
        return known

    def take(self, alert: Alert, incident: str, *, at_ms: Millis) -> None:
        """Take in an alert whose incident is known, as when a ledger is read again."""
        place = self._places.setdefault((alert.cluster_id, alert.rule), {})
        if alert.state is AlertState.FIRING:
            if incident not in self._firing:
                self._note_opening(incident, at_ms)
            self._incident_of[alert.fingerprint] = incident
            self._firing.setdefault(incident, {})[alert.fingerprint] = None
            place[alert.fingerprint] = incident
            return
        self._incident_of.pop(alert.fingerprint, None)
        place.pop(alert.fingerprint, None)
        open_there = self._firing.get(incident, {})
        open_there.pop(alert.fingerprint, None)
        if not open_there:
            self._firing.pop(incident, None)
            if incident == self._storm:
                self._storm = None

    def _joined(self, alert: Alert) -> str | None:
        for rule in (alert.rule, *self._related.get(alert.rule, ())):
            place = self._places.get((alert.cluster_id, rule))
            if place:
                return next(iter(place.values()))
        return None

    def _opened(self, alert: Alert, at_ms: Millis) -> str:
        fresh = hashlib.sha256(f"{alert.fingerprint}\x00{alert.started_at_ms}".encode()).hexdigest()[:16]
        if alert.state is AlertState.RESOLVED or self._openings_lately(at_ms) < STORM_AT:
            return fresh
        return self._storm or fresh

    def _note_opening(self, incident: str, at_ms: Millis) -> None:
        if self._openings_lately(at_ms) < STORM_AT:
            self._openings.append(at_ms)
        else:
            self._storm = incident

    def _openings_lately(self, at_ms: Millis) -> int:
        # A wall clock that was set back begins to count anew.
        while self._openings and not 0 <= at_ms - self._openings[0] < STORM_WINDOW_MS:
            self._openings.popleft()
        return len(self._openings)


def _related(rules: Mapping[str, Rule]) -> Mapping[str, tuple[str, ...]]:
    """The rules that share a cause with each rule, in stable order: those that explain it first."""
    related: dict[str, dict[str, None]] = {rule: {} for rule in rules}
    for rule in rules.values():
        for cause in (*rule.inhibited_by, *rule.grouped_with):
            related[rule.id][cause] = None
    for rule in rules.values():
        for cause in (*rule.inhibited_by, *rule.grouped_with):
            related.setdefault(cause, {})[rule.id] = None
    return {rule: tuple(others) for rule, others in related.items()}
