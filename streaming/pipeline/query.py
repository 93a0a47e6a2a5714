"""The streaming query: source -> processor -> deliver, restartable from its checkpoint."""

import re
from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from connectors.errors import UsageError
from connectors.relay.relay_message import RowsLostError
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.schema import OUTPUT, STATE
from streaming.pipeline.source import JournalSource
from streaming.pipeline.spark.errors import (
    NO_SPACE,
    SPARK_ERRORS,
    CheckpointInUseError,
    JobError,
    PassingError,
    StateError,
    error_cause,
)
from streaming.pipeline.spark.internals import release
from streaming.pipeline.spark.spark_call import SparkCall, stop_ignoring_errors
from streaming.pipeline.topic_source import TopicSource
from streaming.replay.state_codec import UnusableStateError

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
"""In the traceback of a Python worker or of the planner: the processor cannot continue with a stored state, or the
topic no longer has the rows that follow it."""
_REFUSED = re.compile(rf"{UsageError.__module__}\.{UsageError.__name__}: (.+)")
"""In the traceback of a Python worker: the processor refused the state of another cluster."""


class Query:
    """The query of a job. A changed processor needs a restarted query."""

    def __init__(self, checkpoint: Checkpoint, deliver: Deliver, *, trigger_s: float = 0.0) -> None:
        """Creates the query without starting it.

        `trigger_s`: a batch begins at least this long after the one before, in seconds.
        """
        self._trigger_s = trigger_s
        self.has_evaluated = False
        """Whether a batch was evaluated since the newest start: what Spark stores was readable then."""
        self._checkpoint = checkpoint
        self._deliver = deliver
        self._running: StreamingQuery | None = None
        self._end: SparkCall | None = None
        self._starts = self._batches = 0

    @property
    def runs(self) -> bool:
        """Whether it was started; `wait` says whether it has ended since."""
        return self._end is not None

    @property
    def progress(self) -> tuple[int, int]:
        """How often it was started, and how many batches it has delivered: equal only while nothing happens."""
        return self._starts, self._batches

    def start(self, spark: SparkSession, processor: ClusterProcessor, topic: TopicSource | None = None) -> None:
        """Starts the query from the checkpoint, with this processor; raises as `wait`.

        It reads the checkpoint's journal, or the topic if there is one.
        """
        self._running, self._end, self.has_evaluated = None, None, False
        self._starts += 1
        deliver = partial(self._deliver_batch, self._starts)
        try:
            self._running = start(spark, self._checkpoint, processor, deliver, topic, self._trigger_s)
        except SPARK_ERRORS as problem:
            raise self._failure(f"does not start on {self._checkpoint.location}", problem) from problem
        self._end = SparkCall("end of the query", self._running.awaitTermination)

    def _deliver_batch(self, started: int, frame: DataFrame, batch_id: int) -> None:
        self._deliver(frame, batch_id)
        self._batches += 1
        # Java may have been killed while this batch was delivered, and the next query started.
        self.has_evaluated = self.has_evaluated or started == self._starts

    def wait(self, seconds: int) -> None:
        """Waits `seconds` while the query runs, also if Java answers no more.

        Raises:
            UsageError: the processor refuses the checkpoint's state, which another cluster wrote.
            StateError: the query cannot continue with its state.
            CheckpointInUseError: another job uses the checkpoint.
            PassingError: the machine is too busy, or a disk is full.
            JobError: the query has ended for any other reason.
        """
        assert self._end is not None, "it was started"
        try:
            ended = self._end.wait(seconds)
        except SPARK_ERRORS as problem:
            raise self._failure("failed", problem) from problem
        if ended:
            raise JobError("the streaming query ended by itself")

    def _failure(self, how: str, problem: Exception) -> JobError | UsageError:
        """Returns the error that says why the query has ended."""
        text = str(problem)
        if TOO_SLOW in text:
            return PassingError("Spark's planner did not start within 10 s, because the machine is busy")
        if (refused := _REFUSED.search(text)) is not None:
            return UsageError(refused[1])
        if (unusable := _UNUSABLE.search(text)) is not None:
            return StateError(next(filter(None, unusable.groups())))
        if any(each in text for each in _TWO_QUERIES):
            return CheckpointInUseError(
                f"the streaming query {how}: another job uses {self._checkpoint.location}: give each job its own place"
            )
        kind = PassingError if NO_SPACE in text else JobError
        return kind(f"the streaming query {how}: {error_cause(problem)}")

    def stop(self) -> bool:
        """Stops the query; Spark repeats an unfinished batch after the next start. Returns whether it ended in time."""
        return self._running is None or stop_ignoring_errors(self._running.stop)


def start(
    spark: SparkSession,
    checkpoint: Checkpoint,
    processor: ClusterProcessor,
    deliver: DeliverBatch,
    topic: TopicSource | None,
    trigger_s: float = 0.0,
) -> StreamingQuery:
    """Starts the pipeline: source -> processor -> deliver, at most one batch in `trigger_s` seconds."""
    rows = _journal_rows(spark, checkpoint) if topic is None else topic.observations(spark, checkpoint.topic_files)
    output = rows.groupBy("group").applyInPandasWithState(
        processor, OUTPUT, STATE, "append", GroupStateTimeout.NoTimeout
    )
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
