"""CutOffAlerts: one alert when this host observes nothing of at least half of its clusters, instead of one for each.

The alert fires together with the first cluster's `monitor-blind`. A cluster counts as soon as its condition is pending:
all clusters stop answering within seconds, and the hold of `monitor-blind` is longer than that. While the alert fires,
people are not notified of the clusters' own alerts; a cluster that is still blind when it resolves is sent then.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from connectors.delivery.job_alert import firing_job_alert, job_alert, resolved_alert
from rules.alert import Alert
from rules.checks import monitor_blind
from rules.evaluate import BLIND
from rules.formatting import and_join, utc_text
from rules.model.identifiers import Millis
from rules.notifications.route import CLUSTERS, JOB_CLUSTER_ID, Silence

SUBJECT = "clusters"
SETTLED_MS = Millis(60_000)
"""How long fewer than half are blind before the alert resolves, and how long the clusters' own alerts are held back
after the last cluster is observed again: clusters recover one after the other."""
_UPDATE_MS = Millis(10_000)
"""The shortest time between two transitions that add clusters to the list."""
_MAX_NAMED = 10


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
    """Compares the blind clusters with the monitored ones. A firing alert survives a restart (ledger)."""

    def __init__(self, firing: Sequence[Alert]) -> None:
        """`firing`: the firing alerts of the ledger."""
        self._firing = firing_job_alert(firing, SUBJECT)
        self._few_since_ms: Millis | None = None
        """Since when fewer than half are blind while the alert fires."""
        self._held = self._listed()
        """The clusters that are or were blind while the alert fires."""
        self._held_until_ms = Millis(0)

    def holds(self, now_ms: Millis) -> Sequence[Silence]:
        """Returns what suppresses the alerts of the clusters now."""
        if self._firing is None and now_ms > self._held_until_ms:
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
        if self._few_since_ms is None:
            self._few_since_ms = now_ms
        if blind and now_ms - self._few_since_ms < SETTLED_MS:
            return ()
        observed = len(visibility.monitored) - len(blind)
        text = f"This host observes {observed} of {len(visibility.monitored)} clusters."
        resolved = resolved_alert(self._firing, now_ms, text)
        self._firing = self._few_since_ms = None
        # Those that are still blind are sent now; the ends of the others are not.
        self._held_until_ms = Millis(0 if blind else now_ms + SETTLED_MS)
        return [resolved]

    def move_by_step(self, step_ms: int) -> None:
        """Moves the times with a wall clock that was set: nothing lasts shorter or longer by it."""
        self._held_until_ms = Millis(self._held_until_ms + step_ms)
        if self._few_since_ms is not None:
            self._few_since_ms = Millis(self._few_since_ms + step_ms)

    def _fire(
        self, fired: Sequence[Alert], blind: frozenset[str], visibility: Visibility, now_ms: Millis
    ) -> Sequence[Alert]:
        # While it fires its start stays: one with another start would be another alert.
        started_ms = self._firing.started_at_ms if self._firing else min(each.started_at_ms for each in fired)
        self._held = blind if self._firing is None else self._held | blind
        self._firing = _alert(fired, sorted(blind), len(visibility.monitored), started_ms, now_ms)
        return [self._firing]

    def _listed(self) -> frozenset[str]:
        listed = self._firing.evidence.get(CLUSTERS) if self._firing else None
        return frozenset(map(str, listed if isinstance(listed, list) else ()))


def _is_of_quorum(alert: Alert) -> bool:
    """Returns whether an alert is `monitor-blind` of a cluster's quorum."""
    subject = (alert.rule, alert.subject)
    return subject == (BLIND, monitor_blind.QUORUM_SUBJECT) and alert.cluster_id != JOB_CLUSTER_ID


def _alert(fired: Sequence[Alert], blind: Sequence[str], monitored: int, started_ms: Millis, now_ms: Millis) -> Alert:
    first = fired[0]
    return job_alert(
        BLIND,
        SUBJECT,
        max((each.severity for each in fired), key=lambda severity: severity.rank),
        summary=f"This host cannot observe {len(blind)} of {monitored} clusters since {utc_text(started_ms)}: "
        f"{and_join(blind, _MAX_NAMED)}. Their state is unknown.",
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
