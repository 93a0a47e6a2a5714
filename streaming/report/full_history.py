"""A chronicle: a machine that keeps the whole past it is shown, where a job's forgets all but the last hour."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from connectors.event import Event
from rules.alert import Alert
from rules.evaluate import evaluate
from rules.finding import Thresholds
from rules.lifecycle import TrackedConditions, advance
from rules.model.history import RecentHistory, Recovery
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.status.status_store import EndedRecovery


class FullHistory(Machine):
    """One cluster's quorum, replayed, with all its elections, voter changes, starts and recoveries."""

    def __init__(self, cluster: str, *, thresholds: Mapping[str, Thresholds], judge_from_ms: Millis | None) -> None:
        """A machine that has seen nothing.

        Args:
            cluster: its name in the configuration.
            thresholds: by rule id.
            judge_from_ms: judge each observation from then on, as the job did; None: what was told is known already.
        """
        super().__init__(cluster, None, (), Vantage.INSIDE)
        self.alerts: list[Alert] = []
        """What would have been told, where it was judged."""
        self.recovered: list[EndedRecovery] = []
        self.began_ms: Millis | None = None
        """When the first observation was made."""
        self._thresholds = thresholds
        self._judge_from_ms = judge_from_ms
        self._tracked = TrackedConditions()
        self._kept: dict[tuple[str, Any], Any] = {}
        self._seen: RecentHistory | None = None
        self._recovering: tuple[Recovery, ...] = ()
        self._topics: dict[str, Recovery] = {}

    def apply(self, events: Iterable[Event], *, sequence: int, observed_at_ms: Millis) -> bool:
        """As the machine does; and what is new of the past is kept."""
        applied = super().apply(events, sequence=sequence, observed_at_ms=observed_at_ms)
        self.began_ms = self.now_ms if self.began_ms is None else self.began_ms
        past = self.log.image.history
        if past is not self._seen:
            self._seen = past
            self._keep(past)
        if self.visible_image.recovering is not self._recovering:
            self._recovering = self.visible_image.recovering
            self._compare()
        if applied and self._judge_from_ms is not None and observed_at_ms >= self._judge_from_ms:
            quorum = self.quorum()
            evaluation = evaluate(quorum, self._thresholds)
            self._tracked, told = advance(self._tracked, evaluation, quorum, self._thresholds)
            self.alerts += told
        return applied

    def with_whole_past(self) -> Quorum:
        """The quorum as it is now, with everything of its past that was kept."""

        def kept(kind: str) -> tuple[Any, ...]:
            return tuple(one for (known, _), one in self._kept.items() if known == kind)

        past = replace(
            self.quorum().history,
            elections=kept("election"),
            starts=kept("start"),
            voter_changes=kept("change"),
            reconfigurations=kept("forced"),
            unclean=kept("unclean"),
        )
        return replace(self.quorum(), history=past)

    def _keep(self, past: RecentHistory) -> None:
        self._kept.update({("election", one.offset): one for one in past.elections})
        self._kept.update({("start", one.offset): one for one in past.starts})
        self._kept.update({("change", one.offset): one for one in past.voter_changes})
        self._kept.update({("forced", one.offset): one for one in past.reconfigurations})
        # Those of a topic are summed up: the newest sum of what began together stands for all of it.
        self._kept.update({("unclean", (one.topic_id, one.first_timestamp_ms)): one for one in past.unclean})

    def _compare(self) -> None:
        """Which topics are no longer in recovery; the oldest partition of each says since when they were."""
        topics: dict[str, Recovery] = {}
        for one in self._recovering:
            held = topics.get(one.topic_id)
            if held is None or one.since_timestamp_ms < held.since_timestamp_ms:
                topics[one.topic_id] = one
        for topic_id in self._topics.keys() - topics.keys():
            gone = self._topics[topic_id]
            self.recovered.append(
                EndedRecovery(
                    topic=gone.topic, topic_id=topic_id, since_ms=gone.since_timestamp_ms, ended_ms=self.now_ms
                )
            )
        self._topics = {topic_id: self._topics.get(topic_id, one) for topic_id, one in topics.items()}
