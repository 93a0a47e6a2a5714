"""What calls to Spark raise, and what a person is told of it."""

import logging
from collections.abc import Callable

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from connectors.errors import KraftwatchError
from connectors.settings.secret import redact

log = logging.getLogger(__name__)

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""What a call to Spark raises: its own error, Java's error, or a lost connection to Java."""


class JobError(KraftwatchError):
    """The streaming query ended by itself. The sentence says whether a restart is enough or a file is damaged."""


class StateError(JobError):
    """The query cannot continue with its state: a new one must be begun."""

    def __init__(self, why: str) -> None:
        """`why`: the reason, as a clause."""
        super().__init__(
            f"the streaming query cannot continue with its state: {why}; restart the job, which builds it again"
        )
        self.why = why


def error_cause(problem: Exception) -> str:
    """Returns the most specific line of an error that Spark has wrapped several times, without a secret."""
    if isinstance(problem, Py4JNetworkError | OSError):
        return "Spark's Java process has ended (killed, or out of memory)"
    texts = [line.strip() for line in str(problem).splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    lines = [line for line in texts if "Error" in line or "Exception" in line]
    return redact([type(problem).__name__, *texts[:1], *lines[-1:]][-1])[:500]


def stop_ignoring_errors(stop: Callable[[], None]) -> None:
    """Stops what may be ending by itself already; the checkpoint does not depend on a clean stop."""
    try:
        stop()
    except Exception as problem:  # noqa: BLE001 - an error while stopping must not hide the reason for the stop
        log.debug("while stopping: %s", problem)
