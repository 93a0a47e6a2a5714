"""The active silences: of people, of maintenance windows, and of removed clusters."""

from collections.abc import Callable, Sequence

from connectors.delivery.ledger import Ledger
from connectors.store.collection import SilenceStore
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID, NotMonitored, Silence
from streaming.config import Config
from streaming.config.maintenance import AUTHOR, in_force

_REMOVED_CLUSTER_MS = 60_000
"""How long the silence of a removed cluster lasts: it is renewed with each batch."""


class ActiveSilences:
    """Reads the stored silences and the configuration that are in effect at each call."""

    def __init__(
        self,
        stored: SilenceStore,
        ledger: Ledger,
        config: Callable[[], Config],
    ) -> None:
        """Makes the source of silences.

        Args:
            stored: the silences that people made.
            ledger: read by the dispatching thread only.
            config: returns the configuration in effect.
        """
        self._stored = stored
        self._ledger = ledger
        self._config = config

    def of_monitored(self, now_ms: Millis) -> Sequence[Silence]:
        """Returns the silences of monitored clusters: `kraftwatch silence` and maintenance. For any thread."""
        return (*self._stored.current(), *in_force(self._config().maintenance, now_ms))

    def for_dispatch(self, now_ms: Millis) -> Sequence[Silence]:
        """Returns the same with a silence for each removed cluster that has active alerts.

        For the dispatching thread: it alone may read the ledger.
        """
        active = {alert.cluster for alert in self._ledger.firing()}
        removed = active - {section.name for section in self._config().watched} - {JOB_CLUSTER_ID}
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
