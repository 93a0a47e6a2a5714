"""What a running job asks and sees to find out what is missing (`dependencies.Checks`)."""

import time
from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession

from connectors.errors import KraftwatchError
from connectors.store.durable_file import full_disk
from streaming.job.dependencies import Ask, Checks, Dependency
from streaming.job.job import Job
from streaming.pipeline.spark.errors import SPARK_ERRORS
from streaming.pipeline.spark.hadoop_folder import HadoopFolder
from streaming.pipeline.spark.internals import answers, executor_count

_IN_WORK_S: Final = 2.0
"""A batch that takes less needs no look at its tasks."""
_EXECUTORS_EVERY_S: Final = 5.0
_EXECUTORS_KNOWN_S: Final = 600.0
"""How long a lost executor is missed: a cluster may also be made smaller."""


def dependency_checks(job: Job) -> Checks:
    """Returns the checks of a job whose query has been started."""
    started = time.monotonic()

    def batch_age_s() -> float:
        last = job.deliver.last_batch_at
        return time.monotonic() - (started if last is None else last)

    seen: dict[Dependency, Ask] = {
        Dependency.STORE: lambda: job.role.store_problem,
        Dependency.DISK: lambda: full_disk(job.checkpoint.folder),
    }
    if not job.config.master.startswith("local"):
        seen[Dependency.CORES] = lambda: _without_core(job.monitoring.spark) if batch_age_s() > _IN_WORK_S else None
        seen[Dependency.EXECUTORS] = Executors(lambda: _executors(job.monitoring.spark))
    if not job.monitoring.gathers:
        seen[Dependency.TOPIC] = lambda: _topic_problem(job)
    asked: dict[Dependency, tuple[Ask, str]] = {}
    if (uri := job.checkpoint.uri) is not None:
        asked[Dependency.CHECKPOINT] = (
            lambda: _checkpoint_problem(job.monitoring.spark, uri),
            f"checkpoint {uri} does not answer",
        )
    return Checks(job.dependencies, batch_age_s=batch_age_s, seen=seen, asked=asked)


def _topic_problem(job: Job) -> str | None:
    failing = job.monitoring.topics().failing
    return None if failing is None else f"the relay's topic cannot be read: {failing}"


def _checkpoint_problem(spark: SparkSession | None, uri: str) -> str | None:
    try:
        if spark is not None and answers(spark):
            HadoopFolder(spark, uri).names("metadata")
    except KraftwatchError as problem:
        return str(problem)
    except SPARK_ERRORS:
        # Java has just ended: it is started again.
        return None
    return None


def _without_core(spark: SparkSession | None) -> str | None:
    """Returns that no task of the batch runs, although some wait."""
    if spark is None:
        return None
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [stage for each in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(each)) is not None]
    except SPARK_ERRORS:
        return None
    waits = any(one.numCompletedTasks < one.numTasks for one in stages)
    if not waits or any(one.numActiveTasks for one in stages):
        return None
    return "no executor of Spark takes the tasks of the job: its cluster gives it no cores"


def _executors(spark: SparkSession | None) -> int | None:
    """Returns how many executors work for the job; None if Spark does not say."""
    try:
        return None if spark is None else executor_count(spark)
    except SPARK_ERRORS:
        return None


class Executors:
    """Compares how many executors work for the job with how many did."""

    def __init__(self, count: Callable[[], int | None], clock: Callable[[], float] = time.monotonic) -> None:
        """`count` returns how many there are; None: unknown. `clock` returns monotonic seconds."""
        self._count, self._clock = count, clock
        self._asked_at = float("-inf")
        self._most: tuple[int, float] = (0, 0.0)
        """The most that there were, and when there were so many last."""
        self._why: str | None = None

    def __call__(self) -> str | None:
        """Returns how many are lost, as a sentence; None if none is."""
        now = self._clock()
        if now - self._asked_at < _EXECUTORS_EVERY_S:
            return self._why
        self._asked_at = now
        count = self._count()
        if count is None:
            return self._why
        most, at = self._most
        if count >= most or now - at > _EXECUTORS_KNOWN_S:
            self._most = (count, now)
        lost = self._most[0] - count
        self._why = f"{lost} of {self._most[0]} executors of the job are lost" if lost > 0 else None
        return self._why
