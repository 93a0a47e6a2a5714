"""Alerts before Spark is up, and while a query is restarted: of the rules that need no history (`EarlyCluster`).

They are evaluated on the polls, probes and failed attempts since. The processor evaluates the same rows later:
the newer evaluation counts (`Notifying`).
"""

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from connectors.errors import KraftwatchError
from connectors.observations.observation import Observation
from connectors.process.wall_clock import wall_ms
from connectors.store.journal_reader import JournalReader
from rules.lifecycle import TrackedConditions
from rules.model.job_state import BlindCluster
from streaming.pipeline.initial_state import initial_state
from streaming.pipeline.notifying import Notifying
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contract_violations import failure_reason
from streaming.replay.early_cluster import EarlyCluster

log = logging.getLogger(__name__)

_WAIT_S: Final = 1.0
"""How long the thread waits for new rows: pending notifications are sent at least that often."""
_ROWS: Final = 2_000
"""Most rows that are read at once."""


class EarlyEvaluation:
    """A thread of the driver that evaluates each cluster until the processor has caught up; it ends with the last one.

    On a busy machine Spark takes minutes to start, and a minute to restart a query. What is found is recorded in the
    ledger and sent, and so is what was pending when the job before ended. It begins with the rows that are published
    from its creation on.
    """

    def __init__(
        self,
        journal: JournalReader,
        settings: Mapping[str, ClusterSettings],
        *,
        notifying: Notifying,
        unwritten: deque[Observation] | None = None,
    ) -> None:
        """Evaluates nothing yet.

        `settings` by cluster name; `unwritten` gets, from another thread, the rows that a full disk does not take.
        """
        self._unwritten = deque[Observation]() if unwritten is None else unwritten
        self._newest: dict[str, int] = {}
        """The sequence of the newest row of each cluster: those that are read again when they were stored are older."""
        self._journal, self._notifying = journal, notifying
        self._begin, self._began_ms = journal.published_end(), wall_ms()
        ledger = notifying.ledger
        known = initial_state(ledger.firing(), ledger.history(), now_ms=self._began_ms).clusters
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
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def evaluates_all(self, settings: Mapping[str, ClusterSettings]) -> bool:
        """Returns whether it evaluates each of these clusters: one ends here once the processor has caught up."""
        return self.runs and settings.keys() <= {*self._clusters}

    @property
    def blind(self) -> Sequence[BlindCluster]:
        """The clusters of which nothing is observed."""
        return [found for cluster in list(self._clusters.values()) if (found := cluster.blind) is not None]

    def _run(self) -> None:
        try:
            while self._clusters and not self._stopping.is_set():
                end = min(self._journal.wait_beyond(self._begin, _WAIT_S), self._begin + _ROWS)
                for row in self._journal.read(self._begin, end):
                    self._observe(row)
                self._begin = end
                while self._unwritten:
                    self._observe(self._unwritten.popleft())
                for name in [name for name in self._clusters if self._is_over(name)]:
                    self._end(name)
                self._notifying.send()
        except (KraftwatchError, OSError) as problem:
            # The ledger or the disk: the first batch reports it, and ends the job.
            log.warning("nothing more is evaluated before Spark is up: %s", problem)
        finally:
            for name in [*self._clusters]:
                self._end(name)

    def _observe(self, row: Observation) -> None:
        cluster = self._clusters.get(row.cluster)
        if row.sequence <= self._newest.get(row.cluster, -1):
            return
        self._newest[row.cluster] = row.sequence
        try:
            if cluster is not None and (found := cluster.observe(row)) is not None:
                self._notifying.put_early(found)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - it concerns one cluster, and the processor reports such a row
            why, name = failure_reason(error), row.cluster
            log.warning("cluster %s is not evaluated before Spark is up: %s", name, why, extra={"cluster": name})
            self._end(name)

    def _end(self, name: str) -> None:
        del self._clusters[name]
        self._notifying.end_early(name)

    def _is_over(self, name: str) -> bool:
        received = self._notifying.store.newest(name)
        if received is None:
            return name not in self._notifying.store.names
        return received.received_at_ms >= self._began_ms and self._clusters[name].is_superseded(received.status.now_ms)
