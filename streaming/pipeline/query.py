"""The streaming query: source -> decode -> step -> deliver, restartable from its checkpoint."""

import logging
import re
from collections.abc import Callable

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from connectors.errors import KraftwatchError, UsageError
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.decode import decode_batches
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.kafka_source import TopicSource, TopicStep
from streaming.pipeline.packed_events import EventPacker
from streaming.pipeline.schema import OUTPUT, PACKED, STATE
from streaming.pipeline.source import JournalSource, rows_per_batch
from streaming.pipeline.step import Step

log = logging.getLogger(__name__)

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""What a call to Spark raises: its own error, Java's error, or a lost connection to Java."""
TOO_SLOW = "Python worker failed to connect back"
"""Spark's error when its Python planner has not connected within 10 s (PythonWorkerFactory.createSimpleWorker, not
configurable): on a busy machine the imports alone may take that long."""
ATTEMPTS = 10


_WAITING = "Waiting for data"
"""The message of a query's status between two batches (MicroBatchExecution)."""
STATE_ERRORS = (
    *("CANNOT_LOAD_STATE_STORE", "STATE_STORE_", "RocksDBException", "Stream is corrupted"),
    *("Incomplete log file", "UNSUPPORTED_DATATYPE"),
)
"""Texts of Spark's errors when it cannot read its own checkpoint, although the form of the files is correct."""
_ROWS_LOST = ("Cannot fetch offset", "KAFKA_DATA_LOSS", "data may have been lost", "OffsetOutOfRange", "failOnDataLoss")
"""Texts of Spark's errors when the topic no longer has rows that the checkpoint has not read."""
_REFUSED = re.compile(rf"{UsageError.__module__}\.{UsageError.__name__}: (.+)")
"""In the traceback of a Python worker: the step refused the state of a newer kraftwatch or of another cluster."""


class JobError(KraftwatchError):
    """The streaming query ended by itself. The sentence says whether a restart is enough or a file is damaged."""


class Query:
    """The query of a job. A changed step needs a restarted query."""

    def __init__(
        self, spark: SparkSession, checkpoint: Checkpoint, deliver: Deliver, topic: TopicSource | None = None
    ) -> None:
        """Creates the query without starting it. It reads the checkpoint's journal, or the topic if there is one."""
        self.topic = topic
        self._spark = spark
        self._checkpoint = checkpoint
        self._deliver = deliver
        self._running: StreamingQuery | None = None
        self._step: Step | None = None
        self._attempts = 0

    def start(self, step: Step) -> None:
        """Starts the query from the checkpoint, with this step.

        Raises:
            UsageError: the step refuses the checkpoint's state.
            JobError: Spark does not start it.
        """
        self._step, self._attempts = step, 0
        self._attempt()

    def _attempt(self) -> None:
        assert self._step is not None
        while True:
            self._attempts += 1
            try:
                self._running = start(self._spark, self._checkpoint, self._step, self._deliver, self.topic)
            except SPARK_ERRORS as problem:
                if not self._too_slow(problem):
                    raise self._failure(f"does not start on {self._checkpoint.spark}", problem) from problem
            else:
                return

    def _too_slow(self, problem: Exception) -> bool:
        """Whether the query failed to start only because the machine is busy, so that another attempt makes sense."""
        slow = TOO_SLOW in str(problem) and self._attempts < ATTEMPTS
        if slow:
            log.warning("Spark's planner did not start within 10 s; retrying from the checkpoint")
        return slow

    def wait(self, seconds: int) -> None:
        """Waits `seconds` while the query runs.

        Raises:
            UsageError: the step refuses the checkpoint's state: a newer kraftwatch or another cluster wrote it.
            JobError: the query ended by itself.
        """
        assert self._running is not None
        try:
            ended = self._running.awaitTermination(seconds)
        except SPARK_ERRORS as problem:
            if not self._too_slow(problem):
                raise self._failure("failed", problem) from problem
            self._attempt()
            return
        if ended:
            raise JobError("the streaming query ended by itself; restart the job")

    @property
    def waits_for_data(self) -> bool:
        """Whether the query has read everything that its source has, and waits for more."""
        try:
            status = None if self._running is None else self._running.status
        except SPARK_ERRORS:
            return False
        return status is not None and not status["isDataAvailable"] and status["message"].startswith(_WAITING)

    def _failure(self, how: str, problem: Exception) -> JobError | UsageError:
        """Returns the error that says what to do: to restart the job, or to repair a damaged file."""
        if (refused := _REFUSED.search(str(problem))) is not None:
            return UsageError(refused[1])
        damaged = self._checkpoint.spark_files.damaged()
        cause = error_cause(problem)
        if damaged:
            return JobError(f"the streaming query {how}: {damaged[0]}; run `{self._checkpoint.repair_command}`")
        if self.topic is not None and any(text in str(problem) for text in _ROWS_LOST):
            return JobError(
                f"the streaming query {how}: the topic {self.topic.topic.topic} no longer has rows that were not read "
                f"(its retention is too short, or it was created again): move {self._checkpoint.spark} away, and the "
                f"next start begins with each cluster's newest baseline ({cause})"
            )
        if any(text in str(problem) for text in STATE_ERRORS):
            return JobError(
                f"the streaming query {how}: Spark cannot read its state in {self._checkpoint.spark} ({cause}); run "
                f"`{self._checkpoint.repair_command}`"
            )
        return JobError(f"the streaming query {how}; no file of its checkpoint is damaged, restart the job: {cause}")

    def stop(self) -> None:
        """Stops the query; Spark repeats an unfinished batch after the next start."""
        if self._running is not None:
            stop_ignoring_errors(self._running.stop)


def start(
    spark: SparkSession, checkpoint: Checkpoint, step: Step, deliver: Deliver, topic: TopicSource | None
) -> StreamingQuery:
    """Starts the pipeline: source -> decode -> step -> deliver."""
    output = (
        evaluated(_journal_events(spark, checkpoint, step), step) if topic is None else _of_topic(spark, topic, step)
    )
    return (
        output.writeStream.foreachBatch(deliver)
        .option("checkpointLocation", str(checkpoint.spark))
        .outputMode("append")
        .start()
    )


def _journal_events(spark: SparkSession, checkpoint: Checkpoint, step: Step) -> DataFrame:
    spark.dataSource.register(JournalSource)
    reader = spark.readStream.format(JournalSource.NAME).option("path", str(checkpoint.journal))
    reader = reader.option("rows", str(rows_per_batch(step.clusters)))
    # As many tasks decode as evaluate.
    observations = reader.option("partitions", str(spark.conf.get("spark.sql.shuffle.partitions"))).load()
    return observations.mapInArrow(EventPacker(decode_batches), PACKED)


def _of_topic(spark: SparkSession, topic: TopicSource, step: Step) -> DataFrame:
    return evaluated(topic.events(spark), TopicStep(step))


def evaluated(events: DataFrame, step: Step | TopicStep) -> DataFrame:
    """Returns the step's output rows for packed events."""
    return events.groupBy("cluster", "shard").applyInPandasWithState(
        step, OUTPUT, STATE, "append", GroupStateTimeout.NoTimeout
    )


def stop_ignoring_errors(stop: Callable[[], None]) -> None:
    """Stops what may be ending by itself already; the checkpoint does not depend on a clean stop."""
    try:
        stop()
    except Exception as problem:  # noqa: BLE001 - an error while stopping must not hide the reason for the stop
        log.debug("while stopping: %s", problem)


def error_cause(problem: Exception) -> str:
    """Returns the most specific line of an error that Spark has wrapped several times."""
    if isinstance(problem, Py4JNetworkError | OSError):
        return "Spark's Java process has ended (killed, or out of memory)"
    texts = [line.strip() for line in str(problem).splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    lines = [line for line in texts if "Error" in line or "Exception" in line]
    return [type(problem).__name__, *texts[:1], *lines[-1:]][-1][:500]
