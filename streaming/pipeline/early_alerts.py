"""What the alerts of the ledger mean for a start: the states that clusters begin with, and alerts before Spark is up.

With an empty state, a new Spark checkpoint beside an existing ledger would send each firing alert again after its hold,
and would never resolve an alert that ended in the meantime: `initial_states`.

Before Spark is up, the rules that need no history are evaluated on the polls, probes and failed attempts of this start.
The step evaluates the same rows later, and may find the same condition at another row: `continued` makes its
transitions those of the alert that was sent.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from connectors.delivery.ledger import Ledger
from connectors.errors import KraftwatchError
from connectors.observations.observation import Observation, ObservationKind
from connectors.relay.relay_message import AHEAD_MS
from connectors.store.journal_reader import JournalReader
from connectors.wall_clock import wall_ms
from rules.alert import Alert, AlertState
from rules.checks import monitor_blind
from rules.evaluate import BLIND
from rules.lifecycle import TrackedCondition, TrackedConditions
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contract_violations import failure_reason
from streaming.status.status_store import StatusStore

log = logging.getLogger(__name__)

EARLY_RULES = ("no-leader", BLIND)
"""They need no history: a quorum without a leader answers no fetch, so its log cannot be read anyway."""


def continued(
    alerts: Iterable[Alert], newest: Callable[[str], Alert | None], *, every_rule: bool = False
) -> list[Alert]:
    """Returns the transitions as those of the alerts in the ledger, without those that were recorded already.

    `newest` returns the newest recorded transition with a fingerprint. `every_rule`: another job may have recorded
    alerts of any rule, with its own state; else only those of `EARLY_RULES` may have been found twice.
    """
    known: dict[str, Alert] = {}
    kept: list[Alert] = []
    for alert in alerts:
        before = known.get(alert.fingerprint) or newest(alert.fingerprint)
        concerned = every_rule or alert.rule in EARLY_RULES
        after = _continued(alert, before) if concerned and before is not None else alert
        if after is not None:
            known[alert.fingerprint] = after
            kept.append(after)
    return kept


def _continued(alert: Alert, newest: Alert) -> Alert | None:
    if alert.cluster_id == JOB_CLUSTER_ID or alert.key == newest.key:
        return alert
    firing = newest.state is AlertState.FIRING
    repeated = alert.state is newest.state and (not firing or alert.severity is newest.severity)
    # Two evaluations of one row may find an early rule's condition in different ways.
    twice = alert.rule in EARLY_RULES and alert.observed_at_ms == newest.observed_at_ms
    if repeated or twice or alert.observed_at_ms < newest.observed_at_ms:
        return None
    return replace(alert, started_at_ms=newest.started_at_ms) if firing else alert


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
    Transitions of `EARLY_RULES` do not count: they may have been recorded before any other rule was evaluated, and
    `continued` drops theirs that are repeated.

    `firing` is the newest transition of each firing alert; `now_ms` is the wall clock. Another job of the store, whose
    clock is ahead, may have recorded a later time: nothing would be evaluated until then.
    """
    conditions: dict[str, dict[str, TrackedCondition]] = {}
    for alert in firing:
        conditions.setdefault(alert.cluster, {})[f"{alert.rule} {alert.subject}"] = _condition(alert)
    newest_ms: dict[str, Millis] = {}
    for alert in history:
        counted_ms = Millis(0) if alert.rule in EARLY_RULES else alert.observed_at_ms
        newest_ms[alert.cluster] = max(newest_ms.get(alert.cluster, Millis(0)), counted_ms)
    return {
        cluster: TrackedConditions(now_ms=Millis(min(at_ms, now_ms + AHEAD_MS)), conditions=conditions.get(cluster, {}))
        for cluster, at_ms in newest_ms.items()
    }


def _condition(alert: Alert) -> TrackedCondition:
    return TrackedCondition(
        rule=alert.rule,
        subject=alert.subject,
        cluster_id=alert.cluster_id,
        started_at_ms=alert.started_at_ms,
        due_at_ms=alert.due_at_ms,
        last_seen_at_ms=alert.observed_at_ms,
        # Rows before it are evaluated again: it can only end after them.
        clearing_since_ms=alert.observed_at_ms if alert.rule in EARLY_RULES else None,
        notified_severity=alert.severity,
        summary=alert.summary,
        evidence=alert.evidence,
    )


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
        )
        self._until_ms: Millis | None = None
        """The newest evaluated time when the first status of the step arrived."""

    def observe(self, row: Observation) -> Sequence[Alert]:
        """Applies one row; returns the transitions to send."""
        if row.kind is ObservationKind.SNAPSHOT:
            return ()
        unread = replace(row, payload=b"") if row.kind is ObservationKind.RECORDS else row
        return self._monitor.apply((unread,)).alerts

    def firing(self) -> Iterable[tuple[str, str]]:
        """Returns (rule, subject) of each firing alert."""
        conditions = self._monitor.tracked.conditions.values()
        return [(one.rule, one.subject) for one in conditions if one.notified_severity is not None]

    @property
    def observes_nothing(self) -> bool:
        """Whether `monitor-blind` is pending or fires because no data source of the quorum answers."""
        conditions = self._monitor.tracked.conditions.values()
        return any(one.rule == BLIND and monitor_blind.observes_nothing(one.evidence) for one in conditions)

    def is_superseded(self, evaluated_ms: Millis, firing: Iterable[tuple[str, str]]) -> bool:
        """Returns whether the step has evaluated everything that is evaluated here, and knows each firing alert."""
        if self._until_ms is None:
            self._until_ms = self._monitor.machine.now_ms
        return evaluated_ms >= self._until_ms and set(self.firing()) <= set(firing)


_WAIT_S = 1.0
"""How long the thread waits for new rows: pending notifications are sent at least that often."""
_ROWS = 2_000
"""Most rows that are read at once."""


class EarlyEvaluation:
    """A thread of the driver that evaluates the clusters, each until the step has caught up; it ends with the last one.

    On a busy machine Spark takes minutes to start. The alerts are recorded in the ledger and sent, and so is what was
    pending when the job before ended. It begins with the rows that are published from its creation on.
    """

    def __init__(
        self,
        journal: JournalReader,
        settings: Mapping[str, ClusterSettings],
        *,
        ledger: Ledger,
        store: StatusStore,
        send: Callable[[Sequence[Alert]], None],
    ) -> None:
        """`settings` by cluster name; `store` has the statuses of the step; `send` also sends what is pending."""
        self._journal, self._store, self._send = journal, store, send
        self._begin = self._journal.published_end()
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
