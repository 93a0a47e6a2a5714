"""What the alerts of the ledger mean for a start: the states that clusters begin with, and alerts before Spark is up.

With an empty state, a new Spark checkpoint beside an existing ledger would begin every hold and every alert again:
`initial_states`.

Before Spark is up, and while a query is restarted, the rules that need no history are evaluated on the polls, probes
and failed attempts since. The step evaluates the same rows later: the newer evaluation counts (`Notifying`).
"""

import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from connectors.errors import KraftwatchError
from connectors.observations.observation import Observation, ObservationKind
from connectors.process.wall_clock import wall_ms
from connectors.store.journal_reader import JournalReader
from rules.alert import Alert
from rules.evaluate import BLIND
from rules.firing import AHEAD_MS, Firing
from rules.lifecycle import TrackedCondition, TrackedConditions, notified_conditions
from rules.model.identifiers import Millis
from rules.model.job_state import BlindCluster
from streaming.pipeline.notifying import Notifying
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contract_violations import failure_reason

log = logging.getLogger(__name__)

EARLY_RULES: Final = frozenset({"no-leader", BLIND})
"""They need no history: a quorum without a leader answers no fetch, so its log cannot be read anyway."""


def initial_states(
    clusters: Mapping[str, ClusterSettings], history: Iterable[Alert], firing: Sequence[Alert], *, now_ms: Millis
) -> Mapping[str, bytes]:
    """Returns the initial state of each cluster, by name, that the ledger has alerts of; arguments as below."""
    return {
        name: ClusterMonitor(clusters[name], tracked=tracked).to_bytes()
        for name, tracked in initial_conditions(history, firing, now_ms=now_ms).items()
        if name in clusters
    }


def initial_conditions(
    history: Iterable[Alert], firing: Sequence[Alert], *, now_ms: Millis
) -> Mapping[str, TrackedConditions]:
    """Returns, by cluster name, the conditions of the firing alerts.

    Rows before the newest recorded transition of a cluster are replayed, but change no alert: their alerts were sent.
    Transitions of `EARLY_RULES` do not count: they may have been recorded before any other rule was evaluated.

    `firing` is the newest transition of each firing alert; `now_ms` is the wall clock. Another job of the store, whose
    clock is ahead, may have recorded a later time: nothing would be evaluated until then.
    """
    newest_ms: dict[str, Millis] = {}
    for alert in history:
        counted_ms = Millis(0) if alert.rule in EARLY_RULES else alert.observed_at_ms
        newest_ms[alert.cluster] = max(newest_ms.get(alert.cluster, Millis(0)), counted_ms)
    return {
        cluster: TrackedConditions(
            now_ms=Millis(min(at_ms, now_ms + AHEAD_MS)),
            conditions=notified_conditions(one for one in firing if one.cluster == cluster).conditions,
        )
        for cluster, at_ms in newest_ms.items()
    }


_ROWS_TOGETHER = 16
"""Few: the state is small, and each cluster keeps these rows in the driver's memory."""


class EarlyCluster:
    """The early evaluation of one cluster, on rows from any point of its journal on."""

    def __init__(self, settings: ClusterSettings, tracked: TrackedConditions) -> None:
        """`tracked`: the conditions whose alerts are firing."""
        others_off = {
            rule: each if rule in EARLY_RULES else replace(each, enabled=False)
            for rule, each in settings.thresholds.items()
        }
        of_early_rules = {key: one for key, one in tracked.conditions.items() if one.rule in EARLY_RULES}
        self._monitor = ClusterMonitor(
            replace(settings, thresholds=others_off),
            tracked=replace(tracked, conditions=of_early_rules),
            rows_together=_ROWS_TOGETHER,
            pace_ms=0,
        )
        self._firing: Firing | None = None
        self._until_ms: Millis | None = None
        """The newest evaluated time when the first status of the step arrived."""

    def observe(self, row: Observation) -> Firing | None:
        """Applies one row; returns what fires then by these rules; None: the row is not evaluated."""
        if row.kind is ObservationKind.SNAPSHOT:
            return None
        unread = replace(row, payload=b"") if row.kind is ObservationKind.RECORDS else row
        changed = self._monitor.apply((unread,)).alerts
        self._firing = replace(self._monitor.firing(self._firing, changed), rules=EARLY_RULES)
        return self._firing

    @property
    def blind(self) -> TrackedCondition | None:
        """The condition that no data source of the quorum answers, pending or firing; None: one does."""
        conditions = self._monitor.tracked.conditions.values()
        return next((one for one in conditions if one.facts.unobserved is not None), None)

    def is_superseded(self, evaluated_ms: Millis) -> bool:
        """Returns whether the step, by its newest status, has evaluated what was evaluated here at its first one."""
        if self._until_ms is None:
            self._until_ms = self._monitor.machine.now_ms
        return evaluated_ms >= self._until_ms


_WAIT_S = 1.0
"""How long the thread waits for new rows: pending notifications are sent at least that often."""
_ROWS = 2_000
"""Most rows that are read at once."""


class EarlyEvaluation:
    """A thread of the driver that evaluates the clusters, each until the step has caught up; it ends with the last one.

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
        self._journal, self._notifying, self._store = journal, notifying, notifying.store
        self._begin = self._journal.published_end()
        self._began_ms = wall_ms()
        ledger = notifying.ledger
        known = initial_conditions(ledger.history(), ledger.firing(), now_ms=self._began_ms)
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

    @property
    def blind(self) -> Sequence[BlindCluster]:
        """The clusters of which nothing is observed."""
        return [
            BlindCluster(
                name=name,
                since_ms=found.started_at_ms,
                reasons=frozenset(found.facts.unobserved or ()),
                alert=None,
                critical=True,
            )
            for name, each in list(self._clusters.items())
            if (found := each.blind) is not None
        ]

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
                    del self._clusters[name]
                    self._notifying.end_early(name)
                self._notifying.send()
        except (KraftwatchError, OSError) as problem:
            # The ledger or the disk: the first batch reports it, and ends the job.
            log.warning("nothing more is evaluated before Spark is up: %s", problem)
        finally:
            for name in self._clusters:
                self._notifying.end_early(name)

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
        except Exception as error:  # noqa: BLE001 - it concerns one cluster, and the step reports such a row
            why = failure_reason(error)
            log.warning(
                "cluster %s is not evaluated before Spark is up: %s", row.cluster, why, extra={"cluster": row.cluster}
            )
            del self._clusters[row.cluster]
            self._notifying.end_early(row.cluster)

    def _is_over(self, name: str) -> bool:
        received = self._store.newest(name)
        if received is None:
            return name not in self._store.names
        return received.received_at_ms >= self._began_ms and self._clusters[name].is_superseded(received.status.now_ms)
