"""Alerts about the job itself: sinks that fail, clusters that this host cannot observe; and ends that no rule finds."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from connectors.delivery.delivery_report import SinkResult
from rules.alert import Alert, AlertState
from rules.checks import monitor_blind
from rules.evaluate import BLIND
from rules.finding import Plain, Severity
from rules.formatting import and_join, resolved_summary, utc_text
from rules.model.identifiers import Millis
from rules.notifications.route import CLUSTERS, JOB_CLUSTER_ID, Silence

HOLD_MS = Millis(300_000)
"""How long a sink fails before the alert fires."""
_SUBJECT_PREFIX = "sink "
_MAX_LISTED = 10
CUT_OFF_SUBJECT = "clusters"
SETTLED_MS = Millis(60_000)
"""How long fewer than half are blind before the alert resolves, and how long the clusters' own alerts are held back
after the last cluster is observed again: clusters recover one after the other."""
_UPDATE_MS = Millis(10_000)
"""The shortest time between two transitions that add clusters to the list."""


def job_alert(
    rule: str,
    subject: str,
    severity: Severity,
    *,
    summary: str,
    evidence: Mapping[str, Plain],
    remedy: Sequence[str],
    started_at_ms: Millis,
    now_ms: Millis,
    due_at_ms: Millis | None = None,
) -> Alert:
    """Returns a firing alert of the cluster `kraftwatch`; its summary, evidence and remedy are as of a finding.

    `rule`: the id of the rule whose page explains it; `due_at_ms`: when it had lasted for its hold; None: now.
    """
    return Alert(
        cluster=JOB_CLUSTER_ID,
        cluster_id=JOB_CLUSTER_ID,
        rule=rule,
        subject=subject,
        severity=severity,
        state=AlertState.FIRING,
        summary=summary,
        evidence=evidence,
        remedy=tuple(remedy),
        started_at_ms=started_at_ms,
        due_at_ms=now_ms if due_at_ms is None else due_at_ms,
        observed_at_ms=now_ms,
        offset=None,
    )


def firing_job_alerts(firing: Iterable[Alert], *beginnings: str) -> dict[str, Alert]:
    """Returns by subject the firing alerts of the cluster `kraftwatch` whose subject has one of the beginnings."""
    own = (each for each in firing if each.cluster_id == JOB_CLUSTER_ID)
    return {each.subject: each for each in own if each.subject.startswith(beginnings)}


def resolved_alert(firing: Alert, now_ms: Millis, now: str) -> Alert:
    """Returns the transition that resolves a firing alert at `now_ms`, the wall clock; `now` says what is true now.

    If the clock was set back meanwhile, it is observed when the firing one was, and not before.
    """
    return replace(
        firing,
        state=AlertState.RESOLVED,
        summary=resolved_summary(now, now_ms),
        remedy=(),
        due_at_ms=now_ms,
        observed_at_ms=Millis(max(now_ms, firing.observed_at_ms)),
    )


class SinkFailureAlerts:
    """An alert when a sink fails for a long time, so that the other sinks report it.

    Firing alerts survive a restart (ledger); the hold time starts again.
    """

    def __init__(self, firing: Sequence[Alert]) -> None:
        self._firing = firing_job_alerts(firing, _SUBJECT_PREFIX)
        self._since_ms: dict[str, Millis] = {}
        self._evaluated_ms = Millis(0)

    def take_over(self, predecessor: "SinkFailureAlerts", now_ms: Millis) -> None:
        """Continues the holds of `predecessor`, unless another job has notified for so long that its sinks work."""
        if 0 <= now_ms - predecessor._evaluated_ms < HOLD_MS:
            self._since_ms = predecessor._since_ms

    def due(self, results: Mapping[str, SinkResult | None], now_ms: Millis) -> Sequence[Alert]:
        """Returns the transitions that are due.

        `results`: by sink name; None for a sink that was removed. A sink whose state is not known is left out.
        """
        self._evaluated_ms = now_ms
        transitions = []
        for name, result in results.items():
            firing = self._firing.get(subject_of(name))
            if result is None or result.failing is None:
                self._since_ms.pop(name, None)
                if firing is not None:
                    transitions.append(resolved_alert(firing, now_ms, f"No delivery to the sink {name} fails."))
            else:
                # A wall clock that was set back begins the hold again.
                since_ms = self._since_ms[name] = min(self._since_ms.get(name, now_ms), now_ms)
                if firing is None and now_ms - since_ms >= HOLD_MS:
                    transitions.append(_sink_alert(name, result, since_ms, now_ms))
        for alert in transitions:
            if alert.state is AlertState.FIRING:
                self._firing[alert.subject] = alert
            else:
                del self._firing[alert.subject]
        return transitions

    def removed_sinks(self, names: Sequence[str]) -> Mapping[str, None]:
        """Returns the sinks that have a firing alert and are not among the configured `names`."""
        configured = {subject_of(name) for name in names}
        return {subject.removeprefix(_SUBJECT_PREFIX): None for subject in self._firing if subject not in configured}


def subject_of(name: str) -> str:
    """Returns the subject of an alert about a sink."""
    return _SUBJECT_PREFIX + name


def is_about(alert: Alert, name: str) -> bool:
    """Returns whether an alert reports that this sink fails."""
    return alert.cluster_id == JOB_CLUSTER_ID and alert.subject == subject_of(name)


def _sink_alert(name: str, result: SinkResult, since_ms: Millis, now_ms: Millis) -> Alert:
    return job_alert(
        BLIND,
        subject_of(name),
        Severity.WARNING,
        summary=_sink_summary(name, result, since_ms),
        evidence={
            "sink": name,
            "reason": result.failing,
            "failing_since_at_ms": since_ms,
            "waiting": result.pending,
            **({"not_accepted": list(result.not_accepted[:_MAX_LISTED])} if result.not_accepted else {}),
        },
        remedy=(
            f"# Fix the cause of the failure of {name}: pending alerts are then delivered, each once.",
            f"# Until then, inform the recipients of {name} by other means.",
        ),
        started_at_ms=since_ms,
        due_at_ms=Millis(since_ms + HOLD_MS),
        now_ms=now_ms,
    )


def _sink_summary(name: str, result: SinkResult, since_ms: Millis) -> str:
    count = len(result.not_accepted)
    if not count:
        return f"Delivery to the sink {name} has failed since {utc_text(since_ms)}: {result.failing}."
    what = "1 notification" if count == 1 else f"{count} notifications"
    return f"The sink {name} has not accepted {what} since {utc_text(since_ms)}, but accepts others: {result.failing}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The monitored clusters, and those of which nothing is observed now, although their alert may not fire yet."""

    monitored: Collection[str]
    blind: Collection[str]


NOTHING_MONITORED = Visibility(monitored=(), blind=())
VisibilitySource: TypeAlias = Callable[[], Visibility]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOffHold(Silence):
    """Suppresses the alerts that say of these clusters that they are not observed."""

    blind: frozenset[str]

    def matches(self, alert: Alert) -> bool:
        """Returns whether the alert about all blind clusters reports this one.

        Also when something is observed again: the alert resolves with the evidence of that time.
        """
        return _is_of_quorum(alert) and alert.cluster in self.blind


class CutOffAlerts:
    """One alert when this host observes nothing of at least half of its clusters, instead of one for each.

    It fires together with the first cluster's `monitor-blind`. A cluster counts as soon as its condition is pending:
    all clusters stop answering within seconds, and the hold of `monitor-blind` is longer than that. While it fires,
    people are not notified of the clusters' own alerts; a cluster that is still blind when it resolves is sent then.
    A firing alert survives a restart (ledger).
    """

    def __init__(self, firing: Sequence[Alert]) -> None:
        self._firing = firing_job_alerts(firing, CUT_OFF_SUBJECT).get(CUT_OFF_SUBJECT)
        self._few_since_ms: Millis | None = None
        """Since when fewer than half are blind while the alert fires."""
        self._held = self._listed()
        """The clusters that are or were blind while the alert fires."""
        self._held_until_ms = Millis(0)

    def holds(self, now_ms: Millis) -> Sequence[Silence]:
        """Returns what suppresses the alerts of the clusters now."""
        # A wall clock that was set back must not prolong it.
        if self._firing is None and not 0 <= self._held_until_ms - now_ms <= SETTLED_MS:
            return []
        hold = CutOffHold(
            id="cut-off",
            starts_at_ms=Millis(0),
            ends_at_ms=Millis(2**62),
            author="kraftwatch",
            comment="one alert reports all clusters that this host cannot observe",
            blind=self._held,
        )
        return [hold]

    def due(self, firing: Sequence[Alert], visibility: Visibility, now_ms: Millis) -> Sequence[Alert]:
        """Returns the transitions that are due; `firing`: the firing alerts of all clusters."""
        fired = [alert for alert in firing if _is_of_quorum(alert) and monitor_blind.observes_nothing(alert.evidence)]
        if self._firing is None and not fired:
            return ()
        monitored = frozenset(visibility.monitored)
        fired = [alert for alert in fired if alert.cluster in monitored]
        blind = monitored & {*visibility.blind, *(alert.cluster for alert in fired)}
        cut_off = len(blind) > 1 and 2 * len(blind) >= len(monitored)
        if self._firing is None:
            return self._fire(fired, blind, visibility, now_ms) if fired and cut_off else ()
        if cut_off:
            self._few_since_ms = None
            self._held |= blind
            new = blind - self._listed()
            late = not 0 <= now_ms - self._firing.observed_at_ms < _UPDATE_MS
            return self._fire(fired, blind, visibility, now_ms) if new and fired and late else ()
        self._few_since_ms = now_ms if self._few_since_ms is None else min(self._few_since_ms, now_ms)
        if blind and now_ms - self._few_since_ms < SETTLED_MS:
            return ()
        observed = len(visibility.monitored) - len(blind)
        text = f"This host observes {observed} of {len(visibility.monitored)} clusters."
        resolved = resolved_alert(self._firing, now_ms, text)
        self._firing = self._few_since_ms = None
        # Those that are still blind are sent now; the ends of the others are not.
        self._held_until_ms = Millis(0 if blind else now_ms + SETTLED_MS)
        return [resolved]

    def _fire(
        self, fired: Sequence[Alert], blind: frozenset[str], visibility: Visibility, now_ms: Millis
    ) -> Sequence[Alert]:
        # While it fires its start stays: one with another start would be another alert.
        started_ms = self._firing.started_at_ms if self._firing else min(each.started_at_ms for each in fired)
        self._held = blind if self._firing is None else self._held | blind
        self._firing = _cut_off_alert(fired, sorted(blind), len(visibility.monitored), started_ms, now_ms)
        return [self._firing]

    def _listed(self) -> frozenset[str]:
        listed = self._firing.evidence.get(CLUSTERS) if self._firing else None
        return frozenset(map(str, listed if isinstance(listed, list) else ()))


def _is_of_quorum(alert: Alert) -> bool:
    """Returns whether an alert is `monitor-blind` of a cluster's quorum."""
    subject = (alert.rule, alert.subject)
    return subject == (BLIND, monitor_blind.QUORUM_SUBJECT) and alert.cluster_id != JOB_CLUSTER_ID


def _cut_off_alert(
    fired: Sequence[Alert], blind: Sequence[str], monitored: int, started_ms: Millis, now_ms: Millis
) -> Alert:
    first = fired[0]
    return job_alert(
        BLIND,
        CUT_OFF_SUBJECT,
        max((each.severity for each in fired), key=lambda severity: severity.rank),
        summary=f"This host cannot observe {len(blind)} of {monitored} clusters since {utc_text(started_ms)}: "
        f"{and_join(blind, _MAX_LISTED)}. Their state is unknown.",
        evidence={CLUSTERS: [*blind], "clusters_monitored": monitored, "example": f"{first.cluster}: {first.summary}"},
        remedy=(
            "# Check the network of the monitor's host first: routes, firewalls, name resolution, its own addresses",
            "# Query one of the clusters from another host: kraftwatch status",
            "# If it answers there, the clusters are not the cause: fix this host, or run kraftwatch on another one",
        ),
        started_at_ms=started_ms,
        due_at_ms=min(each.due_at_ms for each in fired),
        now_ms=now_ms,
    )
