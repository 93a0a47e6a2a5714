"""What calls to Spark raise, and the sentence in which a person reads it."""

import re
from typing import Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from connectors.errors import KraftwatchError
from connectors.settings.secret import redact

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""What a call to Spark raises: its own error, Java's error, or a lost connection to Java."""
NO_SPACE: Final = "No space left on device"
"""Of a full disk, in the errors of Java and of Python."""
_QUERY_ENDED = re.compile(r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception:\s*(.*?)\s*(?:SQLSTATE: \w+)?$")


class JobError(KraftwatchError):
    """What the job needs of Spark does not work now: it is started again."""


class PassingError(JobError):
    """What time alone repairs: a busy machine, a full disk, too little memory, a master that accepts no job."""


class CheckpointInUseError(JobError):
    """Another job uses the checkpoint: only a person can decide which one."""


class HangingError(JobError):
    """The query runs and completes no batch: Java, or a process that evaluates, may hang."""


class SubmittedSparkError(JobError):
    """Java hangs or has ended, and spark-submit has started it: only a new submission helps."""


class StateError(JobError):
    """The query cannot continue with its state: a new one must be begun."""

    def __init__(self, why: str, missing: str | None = None) -> None:
        """`why`: the reason, as a clause; `missing`: why a new one cannot begin yet, and what to do."""
        no_new = "" if missing is None else f", and a new one cannot begin: {missing}"
        super().__init__(f"the streaming query cannot continue with its state: {why}{no_new}")
        self.why = why


def error_cause(problem: Exception) -> str:
    """Returns the most specific line of an error that Spark has wrapped several times, without a secret."""
    if isinstance(problem, Py4JNetworkError | OSError):
        return "Spark's Java process has ended (killed, or out of memory)"
    texts = [line.strip() for line in str(problem).splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    lines = [line for line in texts if "Error" in line or "Exception" in line]
    cause = [type(problem).__name__, *texts[:1], *lines[-1:]][-1]
    if (ended := _QUERY_ENDED.match(cause)) is not None:
        cause = ended[1] or "Spark gives no reason: see its log, spark.log"
    return redact(cause)[:500]
