"""All events of a cluster's metadata log, where a job's machine keeps the last hour."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rules.alert import Alert
from rules.model.history import RecentHistory, Recovery
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.status.status_store import EndedRecovery

GAP_MS = 30_000
"""Without a row for longer than this, the cluster was not observed: a quiet cluster has several rows a second."""
_BY_OFFSET = ("elections", "starts", "interruptions", "voter_changes", "reconfigurations")


class EventHistory:
    """The elections, voter changes, starts, interruptions, recoveries and alerts that a cluster's rows bring about."""

    def __init__(self) -> None:
        self.ended_recoveries: list[EndedRecovery] = []
        """Oldest first."""
        self.alerts: list[Alert] = []
        self.gaps: list[tuple[Millis, Millis]] = []
        """The times without a row."""
        self.began_ms: Millis | None = None
        """Time of the first row."""
        self.newest_ms: Millis | None = None
        """Time of the newest row."""
        self.sequence = -1
        """The newest observation of which the events are known."""
        self._kept: dict[str, dict[Any, Any]] = {kind: {} for kind in (*_BY_OFFSET, "unclean")}
        """By the name of the history's field, and by offset and time: of a log that was rewritten both remain."""
        self._newest_history: RecentHistory | None = None
        self._recovering: tuple[Recovery, ...] = ()
        self._topics: dict[str, Recovery] = {}

    def add(self, machine: Machine, alerts: Sequence[Alert] = ()) -> None:
        """Adds the events of the machine's newest row, and its alerts; one that was added before changes nothing."""
        if machine.sequence <= self.sequence:
            return
        self.sequence = machine.sequence
        self.alerts += alerts
        self.began_ms = machine.now_ms if self.began_ms is None else self.began_ms
        if self.newest_ms is not None and machine.now_ms - self.newest_ms > GAP_MS:
            self.gaps.append((self.newest_ms, machine.now_ms))
        self.newest_ms = machine.now_ms
        history = machine.log.image.history
        if history is not self._newest_history:
            self._newest_history = history
            self._keep(history)
        if machine.visible_image.recovering is not self._recovering:
            self._recovering = machine.visible_image.recovering
            self._compare_recoveries(machine.now_ms)

    def added_to(self, quorum: Quorum) -> Quorum:
        """Returns the quorum with the whole history instead of the last hour's."""
        kept = {kind: tuple(each.values()) for kind, each in self._kept.items()}
        return replace(quorum, history=replace(quorum.history, **kept))

    def _keep(self, history: RecentHistory) -> None:
        for kind in _BY_OFFSET:
            self._kept[kind].update({(one.offset, one.timestamp_ms): one for one in getattr(history, kind)})
        # Unclean elections of a topic are aggregated: the newest aggregate with the same beginning holds all of them.
        self._kept["unclean"].update({(one.topic_id, one.first_timestamp_ms): one for one in history.unclean})

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
