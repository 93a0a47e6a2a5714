"""Restarts: when what Spark has ended is started again inside the job, and when the job ends instead."""

import time
from collections.abc import Callable
from typing import Final

from streaming.pipeline.spark.errors import BusyError, FullDiskError, JobError, NoNewStateError, StateError

MOST: Final = 6
"""So many restarts in a row may complete no batch; then a supervisor starts the job again."""
_NOT_COUNTED: Final = (BusyError, FullDiskError)
_FIRST_S: Final = 1.0
_LONGEST_S: Final = 30.0
_SESSION_FROM: Final = 2
"""From so many failures in a row on, the whole session is restarted: what ended the query may be in it."""


class Restarts:
    """The failures since a batch was completed. What time alone repairs does not count: a busy machine, a full disk."""

    def __init__(self, advice: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`advice`: what helps if the job is started again and fails again; `clock` returns monotonic seconds."""
        self._advice, self._clock = advice, clock
        self._failures = 0
        self._due_at = 0.0
        self.problem: JobError | None = None
        """Why what runs must be started again; None while it runs."""

    @property
    def due_in_s(self) -> float:
        """Seconds until the next start."""
        return max(0.0, self._due_at - self._clock())

    @property
    def of_session(self) -> bool:
        """Whether the next start begins with a new session, although this one answers."""
        return self._failures >= _SESSION_FROM and not isinstance(self.problem, (*_NOT_COUNTED, StateError))

    def failed(self, problem: JobError) -> None:
        """Plans a start after a failure. Raises JobError if too many in a row have completed no batch."""
        if not isinstance(problem, _NOT_COUNTED):
            if self._failures == MOST:
                if isinstance(problem, NoNewStateError):
                    raise problem
                raise JobError(
                    f"{problem}; Spark was started again {MOST} times and completed no batch: start the job again, and "
                    f"if this repeats, {self._advice}: the state is built again"
                ) from problem
            self._failures += 1
        self.problem = problem
        self._due_at = self._clock() + min(_LONGEST_S, _FIRST_S * 2 ** max(0, self._failures - 1))

    def started(self) -> None:
        """What failed runs again; whether it works, only a batch shows."""
        self.problem = None

    def succeeded(self) -> None:
        """A batch was completed."""
        self._failures = 0
