"""Early evaluation: until Spark is up, a thread of the driver evaluates the rules that need no history.

On a busy machine Spark takes minutes to start. Meanwhile `streaming.pipeline.early_alerts` finds a missing leader and a
blind monitor; the alerts are recorded in the ledger and sent, and so is what was pending when the job before ended.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from connectors.delivery.ledger import Ledger
from connectors.errors import KraftwatchError
from connectors.observations.observation import Observation
from connectors.store.journal_reader import JournalReader
from connectors.wall_clock import wall_ms
from rules.alert import Alert
from rules.lifecycle import TrackedConditions
from streaming.pipeline.early_alerts import EarlyCluster, initial_conditions
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contract_violations import failure_reason
from streaming.status.status_store import StatusStore

log = logging.getLogger(__name__)

_WAIT_S = 1.0
"""How long the thread waits for new rows: pending notifications are sent at least that often."""
_ROWS = 2_000
"""Most rows that are read at once."""


class EarlyEvaluation:
    """A thread that evaluates the clusters, each until the step has caught up; it ends with the last of them."""

    def __init__(
        self,
        journal: JournalReader,
        settings: Mapping[str, ClusterSettings],
        *,
        ledger: Ledger,
        store: StatusStore,
        send: Callable[[Sequence[Alert]], None],
    ) -> None:
        """Begins with the rows that are published from now on.

        Args:
            journal: that of the running gatherer.
            settings: by cluster name.
            ledger: says which alerts are firing.
            store: holds the statuses of the step.
            send: records and sends alerts, and what is pending.
        """
        self._journal, self._store, self._send = journal, store, send
        self._begin = journal.published_end()
        known = initial_conditions(ledger.history(), ledger.firing(), now_ms=wall_ms())
        self._clusters = {
            name: EarlyCluster(each, known.get(name, TrackedConditions())) for name, each in settings.items()
        }
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="early evaluation", daemon=True)

    def __enter__(self) -> "EarlyEvaluation":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def blind(self) -> Sequence[str]:
        """The clusters of which nothing is observed."""
        return [name for name, each in list(self._clusters.items()) if each.observes_nothing]

    def _run(self) -> None:
        try:
            while self._clusters and not self._stopping.is_set():
                end = min(self._journal.wait_beyond(self._begin, _WAIT_S), self._begin + _ROWS)
                alerts = [alert for row in self._journal.read(self._begin, end) for alert in self._observed(row)]
                self._begin = end
                self._send(alerts)
                for name in [name for name in self._clusters if self._is_over(name)]:
                    del self._clusters[name]
        except (KraftwatchError, OSError) as problem:
            # The ledger or the disk: the first batch reports it, and ends the job.
            log.warning("nothing more is evaluated before Spark is up: %s", problem)

    def _observed(self, row: Observation) -> Sequence[Alert]:
        cluster = self._clusters.get(row.cluster)
        try:
            return () if cluster is None else cluster.observe(row)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - it concerns one cluster, and the step reports such a row
            log.warning("cluster %s is not evaluated before Spark is up: %s", row.cluster, failure_reason(error))
            del self._clusters[row.cluster]
            return ()

    def _is_over(self, name: str) -> bool:
        received = self._store.newest(name)
        if received is None:
            return name not in self._store.names
        status = received.status
        pending = {(one.rule, one.subject) for one in status.pending}
        firing = {(one.rule, one.subject) for one in status.findings} - pending
        return self._clusters[name].is_superseded(status.now_ms, firing)
