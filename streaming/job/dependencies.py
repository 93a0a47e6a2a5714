"""What a job needs of other programs and of its machine, and what of it is missing now.

The start-up names what it waits for (`missing`). While the job runs, `Checks` asks what may be the reason
that no batch is delivered. Each beginning and each end is one line on the terminal and in the log; /healthz, the page,
/metrics and the rule `monitor-degraded` show what is missing.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rules.formatting import duration
from rules.model.identifiers import Millis

log = logging.getLogger(__name__)
OVERDUE_S: Final = 12.0
"""A batch follows the one before within ten seconds: after a longer time it is asked what is missing."""
_ASK_EVERY_S: Final = 5.0
_ANSWER_S: Final = 10.0
"""How long an answer may take. The clients of a file system repeat a request for minutes before they fail."""
_LASTS_S: Final = 10.0
"""How long what can be seen at once must be so: between two batches, nothing of it need be."""


class Dependency(StrEnum):
    """What may be missing."""

    STORE = "store"
    TOPIC = "topic"
    """The brokers of the relays' topic."""
    SPARK = "spark"
    """Its master, which starts the job's executors."""
    CORES = "cores"
    """Executors with free cores."""
    EXECUTORS = "executors"
    """Some of those that have worked for the job."""
    CHECKPOINT = "checkpoint"
    """The file system of Spark's checkpoint."""
    DISK = "disk"
    """Room on the disk of the job's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Something that is missing now."""

    name: Dependency
    why: str
    """A sentence without its full stop."""
    for_ms: Millis
    """For how long it has been missing."""


class Dependencies:
    """What is missing. Any thread may use it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """`say` prints a line for the person at the terminal."""
        self.say = say
        self._lock = threading.Lock()
        self._missing: dict[Dependency, tuple[str, float]] = {}
        """Why, and since when in monotonic seconds."""

    @property
    def now(self) -> Sequence[Missing]:
        """What is missing now, the longest first."""
        with self._lock:
            known = [*self._missing.items()]
        return [Missing(name=name, why=why, for_ms=_since(at)) for name, (why, at) in known]

    def states(self) -> Mapping[str, bool]:
        """Returns whether each one is missing, by name."""
        return {name.value: False for name in Dependency} | {missing.name.value: True for missing in self.now}

    @property
    def seconds(self) -> Mapping[str, float]:
        """For how long each one has been missing that is."""
        return {missing.name.value: missing.for_ms / 1_000 for missing in self.now}

    def sentences(self) -> Sequence[str]:
        """Returns why the job waits, for the page."""
        return [f"{missing.why}, since {duration(missing.for_ms)}" for missing in self.now]

    def missing(self, name: Dependency, why: str, for_s: float = 0.0) -> None:
        """Notes that it has been missing for some seconds, and why now; said once, until it is there again."""
        with self._lock:
            known = name in self._missing
            since = self._missing[name][1] if known else time.monotonic() - for_s
            self._missing[name] = why, since
        if not known:
            self.say(f"{why}; waiting for it")

    def found(self, name: Dependency) -> None:
        """Notes that it is there."""
        with self._lock:
            ended = self._missing.pop(name, None)
        if ended is not None:
            self.say(f"{name}: it is there again after {duration(_since(ended[1]))}")


def _since(at: float) -> Millis:
    return Millis(round(1_000 * (time.monotonic() - at)))


Ask = Callable[[], str | None]
"""Returns why something is missing; None if it is there."""


class DependencyQuestion:
    """Asks in a thread of its own, which may hang, at most every few seconds."""

    def __init__(self, ask: Ask, unanswered: Ask = lambda: None) -> None:
        """`unanswered` returns the reason if the answer takes too long; None if nothing is known then."""
        self._ask, self._unanswered = ask, unanswered
        self._asked_at: float | None = None
        self._answered_at: float | None = None
        self._answer: str | None = None

    def answer(self) -> str | None:
        """Returns the newest answer, without waiting for one; asks again if that is due."""
        now = time.monotonic()
        if self._asked_at is not None and self._answered_at is None:
            return self._unanswered() if now - self._asked_at > _ANSWER_S else self._answer
        if self._answered_at is None or now - self._answered_at >= _ASK_EVERY_S:
            self._asked_at, self._answered_at = now, None
            threading.Thread(target=self._run, name="dependency", daemon=True).start()
        return self._answer

    def forget(self) -> None:
        """Forgets the newest answer, which says nothing about a later time."""
        self._answer = None

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except Exception as problem:  # noqa: BLE001 - it is asked again; nothing is known until then
            log.debug("asking: %s", problem)
            self._answer = None
        self._answered_at = time.monotonic()


class Checks:
    """Checks from time to time, in the thread of the caller, what is missing."""

    def __init__(
        self,
        dependencies: Dependencies,
        *,
        batch_age_s: Callable[[], float],
        seen: Mapping[Dependency, Ask],
        asked: Mapping[Dependency, tuple[Ask, Ask]],
    ) -> None:
        """Checks nothing yet.

        Args:
            dependencies: where the results are noted.
            batch_age_s: seconds since a batch was delivered.
            seen: what can be seen at once, without a request.
            asked: what a request shows, and what returns why it is missing if no answer comes: it is asked while no
                batch comes.
        """
        self._dependencies = dependencies
        self._batch_age_s = batch_age_s
        self._seen = seen
        self._since: dict[Dependency, float] = {}
        self._questions = {name: DependencyQuestion(ask, unanswered) for name, (ask, unanswered) in asked.items()}

    def run(self) -> None:
        """Notes what is missing now; to be called about once a second."""
        now = time.monotonic()
        for name, ask in self._seen.items():
            why = ask()
            if why is None:
                self._since.pop(name, None)
                self._dependencies.found(name)
            elif now - self._since.setdefault(name, now) >= _LASTS_S:
                self._dependencies.missing(name, why)
        overdue = self._batch_age_s() > OVERDUE_S
        for name, question in self._questions.items():
            if not overdue:
                question.forget()
            why = question.answer() if overdue else None
            if why is None:
                self._dependencies.found(name)
            else:
                self._dependencies.missing(name, why)
