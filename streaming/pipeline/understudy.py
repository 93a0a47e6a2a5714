"""Understudy: evaluates all rules in a thread of the job's own process while Spark does not.

It is what Spark's workers are, a `ClusterProcessor`, on the same rows: of a journal from the newest snapshot of each
cluster on, of relays' topics from the newest baselines on. So both engines find the same. Whatever keeps Spark from
evaluating (a full disk, a Java that hangs or was killed, executors or a file system that are away, the start), there is
one behaviour: it counts until Spark has evaluated each cluster as far as it has, and nothing runs while Spark works.

A batch of many clusters takes Spark some seconds, which the understudy is always ahead, and both need the same cores.
So where Spark keeps up and comes no closer, the understudy evaluates no more of a cluster: the next batch is as far.
"""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from connectors.errors import KraftwatchError
from connectors.observations.observation import Observation
from rules.model.identifiers import Millis
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.output_rows import EvaluationTimes, by_cluster
from streaming.pipeline.topic_files import TopicState
from streaming.status.status_store import Engine

log = logging.getLogger(__name__)

_WAIT_S: Final = 1.0
"""How long the thread waits for new rows: pending notifications are sent at least that often."""
_AGAIN_S: Final = 5.0
"""After so long it begins again, where rows or states could not be read."""
_SAME_MS: Final = Millis(2_000)
"""Spark has evaluated the same rows if it lacks no more than this time: rows come while a batch is delivered."""
_KEEPS_UP_MS: Final = Millis(60_000)
"""Spark that is not further behind, and comes no closer, keeps up in batches that take so long."""
_CLOSER: Final = 0.9


class UnderstudyRows(Protocol):
    """Where the understudy's rows come from."""

    def begin(self) -> Mapping[str, bytes]:
        """Returns the newest stored state of each cluster that has one; the rows begin after it. May take long."""

    def read(self, timeout_s: float) -> Sequence[Observation]:
        """Returns the next rows; none if none comes within this time."""

    @property
    def at_end(self) -> bool:
        """Whether all rows that are there were read."""

    @property
    def topics(self) -> TopicState | None:
        """What was found in relays' topics; None where none are read."""

    def close(self) -> None:
        """Closes what `begin` has opened."""


class Understudy:
    """A thread that evaluates each cluster until Spark has evaluated it as far; it ends with the last one."""

    def __init__(
        self,
        rows: UnderstudyRows,
        clusters: Iterable[str],
        processor: ClusterProcessor,
        *,
        deliver: Deliver,
        notifying: Notifying,
    ) -> None:
        """Evaluates nothing yet."""
        self._rows, self._processor, self._deliver, self._notifying = rows, processor, deliver, notifying
        self._clusters = {*clusters}
        """For which it still counts."""
        self._own: dict[str, EvaluationTimes] = {}
        """Of its newest evaluation of each cluster."""
        self._sparks: dict[str, EvaluationTimes] = {}
        """The same of Spark, since the understudy began."""
        self._behind_ms: dict[str, int] = {}
        """How far Spark was behind the understudy when it had evaluated a cluster."""
        self._left: set[str] = set()
        """Clusters of which the understudy evaluates no more."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="understudy", daemon=True)

    def start(self) -> None:
        """Begins to evaluate."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it, wherever it is."""
        self._stopping.set()
        self._thread.join()

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def counts_for(self, clusters: Iterable[str]) -> bool:
        """Returns whether it counts for each of these clusters, and evaluates it."""
        return self.runs and (self._clusters - self._left).issuperset(clusters)

    @property
    def topics(self) -> TopicState | None:
        """What it has found in relays' topics, while it runs; None: nothing, or it reads none."""
        return self._rows.topics if self.runs else None

    def note_spark(self, evaluated: Mapping[str, EvaluationTimes]) -> None:
        """Notes how far Spark has evaluated clusters."""
        self._sparks.update(evaluated)
        for name, spark in evaluated.items():
            if (own := self._own.get(name)) is None:
                continue
            before_ms, behind_ms = self._behind_ms.get(name), own.now_ms - spark.now_ms
            self._behind_ms[name] = behind_ms
            comes_closer = before_ms is None or behind_ms < _CLOSER * before_ms
            if behind_ms <= _KEEPS_UP_MS and not comes_closer and _knows_what_is_pending(own, spark):
                self._left.add(name)

    def begin(self) -> None:
        """Begins with the newest states. Raises KraftwatchError or OSError if they, or the rows, cannot be read."""
        self._states = dict(self._rows.begin())

    def evaluate(self, timeout_s: float) -> None:
        """Evaluates the next rows, if some come within this time; errors as of `begin`."""
        found = by_cluster(self._rows.read(timeout_s))
        evaluates = self._clusters - self._left
        output = self._processor.apply({name: found[name] for name in found.keys() & evaluates}, self._states)
        evaluated = self._deliver.take(output)
        self._own.update(evaluated)
        if evaluated:
            self._notifying.store.set_engine(Engine.UNDERSTUDY)
        if self._rows.at_end:
            self._notifying.send()
        self._hand_back_evaluated()

    def _run(self) -> None:
        why: str | None = None
        try:
            while self._clusters and not self._stopping.is_set():
                try:
                    self.begin()
                    while self._clusters and not self._stopping.is_set():
                        self.evaluate(_WAIT_S)
                except (KraftwatchError, OSError) as problem:
                    self._notifying.store.set_engine(None)
                    # Spark may evaluate what cannot be read here.
                    self._hand_back_evaluated()
                    if str(problem) != why:
                        why = str(problem)
                        log.warning("the understudy evaluates nothing now: %s", problem)
                    self._stopping.wait(_AGAIN_S)
                finally:
                    self._rows.close()
        finally:
            caught_up = not self._clusters
            for name in [*self._clusters]:
                self._hand_back(name)
            ClusterProcessor.forget()
            if not self._stopping.is_set():
                self._notifying.store.set_engine(Engine.SPARK if caught_up else None)

    def _hand_back_evaluated(self) -> None:
        for name in [name for name in self._clusters if self._is_over(name)]:
            self._hand_back(name)

    def _hand_back(self, name: str) -> None:
        self._clusters.discard(name)
        self._notifying.hand_back(name)

    def _is_over(self, name: str) -> bool:
        """Whether Spark has evaluated a cluster further, or as far and knows of what is pending here when it is due."""
        own, spark = self._own.get(name), self._sparks.get(name)
        if spark is None:
            return name not in self._notifying.store.names
        if own is None or spark.now_ms - own.now_ms > _SAME_MS:
            return True
        return own.now_ms - spark.now_ms <= _SAME_MS and _knows_what_is_pending(own, spark)


def _knows_what_is_pending(own: EvaluationTimes, spark: EvaluationTimes) -> bool:
    return own.due_ms in (None, spark.due_ms)
