"""The main job: the gatherer process, then the journal as a Spark stream: decode, step, deliver.

A changed configuration takes effect while the job runs. What only the driver uses (sinks, maintenance) is replaced in
place. What the step or the gatherer uses is passed to a new query or a new gatherer process, which continues from
where the former one stopped; the Spark session, the checkpoint and the ledger stay.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from pyspark.sql import SparkSession

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.job_alerts import NOTHING_MONITORED, Visibility
from connectors.delivery.ledger import Ledger
from connectors.errors import ProcessEndedError, UsageError
from connectors.kafka.cluster_id_lookup import identify
from connectors.signals import STOP, SignalFlag
from connectors.sinks.sink import Sink
from connectors.store.audit_results import AuditResults
from connectors.store.collection import SilenceStore, quarantine_of
from connectors.store.database import Database
from connectors.store.durable_file import private_files
from connectors.store.journal_reader import JournalReader
from connectors.store.lease import JobReport, Lease
from connectors.store.tables import job_database
from connectors.wall_clock import wall_ms
from streaming.config import Config, host_port
from streaming.config.reload import ConfigFile, refuse_fixed
from streaming.data_quality.daily_audit import DailyAudit
from streaming.job import logging_setup
from streaming.job.active_silences import ActiveSilences
from streaming.job.cluster_identity import identify_clusters, record_ids
from streaming.job.gatherer_process import GathererProcess
from streaming.job.own_alerts import JobLag, OwnAlerts
from streaming.job.start_up import JobSpec, OpenSinks, StartUp, created, open_sinks, prepare
from streaming.job.topic_input import (
    RelayedInput,
    audit_source,
    identify_in_topics,
    query_topic,
    record_spark_uri,
    spark_settings,
)
from streaming.metrics.batch_stats import BatchStats, DeliveredBatch
from streaming.metrics.heartbeat import Heartbeat
from streaming.metrics.job_metrics import JobSources, metrics
from streaming.pipeline.active_role import ActiveRole, OnlyJob, Role, job_id
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import GATHERER
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.early_alerts import EarlyEvaluation, initial_states
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.python_worker import shared_token
from streaming.pipeline.query import JobError, Query, stop_ignoring_errors
from streaming.pipeline.spark_session import empty_folder, start_spark
from streaming.pipeline.step import Step
from streaming.status.status_store import StatusStore
from streaming.web.application import JobLiveness, health_endpoints
from streaming.web.fleet_view import FleetView, api
from streaming.web.pages import pages
from streaming.web.past_states import PastStates
from streaming.web.server import Server

Print = Callable[[str], None]
"""Prints a line for the person at the terminal, on stderr."""


def run(config: Config, *, say: Print, file: ConfigFile | None = None) -> None:
    """Runs the job until SIGINT or SIGTERM; `say` prints progress on the terminal.

    `file` is the configuration file that the job re-reads; None when options alone configure it.
    """
    checkpoint = Checkpoint(folder=config.folder.absolute(), uri=config.spark_uri, store=config.server)
    with ExitStack() as stack:
        # Before any file is created and before Java starts, which inherits it.
        stack.enter_context(private_files())
        stop = stack.enter_context(SignalFlag(*STOP))
        stack.enter_context(checkpoint.held())
        if file is not None:
            stack.enter_context(file)
        database = job_database(config.store_place)
        if config.store is not None:
            # It has the cluster ids. A file that is missing is reported first.
            created(database, stop, say)
        start_up = prepare(config, checkpoint, may_wait=file is not None)
        logging_setup.log_to(checkpoint.logs)
        if file is not None and start_up.unavailable:
            file.wait_for("; ".join(start_up.unavailable), meanwhile="the others are monitored")
        job = Job(start_up, checkpoint, created(database, stop, say), stop, stack)
        verb = "gathering from" if config.source == GATHERER else "reading the relay of"
        say(f"{verb} {_names(job.config)}; starting Spark")
        _start_services(job, file, stack)
        spark = start_spark(
            master=config.master,
            logs=checkpoint.logs,
            settings=spark_settings(config),
            local_files=checkpoint.shared_folder is not None,
        )
        stack.callback(stop_ignoring_errors, spark.stop)
        # Spark's context has replaced the handler of SIGINT.
        stop.install()
        job.start_query(spark)
        say(f"monitoring {_names(job.config)}")
        _run_until_stopped(job, stop, file)


def _start_services(job: "Job", file: ConfigFile | None, stack: ExitStack) -> None:
    """Starts what runs beside the query: heartbeat, audits, and the web server where one is configured."""
    liveness = JobLiveness(
        last_batch_at=lambda: job.deliver.last_batch_at,
        gatherer_runs=lambda: job.gatherer.alive,
        gatherer_stalled_s=lambda: job.gatherer.loop_stalled_s,
    )
    heartbeat = stack.enter_context(
        Heartbeat(
            lambda: None if job.config.heartbeat is None else job.config.heartbeat.schedule(),
            is_healthy=lambda: (
                liveness.is_alive
                and (liveness.is_starting or job.store.observes_any(wall_ms()))
                and job.role.store_answers
                and not job.nobody_is_reached
            ),
        )
    )
    stack.enter_context(job.daily_audit())
    job.begin_early_evaluation()
    if job.config.listen is not None:
        past = stack.enter_context(job.past_states())
        view = FleetView(
            store=job.store,
            silences=job.silences,
            starting=lambda: job.deliver.last_batch_at is None,
            past=past,
        )
        shown = [metrics(job.sources(liveness, heartbeat, file)), pages(view), api(view)]
        served = [health_endpoints(liveness), *shown]
        address, access = host_port(job.config.listen), job.config.page_access()
        stack.enter_context(Server(address, served, page_url=lambda: job.config.page_url, access=access))


def _run_until_stopped(job: "Job", stop: SignalFlag, file: ConfigFile | None) -> None:
    while not stop.is_set():
        try:
            job.query.wait(1)
            job.send_own_alerts()
            logging_setup.rotate_child_logs(job.checkpoint.logs)
            if file is not None:
                file.poll(job.change)
        except JobError:
            # A signal to the whole process group ends Java before this process reads its own signal.
            if stop.is_set():
                return
            raise
    job.query.stop()


class Job:
    """The configuration in effect and everything that runs with it."""

    query: Query
    """Set by `start_query`."""
    _delivery: Dispatcher | None = None
    """The newest one, also while another job notifies."""

    def __init__(
        self, start_up: StartUp, checkpoint: Checkpoint, database: Database, stop: SignalFlag, stack: ExitStack
    ) -> None:
        """Starts the gatherer and opens everything but Spark; `stack` closes it again."""
        self.checkpoint = checkpoint
        self._sinks = start_up.sinks
        self._configured, self._spec = start_up.spec, start_up.identified
        self.config = start_up.config
        """The configuration in effect."""
        self.gatherer = self._started_gatherer()
        stack.callback(lambda: self.gatherer.stop())
        stack.callback(database.close)
        self._quarantine, self._audits = quarantine_of(database), AuditResults(database)
        lease = None if start_up.config.store is None else Lease(database, job_id(checkpoint.folder))
        self.ledger = Ledger(database, lease)
        folder = None if self.config.master.startswith("local") else checkpoint.shared_folder
        self._shared = None if folder is None else shared_token(empty_folder(folder))
        self.store = StatusStore([section.name for section in self.config.watched])
        self.batch_stats = BatchStats(firing=self.ledger.firing)
        self.silences = ActiveSilences(stored=SilenceStore(database), config=lambda: self.config)
        self._own = OwnAlerts(self.ledger.firing())
        self._lag = JobLag()
        self._early: EarlyEvaluation | None = None
        stack.callback(self._end_early_evaluation)
        self._observed_ms = 0
        self.role: Role = OnlyJob()
        """Whether this job notifies."""
        if lease is not None:
            self.role = ActiveRole(lease, self._job_report, settle=lambda give_up: self.notifying.settle(give_up))
        self.notifying = Notifying(self._open_delivery, self.ledger, store=self.store, role=self.role)
        self.deliver = Deliver(
            self.notifying,
            self._quarantine,
            store=self.store,
            # A reload may have replaced the gatherer process.
            request_poll=lambda *request: self.gatherer.request_poll(*request),
            on_batch=self._note_batch,
            wait=stop.wait,
        )
        if isinstance(self.role, ActiveRole):
            stack.enter_context(self.role)

    def _open_delivery(self) -> Dispatcher:
        """Returns the delivery, and begins what reports on this job, with the alerts that are firing in the ledger."""
        self._own = OwnAlerts(self.ledger.firing())
        delivery = Dispatcher(
            self.ledger,
            _sinks(self._sinks),
            silences=self.silences,
            visibility=self._visibility,
        )
        if self._delivery is not None:
            delivery.take_over(self._delivery, wall_ms())
        self._delivery = delivery
        return delivery

    def _job_report(self) -> JobReport:
        fail = self._delivery is not None and self._delivery.people_not_reached
        return JobReport(evaluated_ms=self._observed_ms, sinks_fail=fail)

    @property
    def nobody_is_reached(self) -> bool:
        """Whether this job notifies, and no sink for people accepts a notification."""
        return self.notifying.notifies and self._delivery is not None and self._delivery.nobody_is_reached

    def _note_batch(self, batch: DeliveredBatch) -> None:
        self.batch_stats.add(batch)
        self._own.note_batch(batch)
        for cluster, rows in batch.waiting.items():
            self.gatherer.limit_log(cluster, rows.size)
        if observed := [each.observed_at_ms for each in batch.statuses if each.observed_at_ms is not None]:
            self._lag.batch_delivered(max(observed), now_ms=wall_ms())
        # A job that is cut off from every cluster falls behind the others.
        self._observed_ms = max(self._observed_ms, batch.observed_ms)

    def send_own_alerts(self) -> None:
        """Sends what is due about this job and its input."""
        if not self.notifying.notifies:
            # Opens the delivery once this job has the lease.
            self.notifying.send()
            return
        topics: dict[str, str] = {}
        if self.config.relay is not None and self.config.source != GATHERER:
            topics = {name: self.config.relay.topic_of(name) for name in self.store.names}
        alerts = self._own.due(topics, self.query.read_s_ago(), clusters=self.store.names)
        if alerts or self._own.resend:
            self.notifying.send(alerts)
            with self.notifying.paused():
                self.batch_stats.note_firing()

    def daily_audit(self) -> DailyAudit:
        """Returns the scheduler of audits; of several jobs with one store, one audits."""
        return DailyAudit(
            self.checkpoint.folder,
            source=lambda: audit_source(self.config, self.checkpoint),
            results=self._audits,
            record=lambda cluster, audited: self.gatherer.record(cluster, audited),
            every_s=lambda: self.config.audit_every if self.notifying.notifies else 0,
        )

    def begin_early_evaluation(self) -> None:
        """Evaluates what needs no history until the query does, which may wait for Spark, or for cores."""
        self._end_early_evaluation()
        if self.config.source == GATHERER:
            journal = JournalReader(self.checkpoint.journal)
            # Of the ledger's alerts; a batch may be recording some.
            with self.notifying.paused():
                self._early = EarlyEvaluation(journal, self._spec.settings, notifying=self.notifying)
            self._early.__enter__()

    def _end_early_evaluation(self) -> None:
        if self._early is not None:
            self._early.__exit__()
            self._early = None

    def _visibility(self) -> Visibility:
        """Returns what this host observes; what relays observe says nothing about it."""
        if self.config.source != GATHERER:
            return NOTHING_MONITORED
        return self.store.visibility(() if self._early is None else self._early.blind)

    def past_states(self) -> PastStates:
        """Returns the past states in the journal; where a relay gathers, there is none."""
        return PastStates(self.checkpoint.journal, lambda name: self._spec.settings.get(name))

    def sources(self, liveness: JobLiveness, heartbeat: Heartbeat, file: ConfigFile | None) -> JobSources:
        """Returns what /metrics reads."""
        checkpoint = self.checkpoint
        return JobSources(
            store=self.store,
            batch_stats=self.batch_stats,
            is_alive=lambda: liveness.is_alive,
            gatherer_runs=liveness.gatherer_runs,
            gatherer_pid=lambda: self.gatherer.pid,
            journal=checkpoint.journal,
            quarantine=self._quarantine,
            audits=self._audits,
            stats=checkpoint.logs / "gather-stats.json",
            heartbeats=lambda: heartbeat.counts,
            notifies=lambda: self.notifying.notifies,
            config_refused=lambda: None if file is None else file.error is not None,
            config_loaded_at_ms=lambda: None if file is None else file.loaded_at_ms,
        )

    def start_query(self, spark: SparkSession) -> None:
        """Starts the streaming query."""
        record_spark_uri(spark, self.checkpoint)
        self.query = Query(spark, self.checkpoint, self.deliver, query_topic(self.config, self.checkpoint))
        self._start_step()

    def _start_step(self) -> None:
        settings = self._spec.settings
        # The early evaluation may be recording an alert.
        with self.notifying.paused():
            initial = initial_states(settings, self.ledger.history(), self.ledger.firing(), now_ms=wall_ms())
        folder = self.checkpoint.pages
        self.query.start(Step(settings, initial=initial, spark_folder=folder, shared=self._shared))

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
        self.notifying.set_sinks(_sinks(sinks))
        # Nothing below refuses the configuration: only the machine can fail.
        ids = record_ids(self.checkpoint, recorded, answered)
        self.config, self._configured, self._sinks = config, configured, sinks
        self.store.set_clusters([section.name for section in config.watched])
        self._restart_with(configured.with_ids(ids))
        return [key for key in Config.model_fields if getattr(before, key) != getattr(config, key)]

    def _restart_with(self, spec: JobSpec) -> None:
        before, self._spec = self._spec, spec
        step_changes = spec.settings != before.settings
        if step_changes:
            self.begin_early_evaluation()
            self.query.stop()
        if spec.clusters != before.clusters:
            self.gatherer.stop()
            try:
                self.gatherer = self._started_gatherer()
            except (UsageError, ProcessEndedError) as problem:
                raise JobError(f"the gatherer could not be restarted: {problem}") from problem
        if step_changes:
            self.query.topic = query_topic(self.config, self.checkpoint)
            self._start_step()

    def _started_gatherer(self) -> GathererProcess | RelayedInput:
        if self.config.source != GATHERER:
            return RelayedInput()
        at = self.checkpoint
        gatherer = GathererProcess(self._spec.clusters, journal=at.journal, logs=at.logs)
        gatherer.start()
        return gatherer


def _sinks(opened: OpenSinks) -> Sequence[Sink]:
    return [sink for *_, sink in opened]


def _names(config: Config) -> str:
    names = [section.name for section in config.watched]
    return ", ".join(names) if len(names) <= 5 else f"{len(names)} clusters"
