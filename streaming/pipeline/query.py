"""The streaming query: source -> step -> deliver, restartable from its checkpoint."""

import logging
import re
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from connectors.errors import UsageError
from connectors.relay.relay_message import RowsLostError
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.schema import OUTPUT, STATE
from streaming.pipeline.source import JournalSource
from streaming.pipeline.spark.errors import SPARK_ERRORS, JobError, StateError, error_cause, stop_ignoring_errors
from streaming.pipeline.spark.internals import release
from streaming.pipeline.step import Step
from streaming.pipeline.topic_source import TopicSource
from streaming.replay.state_codec import UnusableStateError

log = logging.getLogger(__name__)

DeliverBatch = Callable[[DataFrame, int], None]
TOO_SLOW = "Python worker failed to connect back"
"""Spark's error when its Python planner has not connected within 10 s, although it connects first: the machine is busy
(`streaming.pipeline.spark.planner_connection`)."""
QUERY_NAME = "kraftwatch"
"""Of the query, in Spark's UI, event log and metrics."""
_TWO_QUERIES = ("CONCURRENT_STREAM_LOG_UPDATE", "Multiple streaming queries are concurrently using")
"""Texts of Spark's errors when another query has written, or writes now, the next offset or commit of the checkpoint.
"""
_UNUSABLE = re.compile(
    "|".join(rf"{each.__module__}\.{each.__name__}: (.+)" for each in (UnusableStateError, RowsLostError))
)
"""In the traceback of a Python worker or of the planner: the step cannot continue with a stored state, or the topic no
longer has the rows that follow it."""
_REFUSED = re.compile(rf"{UsageError.__module__}\.{UsageError.__name__}: (.+)")
"""In the traceback of a Python worker: the step refused the state of another cluster."""


class Query:
    """The query of a job. A changed step needs a restarted query."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Checkpoint,
        deliver: Deliver,
        topic: TopicSource | None = None,
        *,
        trigger_s: float = 0.0,
    ) -> None:
        """Creates the query without starting it. It reads the checkpoint's journal, or the topic if there is one.

        `trigger_s`: a batch begins at least this long after the one before, in seconds.
        """
        self.topic = topic
        self._trigger_s = trigger_s
        self.has_evaluated = False
        """Whether a batch was evaluated: what Spark stores was readable then."""
        self._spark = spark
        self._checkpoint = checkpoint
        self._deliver = deliver
        self._running: StreamingQuery | None = None
        self._step: Step | None = None

    def start(self, step: Step) -> None:
        """Starts the query from the checkpoint, with this step; on a busy machine the next `wait` starts it."""
        self._step, self._running = step, None
        try:
            self._running = start(self._spark, self._checkpoint, step, self._deliver_batch, self.topic, self._trigger_s)
        except SPARK_ERRORS as problem:
            self._require_busy(f"does not start on {self._checkpoint.location}", problem)

    def _deliver_batch(self, frame: DataFrame, batch_id: int) -> None:
        self._deliver(frame, batch_id)
        self.has_evaluated = True

    def _require_busy(self, how: str, problem: Exception) -> None:
        """Raises the problem, unless the query ended only because the machine is busy: it is started again then."""
        if TOO_SLOW not in str(problem):
            raise self._failure(how, problem) from problem
        log.warning("Spark's planner did not start within 10 s; retrying from the checkpoint")
        self._running = None

    def wait(self, seconds: int) -> None:
        """Waits `seconds` while the query runs. Starts it again, however often, where the machine was too busy.

        Raises UsageError if the step refuses the checkpoint's state, which another cluster wrote, StateError if the
        query cannot continue with it, and JobError if the query ended by itself.
        """
        if self._running is None:
            assert self._step is not None, "it was started"
            self.start(self._step)
            return
        try:
            ended = self._running.awaitTermination(seconds)
        except SPARK_ERRORS as problem:
            self._require_busy("failed", problem)
            return
        if ended:
            raise JobError("the streaming query ended by itself; restart the job")

    def _failure(self, how: str, problem: Exception) -> JobError | UsageError:
        """Returns the error that says what to do: to restart the job, or to repair a damaged file."""
        if (refused := _REFUSED.search(str(problem))) is not None:
            return UsageError(refused[1])
        if (unusable := _UNUSABLE.search(str(problem))) is not None:
            return StateError(next(filter(None, unusable.groups())))
        cause = error_cause(problem)
        if any(text in str(problem) for text in _TWO_QUERIES):
            return JobError(
                f"the streaming query {how}: another job uses {self._checkpoint.location}: give each job its own place"
            )
        return JobError(
            f"the streaming query {how}: {cause}; restart the job, and if this repeats, "
            f"{self._checkpoint.new_state_advice}: the state is built again"
        )

    def stop(self) -> None:
        """Stops the query; Spark repeats an unfinished batch after the next start."""
        if self._running is not None:
            stop_ignoring_errors(self._running.stop)


def start(
    spark: SparkSession,
    checkpoint: Checkpoint,
    step: Step,
    deliver: DeliverBatch,
    topic: TopicSource | None,
    trigger_s: float = 0.0,
) -> StreamingQuery:
    """Starts the pipeline: source -> step -> deliver, at most one batch in `trigger_s` seconds."""
    rows = _journal_rows(spark, checkpoint) if topic is None else topic.observations(spark, checkpoint.topic_files)
    output = rows.groupBy("group").applyInPandasWithState(step, OUTPUT, STATE, "append", GroupStateTimeout.NoTimeout)
    return (
        output.writeStream.foreachBatch(_released_after(deliver))
        .queryName(QUERY_NAME)
        .option("checkpointLocation", checkpoint.location)
        .trigger(processingTime=f"{round(1_000 * trigger_s)} milliseconds")
        .outputMode("append")
        .start()
    )


def _released_after(deliver: DeliverBatch) -> DeliverBatch:
    """Returns a function that delivers a batch and lets Java forget its frame."""

    def deliver_and_release(frame: DataFrame, batch_id: int) -> None:
        try:
            deliver(frame, batch_id)
        finally:
            release(frame)

    return deliver_and_release


def _journal_rows(spark: SparkSession, checkpoint: Checkpoint) -> DataFrame:
    spark.dataSource.register(JournalSource)
    return spark.readStream.format(JournalSource.NAME).option("path", str(checkpoint.journal)).load()
