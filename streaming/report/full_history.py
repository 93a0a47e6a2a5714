"""A replay that keeps the whole history of a cluster, where a job's machine keeps the last hour."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rules.alert import Alert
from rules.evaluate import evaluate
from rules.finding import Thresholds
from rules.lifecycle import TrackedConditions, advance
from rules.model.history import RecentHistory, Recovery
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.replay.observed_events import ObservedEvent
from streaming.status.status_store import EndedRecovery


class FullHistory(Machine):
    """One cluster's quorum, replayed, with all its elections, voter changes, starts and recoveries."""

    def __init__(self, cluster: str, *, thresholds: Mapping[str, Thresholds], evaluate_from_ms: Millis | None) -> None:
        """Makes a machine without observations.

        Args:
            cluster: its name in the configuration.
            thresholds: by rule id.
            evaluate_from_ms: rules are evaluated for each observation from this time on, as the job does; None: never,
                because a ledger holds the alerts.
        """
        super().__init__(cluster, None, (), Vantage.INSIDE)
        self.alerts: list[Alert] = []
        """The alert transitions of the evaluations."""
        self.ended_recoveries: list[EndedRecovery] = []
        self.began_ms: Millis | None = None
        """Time of the first observation."""
        self._thresholds = thresholds
        self._evaluate_from_ms = evaluate_from_ms
        self._tracked = TrackedConditions()
        self._kept: dict[tuple[str, Any], Any] = {}
        self._newest_history: RecentHistory | None = None
        self._recovering: tuple[Recovery, ...] = ()
        self._topics: dict[str, Recovery] = {}

    def apply(self, events: Iterable[ObservedEvent], *, sequence: int, observed_at_ms: Millis) -> bool:
        """Applies events as the machine does, and keeps what is new in the history."""
        applied = super().apply(events, sequence=sequence, observed_at_ms=observed_at_ms)
        self.began_ms = self.now_ms if self.began_ms is None else self.began_ms
        history = self.log.image.history
        if history is not self._newest_history:
            self._newest_history = history
            self._keep(history)
        if self.visible_image.recovering is not self._recovering:
            self._recovering = self.visible_image.recovering
            self._compare_recoveries()
        if applied and self._evaluate_from_ms is not None and observed_at_ms >= self._evaluate_from_ms:
            quorum = self.quorum()
            evaluation = evaluate(quorum, self._thresholds)
            self._tracked, alerts = advance(self._tracked, evaluation, quorum, self._thresholds)
            self.alerts += alerts
        return applied

    def quorum_with_full_history(self) -> Quorum:
        """Returns the present quorum with the whole history."""

        def kept(kind: str) -> tuple[Any, ...]:
            return tuple(one for (known, _), one in self._kept.items() if known == kind)

        quorum = self.quorum()
        history = replace(
            quorum.history,
            elections=kept("election"),
            starts=kept("start"),
            voter_changes=kept("change"),
            reconfigurations=kept("forced"),
            unclean=kept("unclean"),
        )
        return replace(quorum, history=history)

    def _keep(self, history: RecentHistory) -> None:
        self._kept.update({("election", one.offset): one for one in history.elections})
        self._kept.update({("start", one.offset): one for one in history.starts})
        self._kept.update({("change", one.offset): one for one in history.voter_changes})
        self._kept.update({("forced", one.offset): one for one in history.reconfigurations})
        # Unclean elections of a topic are aggregated: the newest aggregate with the same beginning holds all of them.
        self._kept.update({("unclean", (one.topic_id, one.first_timestamp_ms)): one for one in history.unclean})

    def _compare_recoveries(self) -> None:
        """Records topics that are no longer recovering; a topic's oldest partition gives the beginning."""
        topics: dict[str, Recovery] = {}
        for one in self._recovering:
            oldest = topics.get(one.topic_id)
            if oldest is None or one.since_timestamp_ms < oldest.since_timestamp_ms:
                topics[one.topic_id] = one
        for topic_id in self._topics.keys() - topics.keys():
            ended = self._topics[topic_id]
            self.ended_recoveries.append(
                EndedRecovery(
                    topic=ended.topic, topic_id=topic_id, since_ms=ended.since_timestamp_ms, ended_ms=self.now_ms
                )
            )
        self._topics = {topic_id: self._topics.get(topic_id, one) for topic_id, one in topics.items()}
