"""Monitoring: the rows that come in, the streaming query, which a changed configuration restarts, and the understudy.

The query is started again inside the job, on a new session of Spark if that is necessary, whatever has ended it: Java
or Spark's Python processes were killed, the host was suspended, the disk was full. So is one that hangs. Meanwhile the
understudy counts, and what is missing is Spark (`Restarts`). Nothing waits for a start of Spark, the first one or a
later one: it is a call in a thread of its own, and what it starts is put into effect by the thread that waits.
"""

import logging
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
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
from streaming.job.topic_input import identify_in_topics, query_topic
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
    CheckpointInUseError,
    HangingError,
    JobError,
    PassingError,
    StateError,
    SubmittedSparkError,
    error_cause,
)
from streaming.pipeline.spark.internals import answers, end_idle_daemons, kill_java
from streaming.pipeline.spark.python_worker import shared_token
from streaming.pipeline.spark.remote_checkpoint import use_remote_checkpoint
from streaming.pipeline.spark.spark_call import SparkCall, stop_ignoring_errors
from streaming.pipeline.spark.spark_session import empty_folder, start_spark
from streaming.pipeline.topic_files import TopicState
from streaming.pipeline.understudy import Understudy
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.status_store import Engine

log = logging.getLogger(__name__)
_SIGNAL_S: Final = 0.5
"""So long after an end of the query a signal may come that explains it."""
_STARTS_S: Final = 20.0
"""A local Spark starts within seconds; a cluster's master may take longer to accept the job."""
_UNDERSTUDY_S: Final = 50.0
"""After so long without a batch, the understudy counts: the query may hang, or the batch takes long."""
_SILENT_S: Final = 60.0
"""After so long, Spark is missing: by then, what the alert says of the understudy is so."""
_BEGUN_S: Final = 120.0
"""So long after a start of the query Spark has ended the workers that only began it: it does so after a minute."""


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
        self._start: SparkCall | None = None
        """The start of what does not run of Spark, while it is in progress."""
        self._settings: Mapping[str, ClusterSettings] | None = None
        """Those of the query; None before its first start."""
        self._restarts = Restarts()
        self._begun_at_s: float | None = None
        """When Spark's daemons end that only began the query; None: they have."""
        self._silence, self._waiting = Waiting(), Waiting()
        """For how long there were rows and no batch; and nothing else was missing that a batch waits for."""
        self._replacing = threading.RLock()
        """Held while the input and the understudy are replaced, by a reload or for a new state."""

    def begin(self, deliver: Deliver, notifying: Notifying) -> None:
        """Evaluates from now on: the understudy counts until Spark does, which `wait` starts."""
        self._deliver, self._notifying = deliver, notifying
        self._query = Query(self.checkpoint, deliver, trigger_s=self._running.config.trigger_s)
        self._begin_understudy(renewed=True)

    def stop(self) -> None:
        """Ends the understudy and the gatherer."""
        with self._replacing:
            self._end_understudy()
            self.input.stop()

    @property
    def spark(self) -> SparkSession | None:
        """The session that is used now; None while there is none."""
        return self._spark

    def topics(self) -> TopicState:
        """Returns what is known of the relays' topics; nothing, if this job gathers itself."""
        read = None if self._understudy is None else self._understudy.topics
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
        with self._replacing:
            settings = self._running.identified.settings
            if not renewed and self._understudy is not None and self._understudy.counts_for(settings):
                return
            self._end_understudy()
            self._known = None if renewed else self._known
            rows, processor = self.input.rows(self._running.config, settings), self._processor(settings)
            self._understudy = Understudy(rows, settings, processor, deliver=self._deliver, notifying=self._notifying)
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

    def wait(self, seconds: int) -> None:
        """Waits while the query runs; starts it where it does not, again once that is due.

        Raises:
            UsageError: Spark's first start has found invalid input.
            JobError: another job uses the checkpoint, or spark-submit has started a Java that works no more.
        """
        try:
            if self.input.only_understudy_has:
                self._begin_understudy()
            if self._start is not None:
                self._wait_for_start(self._start, seconds)
            elif self._restarts.problem is None and self._query.runs:
                self._query.wait(seconds)
                self._look_for_batches()
                self._end_daemons()
            elif self._restarts.due_in_s > 0:
                self._stop.wait(min(seconds, self._restarts.due_in_s))
            elif full_disk(self.checkpoint.folder) is not None:
                # The alert about the disk says so.
                self._stop.wait(seconds)
            else:
                self._begin_start(self._restarts.problem)
        except UnavailableStoreError:
            # What is missing says so: it goes on when the store answers.
            self._start = None
            self._stop.wait(seconds)
        except JobError as problem:
            self._plan_restart(problem)
        except SPARK_ERRORS as problem:
            self._plan_restart(JobError(f"the streaming query does not start: {error_cause(problem)}"))
        works = self._query.has_evaluated and self._restarts.problem is None and self._start is None
        if works and self._silence.for_s < _SILENT_S:
            self._restarts.succeeded()
            self._dependencies.found(Dependency.SPARK)

    def _begin_start(self, problem: JobError | None) -> None:
        """Starts what does not run of Spark; `problem`: what has ended it, if it ran."""
        self._start = SparkCall("start of Spark", partial(self._started, problem))

    def _wait_for_start(self, start: SparkCall, seconds: int) -> None:
        if not start.wait(seconds):
            if self._spark is None and start.for_s >= _STARTS_S:
                late = f"Spark has not started on --master {self._running.config.master} yet"
                self._dependencies.missing(Dependency.SPARK, late, for_s=start.for_s)
            self._look_for_batches()
            return
        self._start = None
        self._restarts.started()
        if self._settings != self._running.identified.settings:
            # They were changed meanwhile.
            self._begin_understudy(renewed=True)
            self._restart_query(stopped=self._query.stop())

    def _restart_query(self, *, stopped: bool) -> None:
        if stopped:
            self._begin_start(None)
        else:
            self._plan_restart(HangingError("Spark does not stop the query"))

    def _look_for_batches(self) -> None:
        progress, has_nothing = self._query.progress, self.input.has_nothing
        waits = any(missing.name is not Dependency.SPARK for missing in self._dependencies.now)
        # A cluster may have no room for a long time.
        accepts = self._spark is not None or self._running.config.master.startswith("local")
        self._silence.look(progress, has_reason=has_nothing)
        self._waiting.look(progress, has_reason=has_nothing or waits or not accepts)
        silent_s, waiting_s = self._silence.for_s, self._waiting.for_s
        if silent_s >= _UNDERSTUDY_S:
            self._begin_understudy()
        # The first batch may take as long as a start.
        if self._query.has_evaluated and waiting_s >= _SILENT_S:
            self._dependencies.missing(Dependency.SPARK, "Spark completes no batch", for_s=waiting_s)
        if waiting_s >= self._restarts.hangs_s:
            raise HangingError(f"Spark has completed no batch for {ms_text(Millis(round(1_000 * waiting_s)))}")

    def _end_daemons(self) -> None:
        if self._begun_at_s is not None and time.monotonic() >= self._begun_at_s:
            self._begun_at_s = None
            end_idle_daemons()

    def _plan_restart(self, problem: JobError) -> None:
        self._start = None
        if isinstance(problem, CheckpointInUseError | SubmittedSparkError):
            raise problem
        # A signal to the whole process group ends Java before this process reads its own.
        if self._stop.wait(_SIGNAL_S):
            return
        # A Java that hangs is killed first, whatever else is wrong.
        full = None if isinstance(problem, HangingError) else full_disk(self.checkpoint.folder)
        if full is not None:
            problem = PassingError(f"{problem}; {full}")
        self._restarts.failed(problem)
        log.warning("Spark is started again: %s", problem)
        self._dependencies.missing(Dependency.SPARK, f"Spark is started again: {problem}")
        self._begin_understudy()

    def _started(self, problem: JobError | None) -> None:
        """Starts the query that has ended with this problem, on a new session and with a new state if necessary."""
        # First: the store that knows what the query reads may not answer.
        query_topic(self._running.config, self.checkpoint)
        spark = self._spark
        answered = spark is not None and not isinstance(problem, HangingError) and answers(spark)
        if not answered or self._restarts.of_session or spark is None:
            spark = self._new_session(problem)
        why = None
        if self._settings is None and self.checkpoint.uri is not None:
            # Of files on this machine the start-up has done it.
            why = self._why_no_remote_state(spark)
        elif answered and problem is not None:
            # What has ended Java says nothing about the state.
            why = self._why_no_state(spark, problem)
        if why is not None:
            try:
                self._set_state_aside(why)
            except StoreError as failed:
                raise JobError(f"Spark's state cannot be set aside: {failed}") from failed
        self._start_processor(spark)

    def _new_session(self, problem: JobError | None) -> SparkSession:
        before, self._spark = self._spark, None
        if not kill_java() and before is not None:
            if isinstance(problem, HangingError):
                raise SubmittedSparkError(f"spark-submit's Java process hangs ({problem}): submit the job again")
            if not answers(before):
                raise SubmittedSparkError("spark-submit's Java process has ended: submit the job again")
            stop_ignoring_errors(before.stop)
        try:
            self._spark = self._started_session()
        # The disk may have become full since this start began.
        except (KraftwatchError, OSError) as failed:
            is_mistake = isinstance(failed, UsageError) and not self._restarts.has_worked
            if isinstance(failed, JobError) or is_mistake:
                raise
            kind = PassingError if NO_SPACE in str(failed) else JobError
            raise kind(
                str(failed) if isinstance(failed, KraftwatchError) else f"Spark does not start: {failed}"
            ) from failed
        if not self._restarts.has_worked:
            self._dependencies.found(Dependency.SPARK)
        return self._spark

    def _started_session(self) -> SparkSession:
        config = self._running.config
        return start_spark(
            master=config.master,
            logs=self.checkpoint.logs,
            settings={**config.pipeline.spark_settings(), **config.spark},
            local_files=self.checkpoint.shared_folder is not None,
        )

    def _why_no_remote_state(self, spark: SparkSession) -> str | None:
        files = spark_files(spark, self.checkpoint)
        record_spark_uri(self.checkpoint, files)
        return self.checkpoint.why_no_state(self._running.config.pipeline.partitions, files)

    def _why_no_state(self, spark: SparkSession, problem: JobError) -> str | None:
        """Returns why a query that ended cannot continue with its state; None if a restart of the query is enough."""
        if self._query.has_evaluated or self._restarts.has_new_state or isinstance(problem, PassingError):
            return None
        if isinstance(problem, StateError):
            return problem.why
        try:
            return self._restarts.confirmed(unreadable_state(spark, self.checkpoint))
        except JobError:
            # A file system that does not answer says nothing about the state.
            return None

    def _set_state_aside(self, why: str) -> None:
        if not self._running.gathers:
            # First: without a baseline, nothing would replace the state.
            answered = identify_in_topics(self._running.config, self.checkpoint, new_state=True)
            for problem in answered.unavailable.values():
                raise StateError(why, str(problem))
            record_ids(self.checkpoint, self.checkpoint.cluster_ids(), answered)
        with self._replacing:
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
        """Stops the query after the batch in progress, and Java if that takes too long, or it is starting."""
        if self._start is not None or not self._query.stop():
            kill_java()

    def stop_spark(self) -> None:
        """Ends the session, if there is one."""
        if self._start is not None or (self._spark is not None and not stop_ignoring_errors(self._spark.stop)):
            kill_java()

    def change(self, before: JobSpec) -> None:
        """Restarts what the changed configuration concerns; each continues where it stopped. `before`: the former one.

        Raises:
            JobError: the gatherer could not be restarted.
        """
        now = self._running.identified
        changes = now.settings != before.settings
        # What does not run is started with the new settings, or again with them.
        runs = changes and self._start is None and self._restarts.problem is None
        stopped = not runs or self._query.stop()
        with self._replacing:
            if changes:
                self._end_understudy()
            if now.clusters != before.clusters:
                self.input.stop()
                self._restart_input()
            if changes:
                self._begin_understudy(renewed=True)
        if runs:
            self._restart_query(stopped=stopped)

    def _start_processor(self, spark: SparkSession) -> None:
        if self.checkpoint.uri is not None:
            use_remote_checkpoint(spark, self.checkpoint.uri, spark_files(spark, self.checkpoint))
        self._settings = self._running.identified.settings
        processor = self._processor(self._settings, spark_folder=self.checkpoint.pages, shared=self._shared)
        self._query.start(spark, processor, query_topic(self._running.config, self.checkpoint))
        self._begun_at_s = time.monotonic() + _BEGUN_S

    def _processor(self, settings: Mapping[str, ClusterSettings], **of_spark: Path | None) -> ClusterProcessor:
        """Returns the processor of one of the engines: both begin with the same."""
        return ClusterProcessor(
            settings, initial=self._initial().encoded(settings), snapshots=self._running.gathers, **of_spark
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
