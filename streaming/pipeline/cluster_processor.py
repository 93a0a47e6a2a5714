"""The processor decodes observations, applies them to a cluster's state and yields what fires; Spark keeps the state.

Spark calls it for a group of clusters (`schema.GROUPS`). Each is evaluated on its own; the state of a cluster without
rows in the batch is neither decoded nor encoded. All decisions are in `streaming.replay.cluster_monitor`.

An exception here would end the query for all clusters, and again after each restart. So whatever raises while one
cluster's rows are decoded, applied, evaluated or rendered is contained: it becomes a violated data contract of that
cluster, and the row goes into quarantine. Only a stored state ends the query: one of another version, or whose pages
are lost, is replaced by a new one (`UnusableStateError`); about one of another cluster only an operator can decide.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeAlias, TypeVar

import pandas as pd
from pyspark.sql.streaming.state import GroupState

from connectors.errors import UsageError
from connectors.gather.publisher import TOGETHER
from connectors.observations.log_event import LeaderChanged
from connectors.observations.observation import Observation
from connectors.store.alert_codec import FIRING
from rules.alert import Alert
from rules.finding import Plain, Thresholds
from rules.firing import Firing
from rules.model.identifiers import Millis
from streaming.pipeline.evaluation_budget import MOST_WAITING_BYTES, EvaluationBudget
from streaming.pipeline.output_rows import (
    WAITING_ROWS,
    EvaluationTimes,
    OutputKind,
    OutputRow,
    observations,
    output_frame,
    quarantined_rows,
    quarantined_state,
    refused_messages,
    snapshot_row,
)
from streaming.pipeline.page_files import PageFiles
from streaming.pipeline.schema import REFUSED, pack_states, unpack_states
from streaming.pipeline.spark.python_worker import begin_task
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contract_violations import READS, RENDERS, failure_reason
from streaming.replay.decoded_row import DecodedRow, decoded_row
from streaming.replay.state_codec import DamagedStateError, readable_conditions, snapshot_of, stored_references
from streaming.status.build_status import job_cluster_status
from streaming.status.cluster_status import to_bytes

STATUS_MS = 1_000
"""A status follows the previous one after this long at the earliest; with an alert or a quarantined row at once."""
MOST_STATUS_MS = 5_000
"""The same in a job of many clusters: a status costs more than the evaluation of a quiet cluster."""
STATUS_MS_PER_CLUSTER = 20
REPEATED_MS = 30_000
"""How often at least it is said what fires, while something does."""
SNAPSHOT_MS = 600_000
"""How often a state goes into the journal: the rows of this time are replayed in some tenths of a second. One of more
than 600 kB goes there more rarely, once in a second for each kB: its snapshots must not displace the rows."""
_T = TypeVar("_T")
_Render: TypeAlias = Callable[[str, ClusterMonitor], Iterable[OutputRow]]


class _Cached(NamedTuple):
    """The decoded state of a cluster; valid while blob and settings are the same."""

    blob: bytes
    settings: ClusterSettings
    monitor: ClusterMonitor
    status_ms: Millis | None
    """The time of the newest status that this worker yielded."""
    firing: Firing | None
    """The newest that this worker yielded; None: it has just decoded the state."""
    pages: PageFiles | None


class ClusterProcessor:
    """The function of `applyInPandasWithState`. Spark pickles it to the workers: it holds settings only."""

    _cache: ClassVar[dict[str, _Cached]] = {}
    """What a worker keeps between batches, by cluster."""

    def __init__(
        self,
        clusters: Mapping[str, ClusterSettings],
        *,
        initial: Mapping[str, bytes] | None = None,
        spark_folder: Path | None = None,
        shared: Path | None = None,
        snapshots: bool = False,
    ) -> None:
        """Makes the function, with the settings of each cluster by name.

        Args:
            initial: the states of clusters that have none (`initial_state`); others begin without observations.
            spark_folder: Spark's checkpoint, for the pages of large states; None: they are in the states.
            shared: the file that executors on other machines must find; None: all is on one machine.
            snapshots: yields states for the journal.
        """
        self._clusters = _with_shared_thresholds(clusters)
        self._initial = initial or {}
        self._spark_folder = spark_folder
        self._shared = shared
        self._snapshots = snapshots
        self._status_ms = min(max(STATUS_MS, STATUS_MS_PER_CLUSTER * len(clusters)), MOST_STATUS_MS)
        # Spark unpickles the processor for each task.
        self._task_began = False
        self._budget: EvaluationBudget | None = None
        """None for a single cluster: no other waits for it."""

    def __call__(self, key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        """Applies one micro-batch of a group of clusters, or of refused messages; yields rows of `schema.OUTPUT`."""
        if not self._task_began:
            self._task_began = True
            begin_task(self._shared)
            self._budget = EvaluationBudget() if len(self._clusters) > 1 else None
        if key == (REFUSED,):
            # They have no cluster, and leave no state.
            yield from (output_frame(refused_messages(frame)) for frame in frames)
            return
        states = unpack_states(bytes(state.get[0])) if state.exists else {}
        before = dict(states)
        output = self.apply(observations(frames), states)
        if states != before:
            state.update((pack_states(states),))
        if output:
            yield output_frame(output)

    def apply(self, rows: Mapping[str, Sequence[Observation]], states: dict[str, bytes]) -> Sequence[OutputRow]:
        """Applies the rows of each cluster to its state, which is replaced; returns what they brought about."""
        output: list[OutputRow] = []
        for cluster, of_cluster in rows.items():
            settings = self._clusters.get(cluster)
            if settings is None:
                # The journal may still hold rows of a cluster that is no longer configured.
                continue
            before = states.get(cluster, self._initial.get(cluster))
            states[cluster], found = self._applied(settings, before, of_cluster)
            output += found
        return output

    def _applied(
        self, settings: ClusterSettings, blob: bytes | None, rows: Sequence[Observation]
    ) -> tuple[bytes, Sequence[OutputRow]]:
        """Applies rows of one cluster, or some of them; returns its state, and what they brought about."""
        cluster = settings.name
        output: list[OutputRow] = []
        cached = self._cached(settings, blob)
        if cached is not None:
            monitor, status_ms, pages, before = cached.monitor, cached.status_ms, cached.pages, cached.firing
        else:
            pages, status_ms, before = self.pages(cluster), None, None
            monitor, damage = _restored(settings, blob, rows[0], pages, self._initial.get(cluster))
            if damage is not None:
                output.append(damage)
        waited, before_ms = bool(monitor.waiting), monitor.machine.now_ms
        changed, found = self._apply_within_budget(monitor, rows, status_ms)
        output += found
        renders: list[_Render] = [partial(_evaluated, together=len(self._clusters) <= TOGETHER)]
        renders += [_waiting] if waited or monitor.waiting else []
        now_ms = monitor.machine.now_ms
        due = bool(output or changed) or status_ms is None or now_ms - status_ms >= self._status_ms
        if due:
            renders.append(_status)
            status_ms = now_ms
        if self._snapshots and _crossed(before_ms, now_ms, SNAPSHOT_MS):
            renders.append(partial(_snapshot, before_ms=before_ms, pages=pages))
        rendered, before, failure = _fires(cluster, monitor, before, changed, with_texts=due)
        for render in renders:
            part, reason = _contained(render, cluster, monitor)
            rendered += part
            failure = failure or reason
        if failure is not None:
            monitor.machine.record_failure(RENDERS, failure)
            monitor.to_bytes()
        after = monitor.stored
        assert after is not None, "it was stored after the rows"
        if pages is not None:
            pages.stored(stored_references(cluster, after))
        ClusterProcessor._cache[cluster] = _Cached(after, settings, monitor, status_ms, before, pages)
        return after, [*output, *rendered]

    def _apply_within_budget(
        self, monitor: ClusterMonitor, rows: Sequence[Observation], status_ms: Millis | None
    ) -> tuple[Sequence[Alert], Sequence[OutputRow]]:
        """Applies the rows that wait and the new ones until the budget is spent, and stores the state with the rest.

        Returns:
            The transitions, and what goes into quarantine. Before an election also the status, if the newest one is
            older than `status_ms`: /metrics measures an election from the newest record before it.
        """
        cluster = monitor.settings.name
        due = (*monitor.waiting, *rows)
        applied = 0
        alerts: list[Alert] = []
        output: list[OutputRow] = []
        budget = self._budget
        if budget is not None:
            budget.begin_cluster((rows[-1].observed_at_ms - rows[0].observed_at_ms) / 1_000)
            if sum(len(row.payload) for row in due) > MOST_WAITING_BYTES:
                budget = None
        while applied < len(due) and (not applied or budget is None or not budget.is_spent):
            row = decoded_row(due[applied])
            if status_ms is not None and status_ms < monitor.machine.now_ms and _has_election(row):
                output += _contained(_status, cluster, monitor)[0]
                status_ms = None
            applied += 1
            outcome = monitor.apply((row,))
            alerts += outcome.alerts
            output += quarantined_rows(cluster, (*outcome.undecodable, *outcome.failed))
        monitor.waiting = due[applied:]
        stored = monitor.apply((), store=True)
        return [*alerts, *stored.alerts], [*output, *quarantined_rows(cluster, stored.failed)]

    @classmethod
    def forget(cls) -> None:
        """Frees what this process keeps between batches."""
        cls._cache.clear()

    def pages(self, cluster: str) -> PageFiles | None:
        """Returns the pages of a cluster's state; None if they are in the state."""
        return None if self._spark_folder is None else PageFiles(self._spark_folder, cluster)

    def _cached(self, settings: ClusterSettings, blob: bytes | None) -> _Cached | None:
        cached = ClusterProcessor._cache.pop(settings.name, None)
        # A worker outlives a query, and the next query may have other settings.
        return cached if cached is not None and cached[:2] == (blob, settings) else None


def _with_shared_thresholds(clusters: Mapping[str, ClusterSettings]) -> dict[str, ClusterSettings]:
    """Returns equal settings in which equal thresholds are one object: Spark unpickles them for every task."""
    distinct: list[Mapping[str, Thresholds]] = []
    shared: dict[str, ClusterSettings] = {}
    for name, settings in clusters.items():
        known = next((each for each in distinct if each == settings.thresholds), None)
        if known is None:
            distinct.append(settings.thresholds)
        shared[name] = settings if known is None else replace(settings, thresholds=known)
    return shared


def _restored(
    settings: ClusterSettings, blob: bytes | None, first: Observation, pages: PageFiles | None, initial: bytes | None
) -> tuple[ClusterMonitor, OutputRow | None]:
    """Returns the monitor of a stored state.

    For a damaged state: a new monitor that reports it, with the alerts of `initial` if its own cannot be read, and the
    state for quarantine. It misses the records before the first row, as those of any gap in the log.
    """
    cluster = settings.name
    try:
        return ClusterMonitor.restored(blob, settings, pages), None
    except DamagedStateError as error:
        reason = str(error)
    except (UsageError, MemoryError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a state that cannot be read concerns this cluster only
        reason = f"the checkpoint's state of cluster {cluster} is damaged: {failure_reason(error)}"
    assert blob is not None
    monitor = ClusterMonitor(settings, pages, tracked=readable_conditions(cluster, blob, initial))
    monitor.machine.forget_log()
    violations = monitor.machine.contract_violations
    violations.failed(READS, reason, sequence=first.sequence, now_ms=Millis(first.observed_at_ms))
    monitor.to_bytes()
    return monitor, quarantined_state(cluster, blob, reason)


def _fires(
    cluster: str, monitor: ClusterMonitor, before: Firing | None, changed: Sequence[Alert], *, with_texts: bool
) -> tuple[list[OutputRow], Firing | None, str | None]:
    """Returns the row of what fires, if the worker yielded another one `before`; what fires; and what failed.

    If an alert cannot be rendered, all are rendered without their evidence.

    Args:
        changed: the transitions since `before`.
        with_texts: whether another text alone makes a row.
    """
    try:
        now = monitor.firing(before, changed)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a state that cannot be evaluated concerns this cluster only
        return [], before, f"could not be evaluated: {failure_reason(error)}"
    if before is not None and not _differs(now, before, with_texts=with_texts):
        return [], before, None
    rows, failure = _contained(_firing, cluster, now)
    if failure is not None:
        rows, _ = _contained(_firing, cluster, _without_evidence(now, failure))
    return rows, now, failure


def _differs(now: Firing, before: Firing, *, with_texts: bool) -> bool:
    # The ledger compares how long an alert has said the same.
    is_old = bool(now.alerts) and now.evaluated_ms - before.evaluated_ms >= REPEATED_MS
    if now.ended or is_old or now.kept != before.kept:
        return True
    parts = None if with_texts else 3
    return [text[:parts] for text in _texts(now)] != [text[:parts] for text in _texts(before)]


def _texts(now: Firing) -> list[tuple[object, ...]]:
    return [
        (alert.rule, alert.subject, alert.severity, alert.summary, alert.evidence, alert.remedy) for alert in now.alerts
    ]


def _without_evidence(now: Firing, reason: str) -> Firing:
    evidence: Mapping[str, Plain] = {"evidence": reason}
    return replace(
        now,
        alerts=tuple(replace(alert, evidence=evidence) for alert in now.alerts),
        ended=tuple(
            replace(
                alert,
                fired=replace(alert.fired, evidence=evidence),
                resolved=replace(alert.resolved, evidence=evidence),
            )
            for alert in now.ended
        ),
    )


def _contained(
    render: Callable[[str, _T], Iterable[OutputRow]], cluster: str, value: _T
) -> tuple[list[OutputRow], str | None]:
    """Returns the rows of a value, or none of them and the reason if it cannot be rendered."""
    try:
        return list(render(cluster, value)), None
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - what cannot be rendered must not end the query for all clusters
        return [], f"could not be rendered: {failure_reason(error)}"


def _has_election(row: DecodedRow) -> bool:
    return any(isinstance(event, LeaderChanged) for event in row.events)


def _firing(cluster: str, now: Firing) -> Iterator[OutputRow]:
    yield OutputKind.FIRING, cluster, "", FIRING.dump_json(now).decode()


def _crossed(before_ms: Millis, now_ms: Millis, every_ms: int) -> bool:
    return before_ms // every_ms != now_ms // every_ms


def _snapshot(
    cluster: str, monitor: ClusterMonitor, *, before_ms: Millis, pages: PageFiles | None
) -> Iterator[OutputRow]:
    assert monitor.stored is not None, "it was stored after the rows"
    state = snapshot_of(cluster, monitor.stored, pages)
    if _crossed(before_ms, monitor.machine.now_ms, max(SNAPSHOT_MS, len(state))):
        yield snapshot_row(cluster, monitor.machine, state)


def _status(cluster: str, monitor: ClusterMonitor) -> Iterator[OutputRow]:
    facts, evaluation = monitor.evaluated
    status = job_cluster_status(facts, monitor.settings.thresholds, evaluation, monitor.tracked)
    yield OutputKind.STATUS, cluster, "", to_bytes(status).decode()


def _waiting(cluster: str, monitor: ClusterMonitor) -> Iterator[OutputRow]:
    """Yields how many bytes of rows wait to be applied, and since when: 0 when none waits any more."""
    yield OutputKind.WAITING, cluster, "", WAITING_ROWS.dump_json(monitor.waiting_rows).decode()


def _evaluated(cluster: str, monitor: ClusterMonitor, *, together: bool) -> Iterator[OutputRow]:
    """Yields when the cluster is evaluated next, and until when its rows may wait.

    `together`: the job's clusters are so few that their quiet rows are published together: a batch for the evaluation
    of each in between costs more than to look ahead once more.
    """
    quiet_until_ms = monitor.furthest_quiet_until_ms if together else monitor.quiet_until_ms
    times = EvaluationTimes(due_ms=monitor.poll_at_ms, quiet_until_ms=quiet_until_ms, now_ms=monitor.machine.now_ms)
    yield OutputKind.EVALUATED, cluster, "", json.dumps(times)
