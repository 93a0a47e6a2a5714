"""A Watcher: a real gatherer, and in this process the pure path that the job's step is: decode, apply, judge, advance.

Without Spark, so that a scene on a real quorum costs the seconds that Kafka takes and no more. What is known of the
quorum goes on from scene to scene; the alerts' life begins anew with each, with the scene's own thresholds.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from connectors.decode_observation import events_of
from connectors.observation import Kind
from deploy.lab.lab import Lab
from rules.alert import Alert, AlertState
from rules.evaluate import RULES, thresholds_for
from rules.finding import Thresholds
from rules.lifecycle import Book
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from streaming.replay.cluster_monitor import Row, Watch
from streaming.replay.machine import Machine
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, Gathering, cluster_of, gathering

CLEAR_S = 1.0
"""How long a condition must be gone in a scene, for every rule."""
SLOW_START_S = 300.0
"""What is so while a JVM takes its time to start, or the machine stands still, is told in no scene that is of other
things: however long an election takes, and a controller that was killed to come back."""
_BY_SLOWNESS = ("no-leader", "high-watermark-stalled", "stale-voter-endpoint", "monitor-blind")


@dataclass(kw_only=True)
class Watcher:
    """What is told of one quorum, scene by scene."""

    gathered: Gathering
    machine: Machine
    kinds: frozenset[Kind] = frozenset(Kind)
    """Which observations it is shown."""
    told: list[Alert] = field(default_factory=list)
    """Of this scene, oldest first."""
    _book: Book = field(default_factory=Book)
    _thresholds: Mapping[str, Thresholds] = field(default_factory=lambda: thresholds_for({}))
    _read: int = 0

    def begin(self, thresholds: Mapping[str, float]) -> None:
        """A scene: with these thresholds (`RULE.NAME` -> value); others are as they ship, but for `SLOW_START_S`.

        Returns when a leader was seen after everything that stands now, so that nothing of the scene before is told.
        """
        self.judge_by(thresholds)
        since = time.time() * 1000
        eventually(lambda: self._saw_a_leader(since), within_s=30)
        self._book, self.told = Book(), []

    def judge_by(self, thresholds: Mapping[str, float]) -> None:
        """The same scene with other thresholds from here on, as after a restart: a shorter window is time gone by."""
        clears = {f"{each}.clear": CLEAR_S for each in RULES}
        holds = {f"{each}.hold": SLOW_START_S for each in _BY_SLOWNESS}
        self._thresholds = thresholds_for({**clears, **holds, **thresholds})

    def wait_for(self, rule: str, state: str = "firing", *, subject: str = "", within_s: float = 30) -> Alert:
        """The newest alert of this scene about the rule (and a subject that contains this), once it is in this state.

        The newest, not the first: an alert that came and went is not one that stands.
        """

        def found() -> Alert:
            self._look()
            fitting = [each for each in self.told if each.rule == rule and subject in each.subject]
            assert fitting, f"nothing was told of {rule} {subject}; told: {self.words()}"
            assert fitting[-1].state is AlertState(state), self.words()
            return fitting[-1]

        return eventually(found, within_s=within_s)

    @property
    def rules(self) -> set[str]:
        """What was told of in this scene, whatever came of it."""
        self._look()
        return {each.rule for each in self.told}

    def words(self) -> list[str]:
        """The scene's alerts, one line each."""
        return [f"{each.state} {each.severity} {each.rule} {each.subject}: {each.summary}" for each in self.told]

    def _look(self) -> None:
        until = self.gathered.journal.published()
        for row in self.gathered.journal.read(self._read, until):
            if row.kind in self.kinds:
                seen = Row(row.sequence, Millis(row.observed_at_ms), events_of(row).events())
                watch = Watch(self.machine, self._book, self._thresholds)
                alerts = watch.observe([seen])
                self._book = watch.book
                self.told += alerts
        self._read = until

    def _saw_a_leader(self, since_ms: float) -> None:
        self._look()
        quorum = self.machine.quorum()
        assert quorum.leader_id is not None
        assert quorum.poll is not None
        assert quorum.poll.observed_at_ms > since_ms
        if Kind.RECORDS in self.kinds:
            assert quorum.log_seen_at_ms is not None
            assert quorum.log_seen_at_ms > since_ms


@contextmanager
def watching(lab: Lab, folder: Path) -> Iterator[Watcher]:
    """A gatherer that knows nothing yet, and its watcher, until the end of the block."""
    with gathering(folder, cluster_of(lab)) as gathered:
        yield watcher_of(lab, gathered)


def watcher_of(lab: Lab, gathered: Gathering, kinds: frozenset[Kind] = frozenset(Kind)) -> Watcher:
    """Who sees what is gathered, or these kinds of it alone, from its beginning."""
    machine = Machine(NAME, lab.cluster_id, tuple(lab.bootstrap), Vantage.INSIDE)
    return Watcher(gathered=gathered, machine=machine, kinds=kinds)


@contextmanager
def paused(lab: Lab, *nodes: int) -> Iterator[None]:
    """These nodes stopped (SIGSTOP) for the time of the block, and continued whatever happens in it."""
    lab.pause(*nodes)
    try:
        yield
    finally:
        lab.resume(*nodes)
