"""Monitoring: the rows that come in, the streaming query, which a changed configuration restarts, and the understudy.

The query is started again inside the job, on a new session of Spark if that is necessary, whatever has ended it: Java
or Spark's Python processes were killed, the host was suspended, the disk was full. So is one that hangs. Meanwhile the
understudy counts, and what is missing is Spark (`Restarts`).
"""

import logging
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from connectors.errors import KraftwatchError, ProcessEndedError, StoreError, UnavailableStoreError, UsageError
from connectors.process.signals import SignalFlag
from connectors.process.wall_clock import wall_ms
from connectors.store.durable_file import full_disk
from rules.formatting import ms_text
from rules.model.identifiers import Millis
from rules.model.witness import WitnessRow
from streaming.job.cluster_identity import record_ids
from streaming.job.dependencies import Dependencies, Dependency
from streaming.job.job_input import GatheredInput, JobInput, TopicInput
from streaming.job.restarts import Restarts, Waiting
from streaming.job.running import JobSpec, Running
from streaming.job.spark_state import record_spark_uri, set_state_aside, spark_files, unreadable_state
from streaming.job.topic_input import TopicRows, identify_in_topics, query_topic
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.initial_state import InitialState, initial_state
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.output_rows import EvaluationTimes
from streaming.pipeline.query import Query
from streaming.pipeline.spark.errors import (
    NO_SPACE,
    SPARK_ERRORS,
    BusyError,
    CheckpointInUseError,
    FullDiskError,
    HangingError,
    JobError,
    NoNewStateError,
    StateError,
    SubmittedSparkError,
    error_cause,
    stop_ignoring_errors,
)
from streaming.pipeline.spark.internals import answers, kill_java
from streaming.pipeline.spark.python_worker import shared_token
from streaming.pipeline.spark.remote_checkpoint import use_remote_checkpoint
from streaming.pipeline.spark.spark_files import SparkFiles
from streaming.pipeline.spark.spark_session import empty_folder, start_spark
from streaming.pipeline.topic_files import TopicState
from streaming.pipeline.understudy import Understudy
from streaming.status.status_store import Engine

log = logging.getLogger(__name__)
_SIGNAL_S: Final = 0.5
"""So long after an end of the query a signal may come that explains it."""
_SILENT_S: Final = 60.0
"""After so long without a batch, the understudy counts: the query may hang, or the batch takes long."""


class Monitoring:
    """What observes and evaluates: the rows that come in, Spark's query, and the understudy. `stop` ends the first and
    the last, `stop_query` the query."""

    def __init__(self, running: Running, checkpoint: Checkpoint, dependencies: Dependencies, stop: SignalFlag) -> None:
        """Starts the gatherer, if this job gathers itself; `begin` follows.

        `dependencies`: where it is noted that Spark is missing; `stop`: says that the job stops.
        """
        self.checkpoint = checkpoint
        self._running, self._dependencies, self._stop = running, dependencies, stop
        folder = None if running.config.master.startswith("local") else checkpoint.shared_folder
        self._shared = None if folder is None else shared_token(empty_folder(folder))
        self.input = self._started_input()
        self._understudy: Understudy | None = None
        self._known: InitialState | None = None
        self._spark: SparkSession | None = None
        self._query: Query | None = None
        self._restarts = Restarts(checkpoint.new_state_advice)
        self._silence, self._waiting = Waiting(), Waiting()
        """For how long there were rows and no batch; and nothing else was missing that a batch waits for."""

    def begin(self, deliver: Deliver, notifying: Notifying) -> None:
        """Evaluates from now on: the understudy counts until Spark does."""
        self._deliver, self._notifying = deliver, notifying
        self._begin_understudy(renewed=True)

    def stop(self) -> None:
        """Ends the understudy and the gatherer."""
        self._end_understudy()
        self.input.stop()

    @property
    def spark(self) -> SparkSession | None:
        """The session that is used now; None while there is none."""
        return self._spark

    def topics(self) -> TopicState:
        """Returns what is known of the relays' topics; nothing, if this job gathers itself."""
        rows = self._rows if self._understudy is not None and self._understudy.runs else None
        read = rows.state if isinstance(rows, TopicRows) else None
        return self.input.topics() if read is None else read

    def request_polls(self, requests: Mapping[str, EvaluationTimes], by: Engine) -> None:
        """Passes what evaluations need next, by cluster, to the input, which a reload may have replaced."""
        if by is Engine.SPARK and self._understudy is not None:
            self._understudy.note_spark(requests)
        self.input.request_polls(requests)

    def limit_log(self, cluster: str, waiting_bytes: int) -> None:
        """Tells the gatherer how many bytes of a cluster's rows wait to be evaluated."""
        self.input.limit_log(cluster, waiting_bytes)

    def publish(self, cluster: str) -> None:
        """Lets the gatherer publish the rows of a cluster that wait. Never blocks."""
        self.input.request_polls({cluster: EvaluationTimes(due_ms=None, quiet_until_ms=Millis(0), now_ms=Millis(0))})

    def report_witness(self, cluster: str, row: WitnessRow) -> bool:
        """Passes what a controller's host saw to the gatherer; returns whether it takes it. Never blocks."""
        return self.input.report_witness(cluster, row)

    def _begin_understudy(self, *, renewed: bool = False) -> None:
        """Lets the understudy count for each cluster, unless it does; `renewed`: with what changed, or was lost."""
        settings = self._running.identified.settings
        if not renewed and self._understudy is not None and self._understudy.counts_for(settings):
            return
        self._end_understudy()
        self._known = None if renewed else self._known
        self._rows = self.input.rows(self._running.config, settings)
        self._understudy = Understudy(
            self._rows,
            settings,
            initial=self._initial().encoded(settings),
            deliver=self._deliver,
            notifying=self._notifying,
        )
        self._understudy.start()

    def _initial(self) -> InitialState:
        """Returns what both engines begin with where a cluster has no state: made before either records an alert."""
        if self._known is None:
            with self._notifying.paused():
                ledger = self._notifying.ledger
                self._known = initial_state(ledger.firing(), ledger.history(), now_ms=wall_ms())
        return self._known

    def _end_understudy(self) -> None:
        if self._understudy is not None:
            self._understudy.stop()
            self._understudy = None

    def start_spark(self) -> SparkSession:
        """Starts a session, in which the query runs from its next start on. Raises KraftwatchError if none starts."""
        config = self._running.config
        self._spark = start_spark(
            master=config.master,
            logs=self.checkpoint.logs,
            settings={**config.pipeline.spark_settings(), **config.spark},
            local_files=self.checkpoint.shared_folder is not None,
        )
        # Spark's context has replaced the handler of SIGINT.
        self._stop.install()
        return self._spark

    def start_query(self, spark: SparkSession) -> None:
        """Starts the streaming query; with a new state, if it cannot continue with the stored one."""
        if self.checkpoint.uri is not None:
            # Of files on this machine the start-up has done it.
            self._check_remote_state(spark_files(spark, self.checkpoint))
        self._query = Query(
            spark,
            self.checkpoint,
            self._deliver,
            query_topic(self._running.config, self.checkpoint),
            trigger_s=self._running.config.trigger_s,
        )
        try:
            self._start_processor(self._query)
        except JobError as problem:
            self._plan_restart(problem)

    def _check_remote_state(self, files: SparkFiles) -> None:
        record_spark_uri(self.checkpoint, files)
        why = self.checkpoint.why_no_state(self._running.config.pipeline.partitions, files)
        if why is not None:
            self._set_state_aside(why)

    def wait(self, seconds: int) -> None:
        """Waits while the query runs; starts it again, where it has ended, once that is due.

        Raises JobError if it ends again and again, or another job uses the checkpoint.
        """
        query = self._query
        if query is None:
            return
        try:
            if self.input.only_understudy_has:
                self._begin_understudy()
            if self._restarts.problem is None:
                query.wait(seconds)
                self._look_for_batches(query)
            elif self._restarts.due_in_s > 0:
                self._stop.wait(min(seconds, self._restarts.due_in_s))
            elif full_disk(self.checkpoint.folder) is not None:
                # The alert about the disk says so.
                self._stop.wait(seconds)
            else:
                self._restart(self._restarts.problem, query)
        except UnavailableStoreError:
            # What is missing says so: it goes on when the store answers.
            self._stop.wait(seconds)
        except JobError as problem:
            self._plan_restart(problem)
        except SPARK_ERRORS as problem:
            why = f"the streaming query does not start: {error_cause(problem)}"
            self._plan_restart(JobError(why))
        if query.has_evaluated and self._restarts.problem is None and self._silence.for_s < _SILENT_S:
            self._restarts.succeeded()
            self._dependencies.found(Dependency.SPARK)

    def _look_for_batches(self, query: Query) -> None:
        has_nothing = self.input.has_nothing
        waits = [missing for missing in self._dependencies.now if missing.name is not Dependency.SPARK]
        self._silence.look(query.progress, has_reason=has_nothing)
        self._waiting.look(query.progress, has_reason=has_nothing or bool(waits))
        silent_s, waiting_s = self._silence.for_s, self._waiting.for_s
        if silent_s >= _SILENT_S:
            self._begin_understudy()
        # The first batch may take as long as a start.
        if query.has_evaluated and waiting_s >= _SILENT_S:
            self._dependencies.missing(Dependency.SPARK, "Spark completes no batch", for_s=waiting_s)
        if waiting_s >= self._restarts.hangs_s:
            raise HangingError(f"Spark has completed no batch for {ms_text(Millis(round(1_000 * waiting_s)))}")

    def _plan_restart(self, problem: JobError) -> None:
        if isinstance(problem, CheckpointInUseError | SubmittedSparkError):
            raise problem
        # A signal to the whole process group ends Java before this process reads its own.
        if self._stop.wait(_SIGNAL_S):
            return
        # A Java that hangs is killed first, whatever else is wrong.
        full = None if isinstance(problem, HangingError) else full_disk(self.checkpoint.folder)
        if full is not None:
            problem = FullDiskError(f"{problem}; {full}")
        self._restarts.failed(problem)
        log.warning("Spark is started again: %s", problem)
        self._dependencies.missing(Dependency.SPARK, f"Spark is started again: {problem}")
        self._begin_understudy()

    def _restart(self, problem: JobError, query: Query) -> None:
        """Starts the query that has ended with this problem, on a new session and with a new state if necessary."""
        # First: the store that knows what the query reads may not answer.
        query.topic = query_topic(self._running.config, self.checkpoint)
        answered = self._spark is not None and not isinstance(problem, HangingError) and answers(self._spark)
        if not answered or self._restarts.of_session:
            self._renew_session(query, problem)
        # What has ended Java says nothing about the state.
        why = self._why_no_state(query, problem) if answered else None
        if why is not None:
            try:
                self._set_state_aside(why)
            except StoreError as failed:
                raise JobError(f"Spark's state cannot be set aside: {failed}") from failed
            query.topic = query_topic(self._running.config, self.checkpoint)
        self._start_processor(query)
        self._restarts.started()

    def _renew_session(self, query: Query, problem: JobError) -> None:
        before, self._spark = self._spark, None
        if not kill_java() and before is not None:
            if isinstance(problem, HangingError):
                raise SubmittedSparkError(f"spark-submit's Java process hangs ({problem}): submit the job again")
            if not answers(before):
                raise JobError("spark-submit's Java process has ended: submit the job again")
            stop_ignoring_errors(before.stop)
        try:
            query.spark = self.start_spark()
        # The disk may have become full since this restart began.
        except (KraftwatchError, OSError) as failed:
            kind = FullDiskError if NO_SPACE in str(failed) else JobError
            raise kind(f"Spark does not start: {failed}") from failed

    def _why_no_state(self, query: Query, problem: JobError) -> str | None:
        """Returns why a query that ended cannot continue with its state; None if a restart of the query is enough."""
        if query.has_evaluated or self._restarts.has_new_state or isinstance(problem, BusyError | FullDiskError):
            return None
        if isinstance(problem, StateError):
            return problem.why
        assert self._spark is not None, "a session was started"
        try:
            return self._restarts.confirmed(unreadable_state(self._spark, self.checkpoint))
        except JobError:
            # A file system that does not answer says nothing about the state.
            return None

    def _set_state_aside(self, why: str) -> None:
        if not self._running.gathers:
            # First: without a baseline, nothing would replace the state.
            answered = identify_in_topics(self._running.config, self.checkpoint, new_state=True)
            for problem in answered.unavailable.values():
                raise NoNewStateError(why, str(problem))
            record_ids(self.checkpoint, self.checkpoint.cluster_ids(), answered)
        # The gatherer has the journal, and knows what it has read of each log.
        self._end_understudy()
        self.input.stop()
        try:
            log.warning("%s", set_state_aside(self.checkpoint, why, self._spark))
        finally:
            self._restart_input()
        self._restarts.has_new_state = True
        self._begin_understudy(renewed=True)

    def stop_query(self) -> None:
        """Stops the query after the batch in progress, and Java if that takes too long."""
        if self._query is not None and not self._query.stop():
            kill_java()

    def stop_spark(self) -> None:
        """Ends the session, if there is one."""
        if self._spark is not None and not stop_ignoring_errors(self._spark.stop):
            kill_java()

    def change(self, before: JobSpec) -> None:
        """Restarts what the changed configuration concerns; each continues where it stopped. `before`: the former one.

        Raises:
            JobError: the gatherer could not be restarted.
        """
        now = self._running.identified
        # One that has ended is started with the new processor, once that is due.
        runs = self._restarts.problem is None
        changes = now.settings != before.settings
        query = self._query if runs and changes else None
        stopped = query is None or query.stop()
        if changes:
            self._end_understudy()
        if now.clusters != before.clusters:
            self.input.stop()
            self._restart_input()
        if changes:
            self._begin_understudy(renewed=True)
        if not stopped:
            self._plan_restart(HangingError("Spark does not stop the query"))
        elif query is not None:
            query.topic = query_topic(self._running.config, self.checkpoint)
            try:
                self._start_processor(query)
            except JobError as problem:
                self._plan_restart(problem)

    def _start_processor(self, query: Query) -> None:
        settings = self._running.identified.settings
        if self.checkpoint.uri is not None:
            assert self._spark is not None, "it starts the query"
            use_remote_checkpoint(self._spark, self.checkpoint.uri, spark_files(self._spark, self.checkpoint))
        pages, gathers = self.checkpoint.pages, self._running.gathers
        initial = self._initial().encoded(settings)
        query.start(
            ClusterProcessor(settings, initial=initial, spark_folder=pages, shared=self._shared, snapshots=gathers)
        )

    def _restart_input(self) -> None:
        try:
            self.input = self._started_input()
        except (UsageError, ProcessEndedError, OSError) as problem:
            raise JobError(f"the gatherer could not be restarted: {problem}") from problem

    def _started_input(self) -> JobInput:
        if not self._running.gathers:
            return TopicInput(self.checkpoint)
        return GatheredInput(self._running.identified.clusters, self.checkpoint)
