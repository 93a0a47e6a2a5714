"""Monitoring: the gatherer process and the streaming query, which a changed configuration restarts.

The query is started again inside the job, on a new session of Spark if that is necessary, whatever has ended it: Java
or Spark's Python processes were killed, the host was suspended, the disk was full. So is one that hangs. Meanwhile the
early evaluation goes on, and what is missing is Spark (`Restarts`).
"""

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

from pyspark.sql import SparkSession

from connectors.errors import KraftwatchError, ProcessEndedError, StoreError, UnavailableStoreError, UsageError
from connectors.observations.observation import Observation
from connectors.process.signals import SignalFlag
from connectors.process.wall_clock import wall_ms
from connectors.store.durable_file import full_disk
from connectors.store.journal_reader import JournalReader
from rules.formatting import ms_text
from rules.model.identifiers import Millis
from rules.model.job_state import BlindCluster
from streaming.job.cluster_identity import record_ids
from streaming.job.dependencies import Dependencies, Dependency
from streaming.job.gatherer_process import GathererProcess
from streaming.job.restarts import Restarts, Waiting
from streaming.job.running import JobSpec, Running
from streaming.job.spark_state import record_spark_uri, set_state_aside, spark_files, unreadable_state
from streaming.job.topic_input import RelayedInput, identify_in_topics, query_topic
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.deliver import Deliver, PollTimes
from streaming.pipeline.early_alerts import EarlyEvaluation
from streaming.pipeline.initial_state import initial_state
from streaming.pipeline.notifying import Notifying
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

log = logging.getLogger(__name__)
_SIGNAL_S: Final = 0.5
"""So long after an end of the query a signal may come that explains it."""
_EARLY_S: Final = 60.0
"""After so long without a batch, the early evaluation begins: the query may hang, or the batch takes long."""
_READ_S: Final = 10.0
"""If a topic was read to its end so recently, Spark works: between two batches, it asks once a second."""
_MOST_UNWRITTEN: Final = 10_000


class Monitoring(AbstractContextManager["Monitoring"]):
    """What observes and evaluates. Leaving it stops the gatherer; the query is stopped by `stop_query`."""

    def __init__(self, running: Running, checkpoint: Checkpoint, dependencies: Dependencies, stop: SignalFlag) -> None:
        """Starts the gatherer, if this job gathers itself.

        `dependencies`: where it is noted that Spark is missing; `stop`: says that the job stops.
        """
        self.checkpoint = checkpoint
        self._running, self._dependencies, self._stop = running, dependencies, stop
        folder = None if running.config.master.startswith("local") else checkpoint.shared_folder
        self._shared = None if folder is None else shared_token(empty_folder(folder))
        self._unwritten = deque[Observation](maxlen=_MOST_UNWRITTEN)
        """Rows that a full disk did not take, and that no early evaluation has taken yet."""
        self.gatherer = self._started_gatherer()
        self._early: EarlyEvaluation | None = None
        self._spark: SparkSession | None = None
        self._query: Query | None = None
        self._restarts = Restarts(checkpoint.new_state_advice)
        self._waiting = Waiting()
        self._has_new_state = False
        """Whether a new state was begun since the newest batch."""
        self._was_unreadable = False
        """Whether the state could not be read since then: once, the reason may be another one, such as a killed Java.
        """

    def __exit__(self, *_: object) -> None:
        self._end_early_evaluation()
        self.gatherer.stop()

    @property
    def spark(self) -> SparkSession | None:
        """The session that is used now; None while there is none."""
        return self._spark

    @property
    def blind_early(self) -> Sequence[BlindCluster]:
        """The clusters of which nothing is observed, by the early evaluation."""
        return () if self._early is None else self._early.blind

    def topics(self) -> TopicState:
        """Returns what is known of the relays' topics; nothing, if this job gathers itself."""
        return self.gatherer.topics() if isinstance(self.gatherer, RelayedInput) else TopicState()

    def request_polls(self, requests: Mapping[str, PollTimes]) -> None:
        """Passes what the evaluations need next, by cluster, to the gatherer, which a reload may have replaced."""
        self.gatherer.request_polls(requests)

    def limit_log(self, cluster: str, waiting_bytes: int) -> None:
        """Tells the gatherer how many bytes of a cluster's rows wait to be evaluated."""
        self.gatherer.limit_log(cluster, waiting_bytes)

    def publish(self, cluster: str) -> None:
        """Lets the gatherer publish the rows of a cluster that wait. Never blocks."""
        self.gatherer.request_polls({cluster: (None, Millis(0))})

    def begin_early_evaluation(self, notifying: Notifying) -> None:
        """Evaluates what needs no history until the query does, which may wait for Spark, or for cores."""
        self._end_early_evaluation()
        if self._running.gathers:
            journal = JournalReader(self.checkpoint.journal)
            # Of the ledger's alerts; a batch may be recording some.
            with notifying.paused():
                self._early = EarlyEvaluation(
                    journal, self._running.identified.settings, notifying=notifying, unwritten=self._unwritten
                )
            self._early.__enter__()

    def _end_early_evaluation(self) -> None:
        if self._early is not None:
            self._early.__exit__()
            self._early = None

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

    def start_query(self, spark: SparkSession, deliver: Deliver, notifying: Notifying) -> None:
        """Starts the streaming query; with a new state, if it cannot continue with the stored one."""
        if self.checkpoint.uri is not None:
            # Of files on this machine the start-up has done it.
            self._check_remote_state(spark_files(spark, self.checkpoint))
        self._query = Query(
            spark,
            self.checkpoint,
            deliver,
            query_topic(self._running.config, self.checkpoint),
            trigger_s=self._running.config.trigger_s,
        )
        try:
            self._start_processor(self._query, notifying)
        except JobError as problem:
            self._plan_restart(problem, notifying)

    def _check_remote_state(self, files: SparkFiles) -> None:
        record_spark_uri(self.checkpoint, files)
        why = self.checkpoint.why_no_state(self._running.config.pipeline.partitions, files)
        if why is not None:
            self._set_state_aside(why)

    def wait(self, seconds: int, notifying: Notifying) -> None:
        """Waits while the query runs; starts it again, where it has ended, once that is due.

        Raises JobError if it ends again and again, or another job uses the checkpoint.
        """
        query = self._query
        if query is None:
            return
        if self._unwritten and (self._early is None or not self._early.runs):
            self.begin_early_evaluation(notifying)
        try:
            if self._restarts.problem is None:
                query.wait(seconds)
                self._look_for_batches(query, notifying)
            elif self._restarts.due_in_s > 0:
                self._stop.wait(min(seconds, self._restarts.due_in_s))
            elif full_disk(self.checkpoint.folder) is not None:
                # The alert about the disk says so.
                self._stop.wait(seconds)
            else:
                self._restart(self._restarts.problem, query, notifying)
        except UnavailableStoreError:
            # What is missing says so: it goes on when the store answers.
            self._stop.wait(seconds)
        except JobError as problem:
            self._plan_restart(problem, notifying)
        except SPARK_ERRORS as problem:
            why = f"the streaming query does not start: {error_cause(problem)}"
            self._plan_restart(JobError(why), notifying)
        if query.has_evaluated and self._restarts.problem is None and self._waiting.for_s < _EARLY_S:
            self._restarts.succeeded()
            self._has_new_state = self._was_unreadable = False
            self._dependencies.found(Dependency.SPARK)

    def _look_for_batches(self, query: Query, notifying: Notifying) -> None:
        waits = any(missing.name is not Dependency.SPARK for missing in self._dependencies.now)
        self._waiting.look(query.progress, has_reason=waits or self._has_nothing_to_evaluate)
        for_s = self._waiting.for_s
        why = f"Spark has completed no batch for {ms_text(Millis(round(1_000 * for_s)))}"
        if for_s >= self._restarts.hangs_s:
            raise HangingError(why)
        # Before the first batch, it goes on anyway.
        if query.has_evaluated and for_s >= _EARLY_S and self._dependencies.missing(Dependency.SPARK, why):
            self._evaluate_early(notifying)

    @property
    def _has_nothing_to_evaluate(self) -> bool:
        """Whether no rows come: the gatherer does not run, or Spark reads the ends of the topics again and again."""
        if self._running.gathers:
            return not self.gatherer.alive
        read_at = self.topics().read_to_end_at.values()
        return time.monotonic() - max(read_at, default=float("-inf")) < _READ_S

    def _plan_restart(self, problem: JobError, notifying: Notifying) -> None:
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
        why = f"Spark is started again: {problem}"
        if not self._dependencies.missing(Dependency.SPARK, why):
            log.warning("%s", why)
        self._evaluate_early(notifying)

    def _evaluate_early(self, notifying: Notifying) -> None:
        if self._early is not None and self._early.evaluates_all(self._running.identified.settings):
            return
        try:
            self.begin_early_evaluation(notifying)
        except UnavailableStoreError as problem:
            # It begins with what the ledger has. The next restart waits for the store too.
            log.warning("nothing is evaluated until Spark is started again: %s", problem)

    def _restart(self, problem: JobError, query: Query, notifying: Notifying) -> None:
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
        self._start_processor(query, notifying)
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
        if query.has_evaluated or self._has_new_state or isinstance(problem, BusyError | FullDiskError):
            return None
        if isinstance(problem, StateError):
            return problem.why
        assert self._spark is not None, "a session was started"
        try:
            why = unreadable_state(self._spark, self.checkpoint)
        except JobError:
            # A file system that does not answer says nothing about the state.
            return None
        was_unreadable, self._was_unreadable = self._was_unreadable, why is not None
        return why if was_unreadable else None

    def _set_state_aside(self, why: str) -> None:
        if not self._running.gathers:
            # First: without a baseline, nothing would replace the state.
            answered = identify_in_topics(self._running.config, self.checkpoint, new_state=True)
            for problem in answered.unavailable.values():
                raise NoNewStateError(why, str(problem))
            record_ids(self.checkpoint, self.checkpoint.cluster_ids(), answered)
        # The gatherer has the journal, and knows what it has read of each log.
        self.gatherer.stop()
        try:
            log.warning("%s", set_state_aside(self.checkpoint, why, self._spark))
        finally:
            self._restart_gatherer()
        self._has_new_state = True

    def stop_query(self) -> None:
        """Stops the query after the batch in progress, and Java if that takes too long."""
        if self._query is not None and not self._query.stop():
            kill_java()

    def stop_spark(self) -> None:
        """Ends the session, if there is one."""
        if self._spark is not None and not stop_ignoring_errors(self._spark.stop):
            kill_java()

    def change(self, before: JobSpec, notifying: Notifying) -> None:
        """Restarts what the changed configuration concerns; each continues where it stopped. `before`: the former one.

        Raises:
            JobError: the gatherer could not be restarted.
        """
        now = self._running.identified
        # One that has ended is started with the new processor, once that is due.
        runs = self._restarts.problem is None
        changes = now.settings != before.settings
        query = self._query if runs and changes else None
        if changes and (query is not None or not runs):
            self.begin_early_evaluation(notifying)
        stopped = query is None or query.stop()
        if now.clusters != before.clusters:
            self.gatherer.stop()
            self._restart_gatherer()
        if not stopped:
            self._plan_restart(HangingError("Spark does not stop the query"), notifying)
        elif query is not None:
            query.topic = query_topic(self._running.config, self.checkpoint)
            try:
                self._start_processor(query, notifying)
            except JobError as problem:
                self._plan_restart(problem, notifying)

    def _start_processor(self, query: Query, notifying: Notifying) -> None:
        settings, ledger = self._running.identified.settings, notifying.ledger
        if self.checkpoint.uri is not None:
            assert self._spark is not None, "it starts the query"
            use_remote_checkpoint(self._spark, self.checkpoint.uri, spark_files(self._spark, self.checkpoint))
        # The early evaluation may be recording an alert.
        with notifying.paused():
            initial = initial_state(ledger.firing(), ledger.history(), now_ms=wall_ms()).encoded(settings)
        pages, gathers = self.checkpoint.pages, self._running.gathers
        query.start(
            ClusterProcessor(settings, initial=initial, spark_folder=pages, shared=self._shared, snapshots=gathers)
        )

    def _restart_gatherer(self) -> None:
        try:
            self.gatherer = self._started_gatherer()
        except (UsageError, ProcessEndedError, OSError) as problem:
            raise JobError(f"the gatherer could not be restarted: {problem}") from problem

    def _started_gatherer(self) -> GathererProcess | RelayedInput:
        if not self._running.gathers:
            return RelayedInput(self.checkpoint.topic_files)
        at = self.checkpoint
        gatherer = GathererProcess(
            self._running.identified.clusters, journal=at.journal, logs=at.logs, on_unwritten=self._unwritten.append
        )
        gatherer.start()
        return gatherer
