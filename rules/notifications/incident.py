"""Incidents: alerts that have one root cause and are notified together while at least one of them is firing.

An alert joins an open incident of its cluster if a firing alert of that incident has the same rule, if one of the two
rules explains the other (`Rule.inhibited_by`, `Rule.grouped_with`), or if both name a failed node with the same id
(`Facts.failed_nodes`): the controller and the broker of a combined node are one process. Otherwise it opens a new
incident.

A critical alert has to reach a person who has acknowledged the incident: it joins only what it is part of. That is an
incident with a rule that explains it; one whose page began with it or after it, or up to two minutes before; and one
that is not critical yet, if an alert of it has the same cause: the two rules are grouped or name the same failed node,
and the alert is a warning that is not about other nodes. An info says what is no fault, such as a controlled shutdown,
and explains no outage an hour later; nor does a warning join an incident of which only that is left. Otherwise it opens
a new incident. An incident that becomes critical while it is open *escalates*: services that page people get a new page
for it (`deduplication_key`).

If too many incidents were opened within a short time (for example, a whole site is down), further alerts of any
cluster share one incident, the storm incident: one page for two hundred alerts is more useful than two hundred pages.

The id of an incident is `KEY-UNIQUE`, or only `UNIQUE`. KEY is the fingerprint of the alert that opened it: two jobs
that monitor one cluster under one name observe that alert at different times, but with the same fingerprint, so a
service that deduplicates by a key gets the same one from both. After each escalation the key is another one: KEY,
KEY-1, KEY-2.
"""

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rules.alert import Alert, AlertId, AlertState, ClusterKey
from rules.finding import Severity
from rules.model.identifiers import Millis, NodeId
from rules.model.subject import NO_NODE
from rules.rule import DeclaredRule

STORM_AT = 20
"""When this many incidents were opened within the window, further ones are merged."""
STORM_WINDOW_MS = Millis(600_000)
ONE_CAUSE_MS = Millis(120_000)
"""A critical alert that began so soon after what the newest page of an incident is about may be the same fault: a fault
that spreads is one page. It counts from the page, so that a chain of faults does not go on without another one."""
RECOVERY_MS = Millis(30_000)
"""How long nothing critical fires before a page is over. So long a consequence is held back after its cause resolved,
too: its own alert resolves within the clear time."""
RETURN_MS = Millis(60_000)
"""An incident that was critical so recently does not escalate: sinks collect a decrease as long before they send it."""


def deduplication_key(incident: str, escalations: int = 0) -> str:
    """Returns what the ids of the same incident in two jobs have in common; an id without a key is its own."""
    key = incident.partition("-")[0]
    return f"{key}-{escalations}" if escalations else key


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupedAlert:
    rule: str
    started_at_ms: Millis
    is_critical: bool
    failed: frozenset[tuple[ClusterKey, NodeId]]
    """The failed nodes that it names: the cluster, and their ids."""
    about: frozenset[NodeId]
    """The nodes that it is about; none: it is about the quorum, or a topic."""
    is_fault: bool
    """Whether its severity is not info."""


@dataclass(slots=True)
class _GroupedIncident:
    firing: dict[AlertId, _GroupedAlert] = field(default_factory=dict)
    """A fingerprint may fire twice: one cluster may be configured under two names."""
    escalations: int = 0
    critical_at_ms: Millis | None = None
    """The newest transition to or from critical; None: it was never critical."""

    page_since_ms: Millis | None = None
    """Since when the alert was critical that made it critical, or that escalated it last; None: no alert is."""

    @property
    def reference_ms(self) -> Millis:
        """The time with which a critical alert is compared: that of its page, or else its beginning."""
        began_ms = min(alert.started_at_ms for alert in self.firing.values())
        return began_ms if self.page_since_ms is None else self.page_since_ms


class IncidentGrouper:
    """Assigns alerts to incidents. The same alerts in the same order always give the same incidents."""

    def __init__(self, rules: Mapping[str, DeclaredRule]) -> None:
        """`rules` by id: they say which rule explains which."""
        self._rules = rules
        self._related = _related(rules)
        self._incident_of: dict[str, str] = {}
        """The open incident of each of its alerts, firing or resolved, by fingerprint."""
        self._open: dict[str, _GroupedIncident] = {}
        self._firing_by_rule: dict[tuple[ClusterKey, str], dict[AlertId, str]] = {}
        """By (cluster id, rule): the firing alerts and their incidents."""
        self._opened_at_ms: deque[Millis] = deque()
        self._storm_incident: str | None = None

    def assign(self, alert: Alert, *, at_ms: Millis, keys_in_use: Collection[str] = ()) -> str:
        """Adds the next transition, recorded at `at_ms`; returns the id of its incident.

        `keys_in_use`: of other incidents that a service may have as open. A new incident with such a key gets an id
        without it: the service would take the resolution of one for that of the other.
        """
        self._close_recovered(alert.observed_at_ms)
        incident = self._incident_of.get(alert.fingerprint)
        if incident is None:
            incident = next(self._joinable(alert), None)
        if incident is None:
            incident = self._new_incident(alert, at_ms, keys_in_use)
        self.add(alert, incident, at_ms=at_ms)
        return incident

    def escalations(self, incident: str) -> int:
        """Returns how often an open incident has escalated; 0 for one that is not open."""
        return self._open[incident].escalations if incident in self._open else 0

    def add(self, alert: Alert, incident: str, *, at_ms: Millis, escalations: int = 0) -> None:
        """Adds the next transition, whose incident is known, for example when a ledger is re-read.

        `escalations`: how often the incident had escalated, as it was recorded: earlier alerts may be dropped.
        """
        self._close_recovered(alert.observed_at_ms)
        id_, firing = alert.alert_id, alert.state is AlertState.FIRING
        same_rule = self._firing_by_rule.setdefault((alert.of_cluster, alert.rule), {})
        found = self._open.get(incident)
        if found is None:
            if not firing:
                same_rule.pop(id_, None)
                return
            self._count_opened(incident, at_ms)
            found = self._open[incident] = _GroupedIncident()
        before = found.firing.pop(id_, None)
        was_critical = before is not None and before.is_critical
        is_critical = firing and alert.severity is Severity.CRITICAL
        if is_critical and not was_critical:
            self._becomes_critical(found, alert, before)
        if firing:
            found.escalations = max(found.escalations, escalations)
            found.firing[id_] = _GroupedAlert(
                rule=alert.rule,
                started_at_ms=alert.started_at_ms,
                is_critical=is_critical,
                failed=_failed_nodes(alert),
                about=_nodes(alert),
                is_fault=alert.severity is not Severity.INFO,
            )
            self._incident_of[alert.fingerprint] = same_rule[id_] = incident
        else:
            same_rule.pop(id_, None)
        if not any(each.is_critical for each in found.firing.values()):
            found.page_since_ms = None
        if was_critical or is_critical:
            found.critical_at_ms = alert.observed_at_ms
        if not found.firing:
            if incident == self._storm_incident:
                self._storm_incident = None
            if found.critical_at_ms is None:
                self._close(incident)

    def _close_recovered(self, now_ms: Millis) -> None:
        """Closes what was critical and has ended a while ago: until then, an alert of it that returns goes on there."""
        for incident, found in [*self._open.items()]:
            ended_ms = None if found.firing else found.critical_at_ms
            # If the clock was set back, it has ended too.
            if ended_ms is not None and not 0 <= now_ms - ended_ms < RECOVERY_MS:
                self._close(incident)

    def _close(self, incident: str) -> None:
        del self._open[incident]
        self._incident_of = {alert: one for alert, one in self._incident_of.items() if one != incident}

    def _becomes_critical(self, found: _GroupedIncident, alert: Alert, before: _GroupedAlert | None) -> None:
        since_ms = alert.started_at_ms if before is None else alert.observed_at_ms
        is_new = before is None and not found.firing
        escalates = not is_new and self._escalates(found, alert, since_ms)
        found.escalations += escalates
        if escalates or found.page_since_ms is None:
            found.page_since_ms = since_ms

    def _escalates(self, found: _GroupedIncident, alert: Alert, since_ms: Millis) -> bool:
        """Returns whether an alert that is critical since then makes an incident worse than what was acknowledged."""
        if found.page_since_ms is None:
            recently = found.critical_at_ms is not None and alert.observed_at_ms - found.critical_at_ms <= RETURN_MS
            return not recently
        rule = self._rules.get(alert.rule)
        related = (*rule.inhibited_by, *rule.grouped_with) if rule else ()
        explained = any(
            each.is_critical and (each.rule in related or fingerprint == alert.fingerprint)
            for (fingerprint, _), each in found.firing.items()
        )
        in_storm = self._storm_incident is not None and found is self._open.get(self._storm_incident)
        return not explained and not in_storm and since_ms - found.page_since_ms > ONE_CAUSE_MS

    def _joinable(self, alert: Alert) -> Iterator[str]:
        """Yields the open incidents that an alert belongs to: of its cause, of the same node, of what is related."""
        rule = self._rules.get(alert.rule)
        causes, grouped = (rule.inhibited_by, rule.grouped_with) if rule else ((), ())
        for cause in causes:
            yield from self._firing_by_rule.get((alert.of_cluster, cause), {}).values()
        failed = _failed_nodes(alert)
        for incident, found in self._open.items() if failed else ():
            same_node = [each for each in found.firing.values() if not each.failed.isdisjoint(failed)]
            if same_node and self._is_part_of(alert, found, same_node):
                yield incident
        for other in (alert.rule, *self._related.get(alert.rule, ())):
            other_rule = self._rules.get(other)
            is_grouped = other in grouped or (other_rule is not None and alert.rule in other_rule.grouped_with)
            for id_, incident in self._firing_by_rule.get((alert.of_cluster, other), {}).items():
                found = self._open[incident]
                if self._is_part_of(alert, found, [found.firing[id_]] if is_grouped else []):
                    yield incident

    def _is_part_of(self, alert: Alert, found: _GroupedIncident, related: Sequence[_GroupedAlert]) -> bool:
        """Returns whether an alert belongs to an open incident. `related`: those of it that may have the same cause."""
        if alert.started_at_ms - found.reference_ms <= ONE_CAUSE_MS or alert.severity is Severity.INFO:
            return True
        if alert.severity is Severity.WARNING:
            return any(each.is_fault for each in found.firing.values())
        about = _nodes(alert)
        return found.page_since_ms is None and any(
            each.is_fault and (not about or not each.about or not each.about.isdisjoint(about)) for each in related
        )

    def _new_incident(self, alert: Alert, at_ms: Millis, keys_in_use: Collection[str]) -> str:
        key = alert.fingerprint
        new = hashlib.sha256(f"{key}\x00{alert.started_at_ms}".encode()).hexdigest()[:16]
        if key not in keys_in_use:
            new = f"{key}-{new}"
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


def _failed_nodes(alert: Alert) -> frozenset[tuple[ClusterKey, NodeId]]:
    return frozenset((alert.of_cluster, node) for node in alert.facts.failed_nodes)


def _nodes(alert: Alert) -> frozenset[NodeId]:
    node = alert.about.node
    return frozenset(alert.facts.failed_nodes) | (frozenset() if node == NO_NODE else {node})


def _related(rules: Mapping[str, DeclaredRule]) -> Mapping[str, tuple[str, ...]]:
    """Returns the rules that share a cause with each rule, in stable order: the rules that explain it first."""
    related: dict[str, dict[str, None]] = {rule: {} for rule in rules}
    for rule in rules.values():
        for cause in (*rule.inhibited_by, *rule.grouped_with):
            related[rule.id][cause] = None
    for rule in rules.values():
        for cause in (*rule.inhibited_by, *rule.grouped_with):
            related.setdefault(cause, {})[rule.id] = None
    return {rule: tuple(others) for rule, others in related.items()}
