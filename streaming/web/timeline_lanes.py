"""The lanes of a timeline: events of one cluster as marks and spans, before they have positions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from connectors.sinks.evidence_format import duration, visible
from rules.alert import Alert, AlertState
from rules.formatting import and_join, plural, topic_text
from rules.model.identifiers import Millis
from streaming.status.cluster_status import ClusterStatus
from streaming.status.history_types import ElectionStatus, VoterChangeStatus
from streaming.web.cluster_view import ClusterView

TOPICS_SHOWN = 6
"""Recovering topics that get their own span."""


class Shape(StrEnum):
    """The shape of a mark: it alone distinguishes the kinds, without colour."""

    ELECTION = "election"
    VOTERS = "voters"
    FORCED = "forced"
    START = "start"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMark:
    """An event at one time."""

    at_ms: Millis
    shape: Shape
    text: str
    label: str = ""
    """A short text beside the mark, where there is room."""
    x: float = 0.0
    """Position in per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSpan:
    """A condition with a duration."""

    from_ms: Millis
    to_ms: Millis
    kind: str
    """critical, warning, info, pending, recovering or silence: the CSS class."""
    text: str
    open: bool = False
    """The condition has not ended."""
    x: float = 0.0
    """Position in per cent."""
    width: float = 0.0
    """In per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLane:
    """One row of the timeline."""

    name: str
    marks: tuple[TimelineMark, ...] = ()
    spans: tuple[TimelineSpan, ...] = ()


def log_lanes(view: ClusterView, ahead_ms: int) -> tuple[TimelineLane, ...]:
    """Returns the lanes of the metadata log: elections, voter changes, controller starts, recoveries.

    Args:
        ahead_ms: how far the controllers' clock is ahead of the monitor's.
    """
    status = view.status
    return (
        TimelineLane(name="Elections", marks=tuple(_elections(status)) if status else ()),
        TimelineLane(name="Voter set", marks=tuple(_voter_changes(status)) if status else ()),
        TimelineLane(name="Controller starts", marks=tuple(_starts(status)) if status else ()),
        TimelineLane(
            name="Recovery",
            marks=tuple(_unclean_elections(status)) if status else (),
            spans=tuple(_recoveries(view, ahead_ms)),
        ),
    )


def _elections(status: ClusterStatus) -> Iterable[TimelineMark]:
    for one in status.elections:
        yield TimelineMark(
            at_ms=one.at_ms,
            shape=Shape.ELECTION,
            text=f"controller {one.leader_id} was elected, epoch {one.leader_epoch}{votes_text(one)}",
            label=str(one.leader_id),
        )


def votes_text(election: ElectionStatus) -> str:
    """Returns who voted for a leader: `, 2 of 3 votes: 1 and 3`; empty if unknown."""
    votes = election.granting_voter_ids
    if not votes:
        return ""
    of = f" of {len(election.voter_ids)}" if election.voter_ids else ""
    return f", {len(votes)}{of} votes: {and_join(votes)}"


def _voter_changes(status: ClusterStatus) -> Iterable[TimelineMark]:
    forced_offsets = {one.offset for one in status.reconfigurations}
    for one in status.voter_changes:
        forced = one.offset in forced_offsets
        how = "changed by force" if forced else "changed"
        yield TimelineMark(
            at_ms=one.at_ms,
            shape=Shape.FORCED if forced else Shape.VOTERS,
            text=f"voter set {how}: {voter_change_text(one)}, at offset {one.offset}",
            label=" ".join((*(f"+{key.id}" for key in one.added), *(f"\u2212{key.id}" for key in one.removed)))[:12],
        )


def voter_change_text(change: VoterChangeStatus) -> str:
    """Returns a change of the voter set in words."""
    parts = [f"{key.id}-{key.directory_id} added" for key in change.added]
    parts += [f"{key.id}-{key.directory_id} removed" for key in change.removed]
    parts += [f"endpoint of {node} changed" for node in change.moved]
    return and_join(parts, 4)


def _starts(status: ClusterStatus) -> Iterable[TimelineMark]:
    for one in status.starts:
        yield TimelineMark(at_ms=one.at_ms, shape=Shape.START, text=f"controller {one.id} started", label=str(one.id))


def _unclean_elections(status: ClusterStatus) -> Iterable[TimelineMark]:
    for one in status.unclean:
        yield TimelineMark(
            at_ms=one.first_at_ms,
            shape=Shape.UNCLEAN,
            text=f"{plural(one.elections, 'unclean election')} in topic {_topic(one.topic, one.topic_id)}",
        )


def _topic(name: str | None, topic_id: str) -> str:
    return visible(topic_text(name, topic_id))


def _recoveries(view: ClusterView, ahead_ms: int) -> Iterable[TimelineSpan]:
    """By the controllers' clock, as their beginnings are."""
    status = view.status
    for ended in view.ended_recoveries:
        end_ms = Millis(ended.ended_ms + ahead_ms)
        yield TimelineSpan(
            from_ms=ended.since_ms,
            to_ms=end_ms,
            kind="recovering",
            text=f"topic {_topic(ended.topic, ended.topic_id)} was RECOVERING "
            f"for {duration(max(0, end_ms - ended.since_ms))}",
        )
    if status is None:
        return
    now_ms = Millis((status.now_ms or view.now_ms) + ahead_ms)
    topics = status.recoveries
    for one in topics[:TOPICS_SHOWN]:
        least = "at least " if one.at_least else ""
        yield TimelineSpan(
            from_ms=one.since_ms,
            to_ms=max(now_ms, one.since_ms),
            kind="recovering",
            open=True,
            text=f"{plural(one.partitions, 'partition')} of topic {_topic(one.topic, one.topic_id)} RECOVERING "
            f"for {least}{duration(max(0, now_ms - one.since_ms))}",
        )
    if len(topics) > TOPICS_SHOWN:
        since_ms = min(one.since_ms for one in topics[TOPICS_SHOWN:])
        yield TimelineSpan(
            from_ms=since_ms,
            to_ms=max(now_ms, since_ms),
            kind="recovering",
            open=True,
            text=f"{plural(len(topics) - TOPICS_SHOWN, 'more topic')} RECOVERING",
        )


def alert_lanes(view: ClusterView, from_ms: Millis, to_ms: Millis, *, most: int) -> tuple[list[TimelineLane], int]:
    """Returns a lane for each alert that overlaps the span; an alert that fired repeatedly has one lane.

    Firing alerts come first, then the newest ones.

    Returns:
        At most `most` lanes, and the number of alerts without a lane.
    """
    by_alert: dict[str, dict[int, list[Alert]]] = {}
    for alert in view.history:
        by_alert.setdefault(alert.fingerprint, {}).setdefault(alert.started_at_ms, []).append(alert)
    overlapping = [
        episodes
        for episodes in by_alert.values()
        if any(_overlaps(episode, from_ms, to_ms) for episode in episodes.values())
    ]
    overlapping.sort(key=_rank)
    lanes = []
    for episodes in overlapping[:most]:
        spans = tuple(span for episode in episodes.values() for span in _alert_spans(episode, view.now_ms))
        newest = [*episodes.values()][-1][-1]
        lanes.append(TimelineLane(name=f"{newest.rule} · {visible(newest.subject)}", spans=spans))
    return lanes, max(0, len(overlapping) - most)


def _overlaps(episode: Sequence[Alert], from_ms: Millis, to_ms: Millis) -> bool:
    ended = episode[-1].state is AlertState.RESOLVED and episode[-1].observed_at_ms < from_ms
    return episode[0].started_at_ms <= to_ms and not ended


def _rank(episodes: Mapping[int, Sequence[Alert]]) -> tuple[bool, int]:
    newest = [*episodes.values()][-1][-1]
    return newest.state is not AlertState.FIRING, -newest.observed_at_ms


def _alert_spans(episode: Sequence[Alert], now_ms: Millis) -> Iterable[TimelineSpan]:
    """Yields the pending time, then one span for each severity, up to the resolution or to now."""
    first = episode[0]
    if first.observed_at_ms > first.started_at_ms:
        yield TimelineSpan(
            from_ms=first.started_at_ms,
            to_ms=first.observed_at_ms,
            kind="pending",
            text=f"{first.rule}, {visible(first.subject)}: pending until its hold expired",
        )
    for at, alert in enumerate(episode):
        if alert.state is AlertState.RESOLVED:
            continue
        end = episode[at + 1].observed_at_ms if at + 1 < len(episode) else max(now_ms, alert.observed_at_ms)
        yield TimelineSpan(
            from_ms=alert.observed_at_ms,
            to_ms=end,
            kind=alert.severity.value,
            open=at + 1 == len(episode),
            text=f"{alert.severity.value} {alert.rule}, {visible(alert.subject)}: {visible(alert.summary)}",
        )


def silence_lane(view: ClusterView) -> TimelineLane:
    """Returns the lane of silences that have begun and may cover the cluster."""
    spans = [
        TimelineSpan(
            from_ms=one.starts_at_ms,
            to_ms=min(one.ends_at_ms, view.now_ms),
            kind="silence",
            open=one.ends_at_ms > view.now_ms,
            text=f"silenced by {visible(one.author)}: {visible(one.comment)}",
        )
        for one in view.silences
        if one.starts_at_ms <= view.now_ms
    ]
    return TimelineLane(name="Silences", spans=tuple(spans))
