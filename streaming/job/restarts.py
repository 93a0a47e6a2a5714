"""When what Spark has ended, or what hangs, is started again inside the job: for as long as it takes.

The job does not end because Spark fails: its understudy evaluates all rules, and an alert says why Spark fails.
"""

import time
from collections.abc import Callable
from typing import Final

from streaming.pipeline.spark.errors import JobError, PassingError, StateError
from streaming.web.application import START_S

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 30.0
_HANGS_S: Final = 300.0
"""After so long without a batch, the session is restarted; twice as long after each restart: a batch may take long."""
_LONGEST_HANGS_S: Final = 3_600.0
_LOOK_S: Final = 5.0
"""A longer time between two looks was not that of Spark alone: the host was suspended, or is busy."""
_SESSION_FROM: Final = 2
"""From so many failures in a row on, the whole session is restarted: what ended the query may be in it."""


class Restarts:
    """The failures since a batch was completed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns monotonic seconds."""
        self._clock = clock
        self._failures = 0
        self._due_at = 0.0
        self.has_worked = False
        """Whether a batch was ever completed."""
        self.problem: JobError | None = None
        """Why what runs must be started again; None while it runs."""
        self.has_new_state = False
        """Whether a new state was begun since the newest batch."""
        self._was_unreadable = False
        """Whether the state could not be read since then."""

    @property
    def due_in_s(self) -> float:
        """Seconds until the next start."""
        return max(0.0, self._due_at - self._clock())

    @property
    def hangs_s(self) -> float:
        """For so long the query may complete no batch now; the first one may take as long as a start."""
        return max(min(_HANGS_S * 2.0**self._failures, _LONGEST_HANGS_S), 0.0 if self.has_worked else START_S)

    @property
    def of_session(self) -> bool:
        """Whether the next start begins with a new session, although this one answers."""
        return self._failures >= _SESSION_FROM and not isinstance(self.problem, PassingError | StateError)

    def failed(self, problem: JobError) -> None:
        """Plans a start after a failure."""
        self._failures += 1
        self.problem = problem
        self._due_at = self._clock() + min(_LONGEST_S, _FIRST_S * 2 ** (min(self._failures, 6) - 1))

    def started(self) -> None:
        """What failed runs again; whether it works, only a batch shows."""
        self.problem = None

    def succeeded(self) -> None:
        """A batch was completed."""
        self._failures, self.has_worked = 0, True
        self.has_new_state = self._was_unreadable = False

    def confirmed(self, unreadable: str | None) -> str | None:
        """Returns why a state cannot be read once that is found twice: once, Java may have been killed meanwhile."""
        was_unreadable, self._was_unreadable = self._was_unreadable, unreadable is not None
        return unreadable if was_unreadable else None


class Waiting:
    """For how long the query that runs has completed no batch."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns monotonic seconds."""
        self._clock = clock
        self._looked_at = clock()
        self._progress: object = None
        self.for_s = 0.0
        """In which the job ran, and nothing was missing that a batch waits for."""

    def look(self, progress: object, *, has_reason: bool) -> None:
        """To be called about once a second. `progress`: equal only while nothing happens; `has_reason`: it may wait."""
        now = self._clock()
        self.for_s += min(_LOOK_S, now - self._looked_at)
        self._looked_at = now
        if has_reason or progress != self._progress:
            self._progress, self.for_s = progress, 0.0
