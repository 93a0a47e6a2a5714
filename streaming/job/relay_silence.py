"""RelaySilence: raises an alert when no rows of a cluster come from its relay, because the rules then evaluate nothing.

Rules get their time from rows: without rows they report nothing, and nothing is not healthy. A cluster is silent if its
topic was read to its end, and no row of it was there. In a backlog, or on a busy machine, its rows may be in the topic
and not read yet.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from connectors.delivery.job_alert import job_alert, resolved_alert
from rules.alert import Alert
from rules.evaluate import BLIND
from rules.finding import Severity
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from rules.notifications.route import CLUSTERS, JOB_CLUSTER_ID

HOLD_MS = Millis(60_000)
"""How long no row is accepted before the alert fires: a relay that runs sends several rows a second."""
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
        self._read_at: dict[str, float] = {}
        """When each topic was last read to its end."""

    @property
    def firing(self) -> Mapping[str, Alert]:
        """The firing alerts by cluster."""
        return self._firing

    def rows_arrived(self, clusters: Iterable[str]) -> None:
        """Notes that a batch had rows of these clusters."""
        for name in clusters:
            self._since[name] = self._clock()
            self._arrived.add(name)

    def due(self, clusters: Mapping[str, str], now_ms: Millis, *, read_s_ago: Mapping[str, float]) -> Sequence[Alert]:
        """Returns the transitions that are due.

        Args:
            clusters: the monitored ones, with their topics; the alert of another one is resolved.
            now_ms: the wall clock.
            read_s_ago: how long ago a topic was read to its end, for the topics of which it is known.
        """
        now = self._clock()
        # A cluster that is added again has had no relay to wait for. Another thread may note a row meanwhile.
        for name in {*self._since} - clusters.keys():
            del self._since[name]
        for topic, ago_s in read_s_ago.items():
            self._read_at[topic] = max(self._read_at.get(topic, 0.0), now - ago_s)
        ended = [name for name in self._firing if name not in clusters or name in self._arrived]
        transitions = [
            resolved_alert(self._firing.pop(name), now_ms, f"The relay of cluster {name} {_NOW[name in clusters]}.")
            for name in ended
        ]
        for name, topic in clusters.items():
            since = self._since.setdefault(name, now)
            if name not in self._firing and 1000 * (self._read_at.get(topic, 0.0) - since) >= HOLD_MS:
                self._firing[name] = alert = _alert(name, topic, Millis(now_ms - round(1000 * (now - since))), now_ms)
                self._arrived.discard(name)
                transitions.append(alert)
        return transitions


def _alert(name: str, topic: str, since_ms: Millis, now_ms: Millis) -> Alert:
    return job_alert(
        BLIND,
        _SUBJECT + name,
        Severity.CRITICAL,
        summary=f"No row of cluster {name} has come from its relay since {utc_text(since_ms)}: its state is unknown.",
        evidence={CLUSTERS: [name], "cluster": name, "topic": topic, "newest_row_at_ms": since_ms},
        remedy=(
            f"# Check that the relay of cluster {name} runs, and read log/driver.log in its folder.",
            "# If it runs: kraftwatch_relay_failing and /healthz of the relay say why the topic accepts no rows.",
            "# If it sends rows: an alert data-contract-broken says which are refused.",
            "# If the cluster was added to a running job: send SIGHUP to its relay, which then writes a new baseline.",
        ),
        started_at_ms=since_ms,
        due_at_ms=Millis(since_ms + HOLD_MS),
        now_ms=now_ms,
    )
