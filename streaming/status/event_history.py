"""All events of a cluster's metadata log, where a job's machine keeps the last hour."""

from dataclasses import replace
from typing import Any

from rules.model.history import RecentHistory, Recovery
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.status.status_store import EndedRecovery


class EventHistory:
    """The elections, voter changes, starts, interruptions and recoveries that a machine has replayed."""

    def __init__(self) -> None:
        self.ended_recoveries: list[EndedRecovery] = []
        """Oldest first."""
        self.sequence = -1
        """The newest observation of which the events are known."""
        self._kept: dict[tuple[str, Any], Any] = {}
        self._newest_history: RecentHistory | None = None
        self._recovering: tuple[Recovery, ...] = ()
        self._topics: dict[str, Recovery] = {}

    def add(self, machine: Machine) -> None:
        """Adds the events of the machine's newest observation; one that was added before changes nothing."""
        if machine.sequence <= self.sequence:
            return
        self.sequence = machine.sequence
        history = machine.log.image.history
        if history is not self._newest_history:
            self._newest_history = history
            self._keep(history)
        if machine.visible_image.recovering is not self._recovering:
            self._recovering = machine.visible_image.recovering
            self._compare_recoveries(machine.now_ms)

    def added_to(self, quorum: Quorum) -> Quorum:
        """Returns the quorum with the whole history instead of the last hour's."""

        def kept(kind: str) -> tuple[Any, ...]:
            return tuple(one for (known, _), one in self._kept.items() if known == kind)

        history = replace(
            quorum.history,
            elections=kept("election"),
            starts=kept("start"),
            interruptions=kept("interruption"),
            voter_changes=kept("change"),
            reconfigurations=kept("forced"),
            unclean=kept("unclean"),
        )
        return replace(quorum, history=history)

    def _keep(self, history: RecentHistory) -> None:
        self._kept.update({("election", one.offset): one for one in history.elections})
        self._kept.update({("start", one.offset): one for one in history.starts})
        self._kept.update({("interruption", one.offset): one for one in history.interruptions})
        self._kept.update({("change", one.offset): one for one in history.voter_changes})
        self._kept.update({("forced", one.offset): one for one in history.reconfigurations})
        # Unclean elections of a topic are aggregated: the newest aggregate with the same beginning holds all of them.
        self._kept.update({("unclean", (one.topic_id, one.first_timestamp_ms)): one for one in history.unclean})

    def _compare_recoveries(self, now_ms: Millis) -> None:
        """Records topics that are no longer recovering; a topic's oldest partition gives the beginning."""
        topics: dict[str, Recovery] = {}
        for one in self._recovering:
            oldest = topics.get(one.topic_id)
            if oldest is None or one.since_timestamp_ms < oldest.since_timestamp_ms:
                topics[one.topic_id] = one
        for topic_id in self._topics.keys() - topics.keys():
            ended = self._topics[topic_id]
            self.ended_recoveries.append(
                EndedRecovery(topic=ended.topic, topic_id=topic_id, since_ms=ended.since_timestamp_ms, ended_ms=now_ms)
            )
        self._topics = {topic_id: self._topics.get(topic_id, one) for topic_id, one in topics.items()}
