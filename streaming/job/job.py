"""Job: the parts of a running job, which `started` makes in the order in which each needs those before it."""

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from connectors.delivery.ledger import Ledger
from connectors.errors import UnavailableStoreError
from connectors.kafka.cluster_id_lookup import identify
from connectors.process.signals import SignalFlag
from connectors.process.wall_clock import wall_ms
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.audit_results import AuditResults
from connectors.store.collection import Collection, ServiceSilenceStore, SilenceStore, quarantine_of
from connectors.store.database import Database
from connectors.store.journal_reader import JournalReader
from connectors.store.lease import JobReport, Lease
from streaming.config import Config
from streaming.config.reload import refuse_fixed
from streaming.job.active_silences import ActiveHolds, ActiveSilences
from streaming.job.change_reports import ChangeReports
from streaming.job.cluster_identity import ClusterIds, identify_clusters, record_ids, say_silent
from streaming.job.dependencies import Dependencies
from streaming.job.job_monitor import JobInputs, JobMonitor
from streaming.job.monitoring import Monitoring
from streaming.job.newest_audit import NewestAudit
from streaming.job.responses import SinkResponses
from streaming.job.running import Effective, JobSpec, Running
from streaming.job.start_up import StartUp, open_sinks
from streaming.job.topic_input import identify_in_topics
from streaming.metrics.batch_stats import BatchStats, DeliveredBatch, DeliveredEvaluations
from streaming.pipeline.active_role import ActiveRole, LeaseRole, OnlyJob, job_id
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.topic_files import TopicFiles
from streaming.status.status_store import StatusStore
from streaming.web.application import JobHealth

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What monitors, what notifies, and what is known."""

    running: Running
    checkpoint: Checkpoint
    dependencies: Dependencies
    """What is missing now."""
    monitoring: Monitoring
    store: StatusStore
    quarantine: Collection[dict[str, Any]]
    audits: AuditResults
    silences: ActiveSilences
    acknowledgements: AcknowledgementStore
    notifying: Notifying
    role: OnlyJob | ActiveRole
    """Whether this job notifies."""
    responses: SinkResponses
    batch_stats: BatchStats
    deliver: Deliver
    started_at: float
    """In monotonic seconds."""

    def notify(self) -> None:
        """Sends what is due while no batch comes, and takes what people do in the services of sinks."""
        self.notifying.send()
        self.responses.follow(self.running.sinks)
        if self.notifying.notifies:
            with self.notifying.paused():
                self.batch_stats.firing = self.notifying.ledger.firing()

    def health(self) -> JobHealth:
        """Returns what shows now that the job runs."""
        gatherer = self.monitoring.input.gatherer
        return JobHealth(
            since=self.started_at,
            last_batch_at=self.deliver.last_batch_at,
            last_evaluated_at=self.deliver.last_evaluated_at,
            engine=self.store.engine,
            gatherer_runs=gatherer is None or gatherer.alive,
            gatherer_stalled_s=None if gatherer is None else gatherer.loop_stalled_s,
            folder=self.checkpoint.folder,
            waits_for=self.dependencies.seconds,
        )

    def is_healthy(self) -> bool:
        """Returns whether the heartbeat may say so: the job observes a cluster, and reaches its store and people."""
        health = self.health()
        return (
            health.is_alive
            and (health.is_starting or self.store.observes_any(wall_ms()))
            and self.role.store_answers
            and not self.notifying.nobody_is_reached
        )

    def is_starting(self) -> bool:
        """Returns whether the job has not completed a batch yet."""
        return self.deliver.last_batch_at is None

    def change(self, config: Config) -> Sequence[str]:
        """Puts a changed configuration into effect and returns its changed keys. Unchanged parts continue untouched.

        Raises UsageError if it is invalid: the old one stays in effect.
        """
        running = self.running
        before, identified = running.config, running.identified
        refuse_fixed(before, config)
        spec = JobSpec.of(config)
        recorded = self.checkpoint.cluster_ids()
        if running.gathers:
            changed = [cluster for cluster in spec.clusters if cluster not in running.spec.clusters]
            answered = identify_clusters(changed, recorded, identify)
            if answered.mistakes:
                raise answered.mistakes[0]
            say_silent([str(problem) for problem in answered.unavailable.values()])
        else:
            answered = identify_in_topics(config, self.checkpoint)
            answered.require_all()
        opened = open_sinks(config, running.open_sinks)
        if (target := config.otlp_target()) is not None:
            target.check()
        self.notifying.set_sinks([sink for *_, sink in opened])
        # Nothing below refuses the configuration: only the machine can fail.
        ids = record_ids(self.checkpoint, recorded, answered)
        running.put(Effective(config=config, open_sinks=opened, spec=spec, identified=spec.with_ids(ids)))
        self.store.set_clusters(running.names)
        self.monitoring.change(identified)
        return [key for key in Config.model_fields if getattr(before, key) != getattr(config, key)]

    def record_learned_ids(self) -> None:
        """Records the ids of clusters that were new, and have answered: other clusters' answers are refused from now.

        Called about once a second.
        """
        running, before = self.running, self.running.identified
        newest = {name: received for name in running.without_id if (received := self.store.newest(name)) is not None}
        found = {name: received.status.cluster_id for name, received in newest.items()}
        learned = ClusterIds(ids={name: id_ for name, id_ in found.items() if id_ is not None}, unavailable={})
        if not learned.ids:
            return
        try:
            record_ids(self.checkpoint, self.checkpoint.cluster_ids(), learned)
        except UnavailableStoreError:
            # What is missing says so: it is tried again.
            return
        for name, cluster_id in learned.ids.items():
            log.warning("cluster %s answers: its cluster id is %s", name, cluster_id, extra={"cluster": name})
        running.put_ids(learned.ids)
        self.monitoring.change(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobParts:
    """The parts that know what the rules about the job evaluate."""

    running: Running
    monitoring: Monitoring
    store: StatusStore
    dependencies: Dependencies
    audit: NewestAudit

    def inputs(self) -> JobInputs:
        """Returns what they know now."""
        # What relays observe says nothing about this host.
        blind = self.store.blind() if self.running.gathers else []
        return JobInputs(
            thresholds=self.running.thresholds,
            clusters=self.store.names,
            repeated_ids=self.running.repeated_ids,
            without_id=[name for name in self.running.without_id if self.store.observes(name)],
            topics=self.running.topics,
            read=self.monitoring.topics(),
            blind=blind,
            missing=self.dependencies.now,
            understudy_counts=self.store.understudy_since_ms is not None,
            audit=self.audit.state(),
        )


class DeliveredBatches:
    """Notes what each batch says of the job, for its metrics, its rules and the jobs that share its store."""

    def __init__(self, stats: BatchStats, job_monitor: JobMonitor, notifying: Notifying, topics: TopicFiles) -> None:
        """`topics` has how far rows were read that wait for a batch."""
        self._stats, self._job_monitor, self._notifying, self._topics = stats, job_monitor, notifying, topics
        self._observed_ms = 0

    def add(self, batch: DeliveredEvaluations) -> None:
        """Notes a batch, or what the understudy has evaluated."""
        # Another thread may be evaluating what this changes.
        with self._notifying.paused():
            if isinstance(batch, DeliveredBatch):
                self._stats.add(batch, self._notifying.ledger.firing())
            self._job_monitor.note_batch(batch)
        # A job that is cut off from every cluster falls behind the others.
        self._observed_ms = max(self._observed_ms, batch.observed_ms)

    def report(self) -> JobReport:
        """Returns what this job reports of itself to the others."""
        # A row that waits would change nothing that is evaluated.
        evaluated_ms = max(self._observed_ms, self._topics.state().waiting_ms)
        return JobReport(evaluated_ms=evaluated_ms, sinks_fail=self._notifying.people_not_reached)


def started(
    start_up: StartUp,
    checkpoint: Checkpoint,
    database: Database,
    dependencies: Dependencies,
    stop: SignalFlag,
    stack: ExitStack,
) -> Job:
    """Starts the gatherer and opens everything but Spark; `stack` closes it again."""
    stack.callback(database.close)
    running = Running(start_up.effective)
    monitoring = Monitoring(running, checkpoint, dependencies, stop)
    stack.callback(monitoring.stop)
    store = StatusStore(running.names, waiting=start_up.waiting)
    audits, acknowledgements = AuditResults(database), AcknowledgementStore(database)
    silences = ActiveSilences(stored=SilenceStore(database), in_services=ServiceSilenceStore(database), running=running)
    parts = JobParts(
        running=running, monitoring=monitoring, store=store, dependencies=dependencies, audit=NewestAudit(audits)
    )
    job_monitor = JobMonitor(parts.inputs)
    lease = None if running.config.store is None else Lease(database, job_id(checkpoint.folder))
    notifying = Notifying(
        Ledger(database, lease),
        running.sinks,
        store=store,
        role=None if lease is None else LeaseRole(lease),
        job=job_monitor,
        holds=ActiveHolds(silences=silences, acknowledgements=acknowledgements),
    )
    responses = SinkResponses(notifying, acknowledgements, silences)
    stack.callback(responses.stop)
    batch_stats, quarantine = BatchStats(), quarantine_of(database)
    batches = DeliveredBatches(batch_stats, job_monitor, notifying, checkpoint.topic_files)
    deliver = Deliver(
        notifying,
        quarantine,
        store=store,
        gatherer=monitoring,
        on_batch=batches.add,
        journal=JournalReader(checkpoint.journal),
        wait=stop.wait,
    )
    role: OnlyJob | ActiveRole = OnlyJob()
    if lease is not None:
        role = stack.enter_context(ActiveRole(lease, batches.report, settle=notifying.settle))
    stack.enter_context(ChangeReports(store, running, notifying))
    monitoring.begin(deliver, notifying)
    return Job(
        running=running,
        checkpoint=checkpoint,
        dependencies=dependencies,
        monitoring=monitoring,
        store=store,
        quarantine=quarantine,
        audits=audits,
        silences=silences,
        acknowledgements=acknowledgements,
        notifying=notifying,
        role=role,
        responses=responses,
        batch_stats=batch_stats,
        deliver=deliver,
        started_at=time.monotonic(),
    )
