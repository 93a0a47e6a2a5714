"""JobMonitor: what a job observes of itself and its input in; what fires about the job out."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from connectors.process.wall_clock import RowClock, StepDetector, steady_ms, wall_ms
from rules.alert import Alert
from rules.checks import monitor_blind
from rules.evaluate import BLIND, evaluate_job
from rules.finding import Severity, Thresholds
from rules.firing import Firing
from rules.job.monitor_degraded import (
    CLOCK_LASTS_MS,
    CUT_OFF,
    REFUSED_LASTS_MS,
    SETTLED_MS,
    cut_off,
    refused_subject,
)
from rules.lifecycle import TrackedConditions, advance, firing
from rules.model.identifiers import Millis
from rules.model.job_state import (
    JOB_CLUSTER_ID,
    AuditState,
    BlindCluster,
    ClockStep,
    JobState,
    MissingDependency,
    RefusedRows,
    RelayState,
    SinkState,
    WaitingLog,
)
from rules.model.subject import Subject
from rules.notifications.route import Silence
from streaming.job.dependencies import Missing
from streaming.metrics.batch_stats import DeliveredEvaluations
from streaming.pipeline.initial_state import initial_state
from streaming.pipeline.topic_files import TopicState

REPORTED_MS: Final = 30_000
"""A smaller step of the clock changes no time that people act on: the time service corrects some seconds after a
boot."""
_BATCH_LASTS_MS: Final = 30_000
"""How long the newest batch says how late the job is."""
_PENDING_KEPT_MS: Final = 300_000
"""How long a hold goes on while another job notifies: jobs that cannot reach a sink take turns each minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInputs:
    """What the job's parts know at one time."""

    thresholds: Mapping[str, Thresholds]
    clusters: Sequence[str]
    """The configured ones."""
    repeated_ids: Mapping[str, tuple[str, ...]]
    """The cluster ids that several of them have, with the names of these."""
    without_id: Sequence[str]
    """Those that answer, and whose cluster id is not known."""
    topics: Mapping[str, str]
    """By cluster: none for a job that gathers itself."""
    read: TopicState
    """What was read from the topics, also in rows that wait for a batch."""
    blind: Sequence[BlindCluster]
    """Clusters of which nothing is observed, whether or not their alerts fire already."""
    audit: AuditState | None
    """None: its results cannot be read."""
    missing: Sequence[Missing] = ()
    """What the job waits for."""
    understudy_counts: bool = False
    """Whether the job's understudy evaluates, and not Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOffHold(Silence):
    """Suppresses the alerts that say of these clusters that they are not observed: one alert lists them all."""

    blind: frozenset[str]

    def matches(self, alert: Alert) -> bool:
        """Returns whether the alert about all blind clusters reports this one.

        Also when something is observed again: the alert resolves with the evidence of that time.
        """
        return _is_of_quorum(alert) and alert.cluster in self.blind


class JobMonitor:
    """Evaluates the rules about the job; continues the alerts that fire in the ledger whenever it begins to notify.

    Times are those of a `RowClock`, which never go back. After a restart, the time for which an alert about something
    past fires begins again.
    """

    def __init__(
        self,
        inputs: Callable[[], JobInputs],
        *,
        steady: Callable[[], Millis] = steady_ms,
        wall: Callable[[], Millis] = wall_ms,
    ) -> None:
        """`steady` returns milliseconds that only grow."""
        self._inputs, self._steady, self._wall = inputs, steady, wall
        self._clock = RowClock(wall=wall, steady=steady)
        self._steps = StepDetector(steady)
        self._steps.step_ms(wall())
        self._tracked = TrackedConditions()
        self._notifies_since_ms = self._clock.read()
        self._clock_step: ClockStep | None = None
        self._refused: dict[Subject, RefusedRows] = {}
        """By subject."""
        self._waiting: dict[str, WaitingLog] = {}
        self._evaluated: set[str] = set()
        """The clusters of which a status has come since the job started."""
        self._row_at: dict[str, Millis] = {}
        """When rows of each cluster last arrived; before the first ones, when it was first evaluated; steady."""
        self._read_at: dict[str, Millis] = {}
        """When each topic was last read to its end; steady."""
        self._late: tuple[Millis, int] = (steady(), 0)
        """When the newest batch was delivered (steady), and how late it was."""
        self._newest_ms = 0
        self._held: frozenset[str] = frozenset()
        """The clusters that the alert about all blind clusters lists, or has listed."""
        self._cut_off_at_ms: Millis | None = None
        self._held_until_ms: Millis | None = None
        """Until when their own alerts are held back after that alert has resolved."""

    def begin(self, recorded: Sequence[Alert]) -> None:
        """This job begins to notify: continues the alerts about the job that fire in the ledger."""
        now_ms = self._clock.read()
        initial = initial_state(recorded, now_ms=now_ms).job
        if now_ms < initial.tracked.now_ms:
            self._clock = RowClock(not_before_ms=initial.tracked.now_ms, wall=self._wall, steady=self._steady)
        lasting = now_ms - self._tracked.now_ms < _PENDING_KEPT_MS
        pending = {
            key: condition
            for key, condition in self._tracked.conditions.items()
            if lasting and condition.notified_severity is None
        }
        conditions = {**pending, **initial.tracked.conditions}
        self._tracked = TrackedConditions(now_ms=self._tracked.now_ms, conditions=conditions)
        self._notifies_since_ms = now_ms
        if initial.clock_step is not None:
            self._clock_step = replace(initial.clock_step, at_ms=now_ms)
        self._refused |= {refused_subject(rows): replace(rows, newest_ms=now_ms) for rows in initial.refused}
        if initial.cut_off is not None:
            self._held, self._cut_off_at_ms = initial.cut_off, now_ms

    def note_batch(self, batch: DeliveredEvaluations) -> None:
        """Notes which clusters have rows, which rows were refused or wait, and how late they were evaluated."""
        now = self._steady()
        for status in batch.statuses:
            self._row_at[status.cluster] = now
            self._evaluated.add(status.cluster)
        for name, rows in batch.waiting.items():
            self._evaluated.add(name)
            self._waiting.pop(name, None)
            if rows.since_ms is not None:
                self._waiting[name] = WaitingLog(cluster=name, size=rows.size, since_ms=rows.since_ms)
        for body in batch.refused:
            self._note_refused(json.loads(body))
        # A batch may have only a cluster whose relay has a slow clock: the job has not fallen behind by it.
        observed = [each.observed_at_ms for each in batch.statuses if each.observed_at_ms is not None]
        if observed:
            self._newest_ms = max(self._newest_ms, *observed)
            self._late = (now, self._wall() - self._newest_ms)

    def _note_refused(self, row: Mapping[str, Any]) -> None:
        refused = RefusedRows(
            cluster=row["rows_of"],
            part=row["part"],
            reason=row["reason"],
            topic_partition=row["cluster"],
            offset=row["offset"],
            appended_at_ms=row["observed_at_ms"],
            newest_ms=self._clock.read(),
        )
        subject = refused_subject(refused)
        first = self._refused.get(subject, refused)
        self._refused[subject] = replace(first, newest_ms=refused.newest_ms)

    def evaluate(self, recorded: Sequence[Alert], sinks: Sequence[SinkState]) -> Firing:
        """Returns what fires about the job. `recorded`: the alerts that fire in the ledger, of all clusters."""
        inputs = self._inputs()
        state = self._state(inputs, recorded, sinks)
        together = cut_off(state)
        evaluation = evaluate_job(state, inputs.thresholds)
        self._tracked, changed = advance(self._tracked, evaluation, state, inputs.thresholds)
        self._note_cut_off(state, together)
        return firing(self._tracked, evaluation, state, changed=changed)

    def holds(self) -> Sequence[Silence]:
        """Returns what suppresses the alerts of clusters that one alert reports."""
        if not self._held:
            return ()
        return (
            CutOffHold(
                id="cut-off",
                starts_at_ms=Millis(0),
                ends_at_ms=Millis(2**62),
                author=JOB_CLUSTER_ID,
                comment="one alert reports all clusters that this host cannot observe",
                blind=self._held,
            ),
        )

    def _note_cut_off(self, state: JobState, together: Sequence[BlindCluster]) -> None:
        fires = any(condition.about == CUT_OFF for condition in self._tracked.conditions.values())
        if fires:
            self._held |= {cluster.name for cluster in together}
            self._held_until_ms = None
            if together:
                self._cut_off_at_ms = state.now_ms
            return
        self._cut_off_at_ms = None
        if self._held and self._held_until_ms is None:
            # Those that are still blind are sent now; the ends of the others are not.
            still_blind = any(cluster.name in self._held for cluster in state.blind)
            self._held_until_ms = Millis(state.now_ms + (0 if still_blind else SETTLED_MS))
        if self._held_until_ms is not None and state.now_ms >= self._held_until_ms:
            self._held, self._held_until_ms = frozenset(), None

    def _state(self, inputs: JobInputs, recorded: Sequence[Alert], sinks: Sequence[SinkState]) -> JobState:
        now, now_ms = self._steady(), self._clock.read()
        self._note_clock(now_ms)
        self._refused = {
            subject: rows for subject, rows in self._refused.items() if now_ms - rows.newest_ms < REFUSED_LASTS_MS
        }
        names = set(inputs.clusters)
        self._waiting = {name: log for name, log in self._waiting.items() if name in names}
        # A cluster that is added again has had no relay to wait for.
        self._row_at = {name: at for name, at in self._row_at.items() if name in inputs.topics}
        for found, known in ((inputs.read.read_to_end_at, self._read_at), (inputs.read.row_at, self._row_at)):
            for name, at_s in found.items():
                known[name] = Millis(max(known.get(name, 0), round(1_000 * at_s)))
        late_at, late_ms = self._late
        return JobState(
            now_ms=now_ms,
            watched_since_ms=self._notifies_since_ms,
            clock_step=self._clock_step,
            relays=tuple(self._relays(inputs, now, now_ms)),
            refused=tuple(self._refused.values()),
            waiting=tuple(self._waiting.values()),
            not_evaluated=tuple(name for name in inputs.clusters if name not in self._evaluated),
            late_ms=Millis(max(0, late_ms) if now - late_at < _BATCH_LASTS_MS else 0),
            monitored=len(inputs.clusters),
            repeated_ids=inputs.repeated_ids,
            without_id=tuple(inputs.without_id),
            blind=tuple(_blind(inputs, recorded)),
            cut_off=self._held,
            cut_off_at_ms=self._cut_off_at_ms,
            sinks=tuple(sinks),
            missing=tuple(
                MissingDependency(name=missing.name, why=missing.why, since_ms=Millis(now_ms - missing.for_ms))
                for missing in inputs.missing
            ),
            understudy_counts=inputs.understudy_counts,
            audit=inputs.audit,
        )

    def _note_clock(self, now_ms: Millis) -> None:
        wall = self._wall()
        step_ms = self._steps.step_ms(wall)
        if abs(step_ms) >= REPORTED_MS:
            self._clock_step = ClockStep(before_ms=Millis(wall - step_ms), after_ms=wall, at_ms=now_ms)
        elif self._clock_step is not None and now_ms - self._clock_step.at_ms >= CLOCK_LASTS_MS:
            self._clock_step = None

    def _relays(self, inputs: JobInputs, now: Millis, now_ms: Millis) -> Iterator[RelayState]:
        for name, topic in inputs.topics.items():
            row_at = self._row_at.setdefault(name, now)
            read_at = self._read_at.get(topic, row_at)
            yield RelayState(
                cluster=name,
                topic=topic,
                newest_row_ms=Millis(now_ms - (now - row_at)),
                read_to_end_ms=Millis(now_ms - (now - read_at)),
                has_sent=name in self._evaluated,
            )


def _blind(inputs: JobInputs, recorded: Sequence[Alert]) -> list[BlindCluster]:
    names = set(inputs.clusters)
    found = {cluster.name: cluster for cluster in inputs.blind if cluster.name in names}
    for alert in recorded:
        reasons = alert.facts.unobserved
        if alert.cluster in names and reasons is not None:
            found[alert.cluster] = BlindCluster(
                name=alert.cluster,
                since_ms=alert.started_at_ms,
                reasons=frozenset(reasons),
                alert=alert.summary,
                critical=alert.severity is Severity.CRITICAL,
            )
    return [*found.values()]


def _is_of_quorum(alert: Alert) -> bool:
    """Returns whether an alert is `monitor-blind` of a cluster's quorum."""
    return (alert.rule, alert.about) == (BLIND, monitor_blind.QUORUM_SUBJECT) and alert.cluster_id != JOB_CLUSTER_ID
