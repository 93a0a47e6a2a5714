"""Job: the configuration in effect, and the parts that run with it: what monitors, what notifies, what is known."""

from collections.abc import Sequence
from contextlib import ExitStack

from connectors.delivery.ledger import Ledger
from connectors.kafka.cluster_id_lookup import identify
from connectors.process.signals import SignalFlag
from connectors.sinks.sink import Sink
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.audit_results import AuditResults
from connectors.store.collection import ServiceSilenceStore, SilenceStore, quarantine_of
from connectors.store.database import Database
from connectors.store.journal_reader import JournalReader
from connectors.store.lease import JobReport, Lease
from streaming.config import Config
from streaming.config.reload import refuse_fixed
from streaming.job.active_silences import ActiveSilences
from streaming.job.change_reports import ChangeReports
from streaming.job.cluster_identity import identify_clusters, record_ids
from streaming.job.dependencies import Dependencies
from streaming.job.job_monitor import JobInputs, JobMonitor
from streaming.job.monitoring import Monitoring
from streaming.job.newest_audit import NewestAudit
from streaming.job.responses import SinkResponses
from streaming.job.start_up import JobSpec, OpenSinks, StartUp, open_sinks
from streaming.job.topic_input import identify_in_topics
from streaming.metrics.batch_stats import BatchStats, DeliveredBatch
from streaming.pipeline.active_role import ActiveRole, OnlyJob, Role, job_id
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import GATHERER
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.notifying import Notifying
from streaming.status.status_store import StatusStore


class Job:
    """The configuration in effect, and what runs with it: what monitors, what notifies, and what is known."""

    def __init__(
        self,
        start_up: StartUp,
        checkpoint: Checkpoint,
        database: Database,
        dependencies: Dependencies,
        stop: SignalFlag,
        stack: ExitStack,
    ) -> None:
        """Starts the gatherer and opens everything but Spark; `stack` closes it again."""
        self.checkpoint = checkpoint
        self.dependencies = dependencies
        """What is missing now."""
        self._sinks, self._configured, self._waiting = start_up.sinks, start_up.spec, start_up.waiting
        self.config = start_up.config
        """The configuration in effect."""
        self._thresholds = self.config.thresholds_in_force()
        """Of the rules about the job itself."""
        stack.callback(database.close)
        self.monitoring = stack.enter_context(Monitoring(start_up.config, start_up.identified, checkpoint))
        self.store = StatusStore([section.name for section in self.config.watched])
        self.quarantine, self.audits = quarantine_of(database), AuditResults(database)
        self._newest_audit = NewestAudit(self.audits)
        self.silences = ActiveSilences(
            stored=SilenceStore(database), in_services=ServiceSilenceStore(database), config=lambda: self.config
        )
        self.acknowledgements = AcknowledgementStore(database)
        self._job_monitor = JobMonitor(self._job_inputs)
        self._observed_ms = 0
        lease = None if start_up.config.store is None else Lease(database, job_id(checkpoint.folder))
        self.role: Role = OnlyJob()
        """Whether this job notifies."""
        if lease is not None:
            self.role = ActiveRole(lease, self._job_report, settle=lambda give_up: self.notifying.settle(give_up))
        self.notifying = Notifying(
            Ledger(database, lease),
            _sinks(self._sinks),
            store=self.store,
            role=self.role,
            job=self._job_monitor,
            holds=lambda now_ms: (*self.silences(now_ms), *self.acknowledgements.current()),
            configured=lambda: (*self.store.names, *self._waiting),
        )
        self._responses = SinkResponses(self.notifying, self.acknowledgements, self.silences)
        stack.callback(self._responses.stop)
        self.batch_stats = BatchStats(firing=self.notifying.ledger.firing)
        self.deliver = Deliver(
            self.notifying,
            self.quarantine,
            store=self.store,
            # A reload may have replaced the gatherer process.
            request_polls=lambda requests: self.monitoring.gatherer.request_polls(requests),
            on_batch=self._note_batch,
            keep_snapshots=JournalReader(checkpoint.journal).keep_snapshots,
            wait=stop.wait,
        )
        if isinstance(self.role, ActiveRole):
            stack.enter_context(self.role)
        stack.enter_context(
            ChangeReports(
                self.store,
                sinks=lambda: _sinks(self._sinks),
                config=lambda: self.config,
                notifies=lambda: self.notifying.notifies,
            )
        )

    def _job_report(self) -> JobReport:
        # A row that waits would change nothing that is evaluated.
        evaluated_ms = max(self._observed_ms, self.checkpoint.topic_files.state().waiting_ms)
        return JobReport(evaluated_ms=evaluated_ms, sinks_fail=self.notifying.people_not_reached)

    def _note_batch(self, batch: DeliveredBatch) -> None:
        # Another thread may be evaluating what this changes.
        with self.notifying.paused():
            self.batch_stats.add(batch)
            self._job_monitor.note_batch(batch)
        for cluster, rows in batch.waiting.items():
            self.monitoring.gatherer.limit_log(cluster, rows.size)
        # A job that is cut off from every cluster falls behind the others.
        self._observed_ms = max(self._observed_ms, batch.observed_ms)

    def notify(self) -> None:
        """Sends what is due while no batch comes, and takes what people do in the services of sinks."""
        self.notifying.send()
        self._responses.follow(_sinks(self._sinks))
        if self.notifying.notifies:
            with self.notifying.paused():
                self.batch_stats.note_firing()

    def _job_inputs(self) -> JobInputs:
        config, gathers = self.config, self.monitoring.gathers
        topics = (
            {} if gathers or config.relay is None else {name: config.relay.topic_of(name) for name in self.store.names}
        )
        return JobInputs(
            thresholds=self._thresholds,
            clusters=self.store.names,
            topics=topics,
            read=self.monitoring.topics(),
            # What relays observe says nothing about this host.
            blind=[*self.monitoring.blind_early, *self.store.blind()] if gathers else [],
            sinks=self.notifying.sink_states,
            missing=self.dependencies.now,
            audit=self._newest_audit.state(),
        )

    def change(self, config: Config) -> Sequence[str]:
        """Puts a changed configuration into effect and returns its changed keys. Unchanged parts continue untouched.

        Raises UsageError if it is invalid: the old one stays in effect.
        """
        before = self.config
        refuse_fixed(before, config)
        configured = JobSpec.of(config)
        recorded = self.checkpoint.cluster_ids()
        if config.source == GATHERER:
            changed = [each for each in configured.clusters if each not in self._configured.clusters]
            answered = identify_clusters(changed, recorded, identify)
        else:
            answered = identify_in_topics(config, self.checkpoint)
        answered.require_all()
        sinks = open_sinks(config, self._sinks)
        if (target := config.otlp_target()) is not None:
            target.check()
        self.notifying.set_sinks(_sinks(sinks))
        # Nothing below refuses the configuration: only the machine can fail.
        ids = record_ids(self.checkpoint, recorded, answered)
        self.config, self._configured, self._sinks, self._waiting = config, configured, sinks, ()
        self._thresholds = config.thresholds_in_force()
        self.store.set_clusters([section.name for section in config.watched])
        self.monitoring.change(config, configured.with_ids(ids), self.notifying)
        return [key for key in Config.model_fields if getattr(before, key) != getattr(config, key)]


def _sinks(opened: OpenSinks) -> Sequence[Sink]:
    return [sink for *_, sink in opened]
