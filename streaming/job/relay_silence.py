"""RelaySilence: raises an alert when a relay sends no rows of a cluster, because the rules then evaluate nothing.

Rules get their time from rows: without rows they report nothing, and nothing is not healthy. A cluster counts as silent
only while the query waits for data: in a backlog, or on a busy machine, its rows may be in the topic and not read yet.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from connectors.delivery.resolved_alert import resolved_alert
from rules.alert import Alert, AlertState
from rules.checks import monitor_blind
from rules.finding import Severity
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID

HOLD_MS = Millis(60_000)
"""How long no row arrives before the alert fires: a relay that runs sends several rows a second."""
_SUBJECT = "relay of "
_NOW = {True: "sends rows", False: "is no longer configured"}
"""What is true when the alert resolves, by whether the cluster is still configured."""


class RelaySilence:
    """Evaluates since when each cluster has no rows. Firing alerts survive a restart; the hold time starts again."""

    def __init__(self, firing: Sequence[Alert], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`firing`: the firing alerts of the ledger; `clock` returns seconds that only grow."""
        self._firing = {
            alert.subject.removeprefix(_SUBJECT): alert
            for alert in firing
            if alert.cluster_id == JOB_CLUSTER_ID and alert.subject.startswith(_SUBJECT)
        }
        self._clock = clock
        self._since: dict[str, float] = {}
        """When rows of each cluster last arrived; before the first ones, when it was first evaluated."""
        self._arrived: set[str] = set()
        """The clusters of which rows have arrived since their alert fired."""
        self._waiting_at = 0.0
        """When the query was last seen waiting for data: it had read all rows then."""

    @property
    def firing(self) -> Mapping[str, Alert]:
        """The firing alerts by cluster."""
        return self._firing

    def rows_arrived(self, clusters: Iterable[str]) -> None:
        """Notes that a batch had rows of these clusters."""
        for name in clusters:
            self._since[name] = self._clock()
            self._arrived.add(name)

    def due(self, clusters: Sequence[str], now_ms: Millis, *, waits_for_data: bool) -> Sequence[Alert]:
        """Returns the transitions that are due.

        Args:
            clusters: the monitored ones; the alert of another one is resolved.
            now_ms: the wall clock.
            waits_for_data: whether the query has read all rows of the topic.
        """
        now = self._clock()
        if waits_for_data:
            self._waiting_at = now
        ended = [name for name in self._firing if name not in clusters or name in self._arrived]
        transitions = [
            resolved_alert(self._firing.pop(name), now_ms, f"The relay of cluster {name} {_NOW[name in clusters]}.")
            for name in ended
        ]
        for name in clusters:
            silent_ms = Millis(round(1000 * (self._waiting_at - self._since.setdefault(name, now))))
            if name not in self._firing and silent_ms >= HOLD_MS:
                self._firing[name] = alert = _alert(name, silent_ms, now_ms)
                self._arrived.discard(name)
                transitions.append(alert)
        return transitions


def _alert(name: str, silent_ms: Millis, now_ms: Millis) -> Alert:
    since_ms = Millis(now_ms - silent_ms)
    return Alert(
        cluster=JOB_CLUSTER_ID,
        cluster_id=JOB_CLUSTER_ID,
        rule=monitor_blind.ID,
        subject=_SUBJECT + name,
        severity=Severity.CRITICAL,
        state=AlertState.FIRING,
        summary=f"The relay of cluster {name} has sent no row since {utc_text(since_ms)}: its state is unknown.",
        evidence={"cluster": name, "newest_row_at_ms": since_ms},
        remedy=(
            f"# Check that the relay of cluster {name} runs, and read log/driver.log in its folder.",
            "# If it runs: kraftwatch_relay_failing and /healthz of the relay say why the topic accepts no rows.",
            "# If the cluster was added to a running job: send SIGHUP to its relay, which then writes a new baseline.",
        ),
        started_at_ms=since_ms,
        due_at_ms=Millis(since_ms + HOLD_MS),
        observed_at_ms=now_ms,
        offset=None,
    )
