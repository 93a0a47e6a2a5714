"""The streaming query: source -> decode -> step -> deliver, started from its own checkpoint as often as need be."""

import logging
from collections.abc import Callable

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from connectors.errors import KraftwatchError
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.decode import decode_batches
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.schema import EVENT, OUTPUT, STATE
from streaming.pipeline.source import JournalSource
from streaming.pipeline.step import Step

log = logging.getLogger(__name__)

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""What a call to Spark raises: its own error, Java's, or that Java is gone."""
TOO_SLOW = "Python worker failed to connect back"
"""What Spark says of a Python that plans for it and was not there within 10 s (PythonWorkerFactory.createSimpleWorker,
where nothing can be set): on a busy machine the imports alone may take as long."""
ATTEMPTS = 10


class JobError(KraftwatchError):
    """The streaming query ended by itself: the checkpoint holds, a restart goes on from it."""

    code = "job"


class Query:
    """The one query of a job. What a step is given cannot change while it runs: it is started again with another."""

    def __init__(self, spark: SparkSession, checkpoint: Checkpoint, deliver: Deliver) -> None:
        """Starts nothing yet."""
        self._spark = spark
        self._checkpoint = checkpoint
        self._deliver = deliver
        self._running: StreamingQuery | None = None
        self._step: Step | None = None
        self._attempts = 0

    def start(self, step: Step) -> None:
        """Go on from the checkpoint, with this step.

        Raises:
            JobError: Spark does not start it.
        """
        self._step, self._attempts = step, 0
        self._attempt()

    def _attempt(self) -> None:
        assert self._step is not None
        while True:
            self._attempts += 1
            try:
                self._running = start(self._spark, self._checkpoint, self._step, self._deliver)
            except SPARK_ERRORS as problem:
                if not self._too_slow(problem):
                    place = self._checkpoint.spark
                    raise JobError(f"the streaming query does not start on {place}: {_cause(problem)}") from problem
            else:
                return

    def _too_slow(self, problem: Exception) -> bool:
        """Whether only a starved machine kept it from starting, so that it is worth another attempt."""
        slow = TOO_SLOW in str(problem) and self._attempts < ATTEMPTS
        if slow:
            log.warning("Spark's planner took more than 10 s to start: another attempt, the checkpoint holds")
        return slow

    def wait(self, seconds: int) -> None:
        """Let it run for so long.

        Raises:
            JobError: it ended by itself.
        """
        assert self._running is not None
        try:
            ended = self._running.awaitTermination(seconds)
        except SPARK_ERRORS as problem:
            if not self._too_slow(problem):
                raise JobError(f"the streaming query failed, its checkpoint holds: {_cause(problem)}") from problem
            self._attempt()
            return
        if ended:
            raise JobError("the streaming query ended by itself; its checkpoint holds: start again")

    def stop(self) -> None:
        """End it between two batches; a batch that is not done comes again when it is started."""
        if self._running is not None:
            quietly(self._running.stop)


def start(spark: SparkSession, checkpoint: Checkpoint, step: Step, deliver: Deliver) -> StreamingQuery:
    """The pipeline itself, started: source -> decode -> step -> deliver."""
    spark.dataSource.register(JournalSource)
    observations = spark.readStream.format(JournalSource.NAME).option("path", str(checkpoint.journal)).load()
    output = transitions(observations, step)
    return (
        output.writeStream.foreachBatch(deliver)
        .option("checkpointLocation", str(checkpoint.spark))
        .outputMode("append")
        .start()
    )


def transitions(observations: DataFrame, step: Step) -> DataFrame:
    """Observation rows to the step's output rows."""
    events = observations.mapInArrow(decode_batches, EVENT)
    return events.groupBy("cluster", "shard").applyInPandasWithState(
        step, OUTPUT, STATE, "append", GroupStateTimeout.NoTimeout
    )


def quietly(stop: Callable[[], None]) -> None:
    """Stop what may be ending by itself already; the checkpoint does not depend on a clean end."""
    try:
        stop()
    except Exception as problem:  # noqa: BLE001 - we leave: whatever it says, it must not hide why we leave
        log.debug("while stopping: %s", problem)


def _cause(problem: Exception) -> str:
    """The last line that says something, of an error that Spark wraps many times."""
    if isinstance(problem, Py4JNetworkError | OSError):
        return "Spark's Java process is gone (killed, or out of memory)"
    said = [line.strip() for line in str(problem).splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    lines = [line for line in said if "Error" in line or "Exception" in line]
    return [type(problem).__name__, *said[:1], *lines[-1:]][-1][:500]
