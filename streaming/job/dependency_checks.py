"""What a running job asks and sees to find out what is missing (`dependencies.Checks`)."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from connectors.errors import KraftwatchError
from connectors.store.durable_file import full_disk
from streaming.job.dependencies import Ask, Checks, Dependency, DependencyQuestion
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
    asks = _Asks(job=job, started_at=time.monotonic())
    seen: dict[Dependency, Ask] = {Dependency.STORE: asks.store, Dependency.DISK: asks.disk}
    if not job.running.config.master.startswith("local"):
        # Java may hang.
        executors = Executors(asks.executor_count)
        seen |= {
            Dependency.CORES: DependencyQuestion(asks.cores).answer,
            Dependency.EXECUTORS: DependencyQuestion(executors).answer,
        }
    if not job.running.gathers:
        seen[Dependency.TOPIC] = asks.topic
    asked: dict[Dependency, tuple[Ask, Ask]] = {}
    if (uri := job.checkpoint.uri) is not None:
        files = FileSystem(asks.checkpoint, asks.java, f"checkpoint {uri} does not answer")
        asked[Dependency.CHECKPOINT] = files.ask, files.unanswered
    return Checks(job.dependencies, batch_age_s=asks.batch_age_s, seen=seen, asked=asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asks:
    """Asks a job; Spark may have been started again since the last question, or not run now."""

    job: Job
    started_at: float
    """When the query was started, in monotonic seconds."""

    def batch_age_s(self) -> float:
        """Returns the seconds since a batch was delivered; before the first one, since the query was started."""
        last = self.job.deliver.last_batch_at
        return time.monotonic() - (self.started_at if last is None else last)

    def store(self) -> str | None:
        """Returns that the store does not answer."""
        return self.job.role.store_problem

    def disk(self) -> str | None:
        """Returns that the disk of the job's folder is full."""
        return full_disk(self.job.checkpoint.folder)

    def topic(self) -> str | None:
        """Returns that the relay's topic cannot be read."""
        failing = self.job.monitoring.topics().failing
        return None if failing is None else f"the relay's topic cannot be read: {failing}"

    def checkpoint(self) -> str | None:
        """Returns that the file system of Spark's checkpoint does not answer. May take long."""
        spark, uri = self.job.monitoring.spark, self.job.checkpoint.uri
        try:
            if spark is not None and uri is not None and self.java() is not None:
                HadoopFolder(spark, uri).names("metadata")
        except KraftwatchError as problem:
            return str(problem)
        except SPARK_ERRORS:
            # Java has just ended: it is started again.
            return None
        return None

    def java(self) -> str | None:
        """Returns that Spark's Java answers; None if it has ended. Does not return if it hangs."""
        spark = self.job.monitoring.spark
        return "it answers" if spark is not None and answers(spark) else None

    def cores(self) -> str | None:
        """Returns that no task of the batch runs, although some wait."""
        spark = self.job.monitoring.spark
        if spark is None or self.batch_age_s() <= _IN_WORK_S:
            return None
        try:
            tracker = spark.sparkContext.statusTracker()
            ids = tracker.getActiveStageIds()
            stages = [stage for each in ids if (stage := tracker.getStageInfo(each)) is not None]
        except SPARK_ERRORS:
            return None
        waits = any(stage.numCompletedTasks < stage.numTasks for stage in stages)
        if not waits or any(stage.numActiveTasks for stage in stages):
            return None
        return "no executor of Spark takes the tasks of the job: its cluster gives it no cores"

    def executor_count(self) -> int | None:
        """Returns how many executors work for the job; None if Spark does not say."""
        spark = self.job.monitoring.spark
        try:
            return None if spark is None else executor_count(spark)
        except SPARK_ERRORS:
            return None


class FileSystem:
    """Asks a file system through Java, which may be what does not answer."""

    def __init__(self, ask: Ask, java: Ask, unanswered: str) -> None:
        """`java` returns None unless Java answers; `unanswered`: what to say if only the file system does not."""
        self._ask, self._java, self._unanswered = ask, DependencyQuestion(java), unanswered

    def ask(self) -> str | None:
        """Returns why the file system is missing; None if it is there."""
        self._java.forget()
        return self._ask()

    def unanswered(self) -> str | None:
        """Returns that the file system does not answer; None while Java does not either."""
        return None if self._java.answer() is None else self._unanswered


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
