"""The active silences: of people, of maintenance windows, and of removed clusters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from connectors.delivery.ledger import Ledger
from connectors.store.collection import SilenceStore
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID, NotMonitored, Silence
from streaming.config import Config
from streaming.config.maintenance import AUTHOR, in_force

_REMOVED_CLUSTER_MS = 60_000
"""How long the silence of a removed cluster lasts: it is renewed with each batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveSilences:
    """Reads the stored silences and the configuration that are in effect at each call."""

    stored: SilenceStore
    """Those that people made."""
    ledger: Ledger
    """Read by the dispatching thread only."""
    config: Callable[[], Config]

    def of_monitored(self, now_ms: Millis) -> Sequence[Silence]:
        """Returns the silences of monitored clusters: `kraftwatch silence` and maintenance. For any thread."""
        return (*self.stored.current(), *in_force(self.config().maintenance, now_ms))

    def for_dispatch(self, now_ms: Millis) -> Sequence[Silence]:
        """Returns the same with a silence for each removed cluster that has active alerts.

        For the dispatching thread: it alone may read the ledger.
        """
        active = {alert.cluster for alert in self.ledger.firing()}
        removed = active - {section.name for section in self.config().watched} - {JOB_CLUSTER_ID}
        not_watched = (_removed(cluster, now_ms) for cluster in sorted(removed))
        return (*self.of_monitored(now_ms), *not_watched)


def _removed(cluster: str, now_ms: Millis) -> Silence:
    """Its alerts continue when the cluster is configured again; until then nothing shows whether they still hold."""
    return NotMonitored(
        id=f"not-watched-{cluster}",
        cluster=cluster,
        starts_at_ms=now_ms,
        ends_at_ms=Millis(now_ms + _REMOVED_CLUSTER_MS),
        author=AUTHOR,
        comment="this cluster is no longer monitored",
    )
