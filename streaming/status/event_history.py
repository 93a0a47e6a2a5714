"""All events of a cluster's metadata log, where a job's machine keeps the last hour; in order, as a timeline."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from rules.alert import Alert
from rules.finding import Plain
from rules.formatting import and_join, iso, late_text, ms_text, plural, topic_text
from rules.model.history import Election, RecentHistory, Recovery, UncleanElections, VoterChange
from rules.model.identifiers import Millis, TopicId
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.status.status_store import EndedRecovery

GAP_MS = 30_000
"""Without a row for longer than this, the cluster was not observed: a quiet cluster has several rows a second."""
_KINDS = ("elections", "starts", "interruptions", "voter_changes", "unclean")


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
        self._kept: dict[str, dict[Any, Any]] = {kind: {} for kind in _KINDS}
        """By the name of the history's field, and by `event_key`."""
        self._newest_history: RecentHistory | None = None
        self._recovering: tuple[Recovery, ...] = ()
        self._topics: dict[TopicId, Recovery] = {}

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
            for kind, kept in self._kept.items():
                kept.update((event_key(one), one) for one in getattr(history, kind))
        if machine.visible_image.recovering is not self._recovering:
            self._recovering = machine.visible_image.recovering
            self._compare_recoveries(machine.now_ms)

    def add_all(self, other: "EventHistory") -> None:
        """Adds the elections, voter changes, starts, interruptions and unclean elections of another history."""
        for kind, kept in other._kept.items():
            known = self._kept[kind]
            self._kept[kind] = known | kept if other.sequence > self.sequence else kept | known
        self.sequence = max(self.sequence, other.sequence)

    def added_to(self, quorum: Quorum) -> Quorum:
        """Returns the quorum with the whole history instead of the last hour's."""
        kept: dict[str, Any] = {kind: tuple(each.values()) for kind, each in self._kept.items()}
        return replace(quorum, history=replace(quorum.history, **kept))

    def _compare_recoveries(self, now_ms: Millis) -> None:
        """Records topics that are no longer recovering; a topic's oldest partition gives the beginning."""
        topics = oldest_by_topic(self._recovering)
        for topic_id in self._topics.keys() - topics.keys():
            ended = self._topics[topic_id]
            self.ended_recoveries.append(
                EndedRecovery(topic=ended.topic, topic_id=topic_id, since_ms=ended.since_timestamp_ms, ended_ms=now_ms)
            )
        self._topics = {topic_id: self._topics.get(topic_id, recovery) for topic_id, recovery in topics.items()}


def event_key(one: Any) -> tuple[object, Millis]:
    """Returns what identifies an event of a `RecentHistory`: of a log that was rewritten, both of an offset remain.

    Unclean elections of a topic are aggregated: the newest aggregate with the same beginning holds all of them.
    """
    if isinstance(one, UncleanElections):
        return one.topic_id, one.first_timestamp_ms
    return one.offset, one.timestamp_ms


def oldest_by_topic(recovering: Iterable[Recovery]) -> dict[TopicId, Recovery]:
    """Returns the partition of each topic that is recovering for longest, by topic id, the oldest one first."""
    oldest: dict[TopicId, Recovery] = {}
    for recovery in sorted(recovering, key=lambda each: each.since_timestamp_ms):
        oldest.setdefault(recovery.topic_id, recovery)
    return oldest


class EntryKind(StrEnum):
    """The kinds of entries."""

    ELECTION = "election"
    VOTER_CHANGE = "voter-change"
    FORCED_CHANGE = "forced-voter-change"
    START = "controller-start"
    FENCED = "broker-fenced"
    UNFENCED = "broker-unfenced"
    UNCLEAN_ELECTION = "unclean-election"
    RECOVERY = "recovery"
    ALERT = "alert"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One event. Times of log records are of the controllers' clock, all others of the monitor's."""

    at_ms: Millis
    kind: EntryKind
    text: str
    offset: int | None = None
    """Of the record in the metadata log; None where it is none."""

    def as_json(self, cluster: str) -> dict[str, Plain]:
        """Returns the fields of `timeline --json`."""
        return {
            "cluster": cluster,
            "at": iso(self.at_ms),
            "kind": self.kind.value,
            "text": self.text,
            "offset": self.offset,
        }


def timeline_entries(
    history: EventHistory, quorum: Quorum, alerts: Sequence[Alert], *, from_ms: Millis | None, to_ms: Millis | None
) -> tuple[TimelineEntry, ...]:
    """Returns the entries in order of time; `quorum` is that after the newest row, `alerts` may be stored ones."""
    log = history.added_to(quorum).history
    entries = [*_of_the_log(log), *_recoveries(history.ended_recoveries, quorum), *_alerts(alerts)]
    begun = [entry for entry in entries if from_ms is None or entry.at_ms >= from_ms]
    begun += _gaps(history.gaps, from_ms)
    return tuple(sorted((entry for entry in begun if to_ms is None or entry.at_ms <= to_ms), key=lambda one: one.at_ms))


def _entry(kind: EntryKind, at_ms: Millis, text: str, offset: int | None = None) -> TimelineEntry:
    return TimelineEntry(at_ms=at_ms, kind=kind, text=text, offset=offset)


def _of_the_log(kept: RecentHistory) -> Iterator[TimelineEntry]:
    for election in kept.elections:
        yield _entry(EntryKind.ELECTION, election.timestamp_ms, election_text(election), election.offset)
    for change in kept.voter_changes:
        kind = EntryKind.FORCED_CHANGE if change.forced else EntryKind.VOTER_CHANGE
        yield _entry(kind, change.timestamp_ms, f"voter set changed: {voter_change_text(change)}", change.offset)
    for start in kept.starts:
        yield _entry(EntryKind.START, start.timestamp_ms, f"controller {start.id} started", start.offset)
    for interruption in kept.interruptions:
        left = " after a controlled shutdown" if interruption.announced else ""
        yield _entry(
            EntryKind.FENCED,
            interruption.timestamp_ms,
            f"broker {interruption.id} was fenced{left}",
            interruption.offset,
        )
        if interruption.ended_timestamp_ms is not None:
            lasted = ms_text(Millis(max(0, interruption.ended_timestamp_ms - interruption.timestamp_ms)))
            text = (
                f"broker {interruption.id} was unfenced after {lasted}{', restarted' if interruption.restarted else ''}"
            )
            yield _entry(EntryKind.UNFENCED, interruption.ended_timestamp_ms, text, interruption.ended_offset)
    for unclean in kept.unclean:
        topic, leaders = topic_text(unclean.topic, unclean.topic_id), and_join(unclean.leaders)
        text = f"{plural(unclean.elections, 'unclean election')} in topic {topic}, leaders {leaders}"
        yield _entry(EntryKind.UNCLEAN_ELECTION, unclean.first_timestamp_ms, text, unclean.last_offset)


def election_text(one: Election) -> str:
    """Returns who was elected, and by whose votes, as a sentence."""
    votes, of = one.granting_voter_ids, f" of {len(one.voter_ids)}" if one.voter_ids else ""
    counted = f", {len(votes)}{of} votes: {and_join(votes)}" if votes else ""
    return f"controller {one.leader_id} was elected, epoch {one.leader_epoch}{counted}"


def voter_change_text(change: VoterChange) -> str:
    """Returns a change of the voter set in words."""
    parts = [f"{key} added" for key in change.added] + [f"{key} removed" for key in change.removed]
    return and_join([*parts, *(f"endpoint of {node} changed" for node in change.moved)], 8)


def _recoveries(ended_recoveries: Iterable[EndedRecovery], quorum: Quorum) -> Iterator[TimelineEntry]:
    for ended in ended_recoveries:
        topic = topic_text(ended.topic, ended.topic_id)
        yield _entry(EntryKind.RECOVERY, ended.since_ms, f"topic {topic} is RECOVERING")
        yield _entry(EntryKind.RECOVERY, ended.ended_ms, f"topic {topic} is no longer RECOVERING")
    for recovery in oldest_by_topic(quorum.recovering).values():
        least = "at least since then: " if recovery.at_least else ""
        text = f"{least}topic {topic_text(recovery.topic, recovery.topic_id)} is RECOVERING"
        yield _entry(EntryKind.RECOVERY, recovery.since_timestamp_ms, text)


def _alerts(alerts: Sequence[Alert]) -> Iterator[TimelineEntry]:
    for alert in alerts:
        late = "" if alert.late_ms is None else f" ({late_text(alert.late_ms)})"
        state = f"{alert.severity.value} " if alert.state.value == "firing" else "resolved: "
        text = f"{state}{alert.rule} · {alert.subject}: {alert.summary}{late}"
        yield _entry(EntryKind.ALERT, alert.observed_at_ms, text, alert.offset)


def _gaps(gaps: Iterable[tuple[Millis, Millis]], from_ms: Millis | None) -> Iterator[TimelineEntry]:
    """Yields the gaps that end after a time: one that began before it hides what happened after it."""
    for began, ended in gaps:
        if from_ms is None or ended > from_ms:
            text = f"not observed for {ms_text(Millis(ended - began))}, until {iso(ended)}"
            yield _entry(EntryKind.GAP, began, text)
