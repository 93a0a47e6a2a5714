"""The timeline: elections, voter changes, controller starts, recoveries and alerts of one cluster on one axis.

Positions are per cent of the width, so that the image fills any screen. Elections, voter changes, starts and
recoveries have record timestamps (the controllers' clock), alerts and silences the monitor's time. If the newest record
is ahead of the time at which it was read, the clocks differ by at least that: the timeline subtracts it. An older
newest record may mean an idle log, so nothing is added.

The control under the timeline chooses the time of which the page shows the state.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from rules.alert import Alert, AlertState
from rules.formatting import duration, plural, topic_text
from rules.model.identifiers import Millis
from streaming.status.cluster_status import ClusterStatus
from streaming.status.event_history import election_text, voter_change_text
from streaming.web.cluster_view import ClusterView

ALERTS_SHOWN = 16
"""Alerts that get their own lane, the newest ones; the others are counted."""
TOPICS_SHOWN = 6
"""Recovering topics that get their own span."""
_STEPS_S = (10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400, 172_800, 604_800)
_TICKS = 8
_AGREE_MS = 2_000
"""A smaller clock difference is ignored."""
_SLIDER_STEPS = 1_000
"""Positions of the slider."""
_AFTER_MS = 1_000
"""An event is observed within this time: the state that follows it is that much later."""


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
    wide: bool = False
    """Only a wide screen has room for the label."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLane:
    """One row of the timeline. All its times are of the monitor's clock."""

    name: str
    marks: Sequence[TimelineMark] = ()
    spans: Sequence[TimelineSpan] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The image, and the same as a list."""

    from_ms: Millis
    to_ms: Millis
    lanes: tuple[TimelineLane, ...] = ()
    omitted: int = 0
    """Alerts without a lane."""
    ahead_ms: Millis
    """How far the controllers' clock is ahead of the monitor's; 0 where that is unknown."""

    def x(self, at_ms: int) -> float:
        """Returns the position of a time in per cent of the width."""
        return round(100 * min(1.0, max(0.0, (at_ms - self.from_ms) / max(1, self.to_ms - self.from_ms))), 3)

    def width(self, span: TimelineSpan) -> float:
        """Returns the width of a span in per cent."""
        return round(self.x(span.to_ms) - self.x(span.from_ms), 3)

    @property
    def ticks(self) -> tuple[tuple[float, str, bool], ...]:
        """Position, label (UTC), and whether a phone has no room for the label: every second one."""
        span_s = (self.to_ms - self.from_ms) / 1000
        # A label with seconds is wider.
        fitting = (one for one in _STEPS_S if span_s / one <= (_TICKS if one >= 60 else _TICKS - 3))
        step = next(fitting, _STEPS_S[-1]) * 1000
        form = "%H:%M:%S" if step < 60_000 else "%H:%M" if span_s <= 172_800 else "%d %b"
        first = -(-self.from_ms // step) * step
        return tuple(
            (self.x(at), datetime.fromtimestamp(at / 1000, UTC).strftime(form), at // step % 2 == 1)
            for at in range(first, self.to_ms + 1, step)
        )

    @property
    def events(self) -> tuple[tuple[Millis, str], ...]:
        """Everything in the image as text, newest first."""
        events = [(mark.at_ms, mark.text) for lane in self.lanes for mark in lane.marks]
        events += [(span.from_ms, span.text) for lane in self.lanes for span in lane.spans]
        return tuple(sorted(events, key=lambda event: -event[0]))

    def visible_part(self, lane: TimelineLane) -> TimelineLane:
        """Returns the part of a lane that is on the axis; labels that would overlap the next mark are removed."""
        marks = [mark for mark in lane.marks if self.from_ms <= mark.at_ms <= self.to_ms]
        marks.sort(key=lambda mark: mark.at_ms)
        ends = [*(self.x(mark.at_ms) for mark in marks[1:]), 100.0]
        # The mark's title holds the text too.
        labelled = (_labelled(mark, end - self.x(mark.at_ms)) for mark, end in zip(marks, ends, strict=False))
        spans = (span for span in lane.spans if span.to_ms >= self.from_ms and span.from_ms <= self.to_ms)
        return replace(lane, marks=tuple(labelled), spans=tuple(spans))


def _labelled(mark: TimelineMark, room: float) -> TimelineMark:
    """Returns the mark with its label as far as `room` allows: per cent of the width up to the next mark."""
    length = len(mark.label)
    return replace(mark, label=mark.label if room >= 2.5 + 1.2 * length else "", wide=room < 6 + 2.4 * length)


def timeline(view: ClusterView, from_ms: Millis, to_ms: Millis) -> Timeline:
    """Returns everything that overlaps the span."""
    line = Timeline(from_ms=from_ms, to_ms=to_ms, ahead_ms=_clock_ahead_ms(view))
    alerts, omitted = _alert_lanes(view, from_ms, to_ms)
    silences = line.visible_part(TimelineLane(name="Silences", spans=[*_silences(view)]))
    lanes = map(line.visible_part, (*_log_lanes(view, line.ahead_ms), *alerts))
    return replace(line, lanes=(*lanes, *([silences] if silences.spans else [])), omitted=omitted)


def _clock_ahead_ms(view: ClusterView) -> Millis:
    """Returns how far the newest record is ahead of the time at which it was read; 0 up to two seconds."""
    newest = view.status.newest_timestamp_ms if view.status else None
    read_at = view.status.log_fetched_at_ms if view.status else None
    ahead_ms = 0 if newest is None or read_at is None else newest - read_at
    return Millis(ahead_ms if ahead_ms > _AGREE_MS else 0)


_LANES: Mapping[str, Collection[Shape]] = {
    "Elections": (Shape.ELECTION,),
    "Voter set": (Shape.VOTERS, Shape.FORCED),
    "Controller starts": (Shape.START,),
    "Recovery": (Shape.UNCLEAN,),
}


def _log_lanes(view: ClusterView, ahead_ms: Millis) -> Iterable[TimelineLane]:
    """Yields the lanes of the metadata log by the monitor's clock; the controllers' is `ahead_ms` ahead of it."""
    found = _log_marks(view.status) if view.status else ()
    marks = [replace(mark, at_ms=Millis(mark.at_ms - ahead_ms)) for mark in found]
    for name, shapes in _LANES.items():
        spans = [*_recoveries(view, ahead_ms)] if Shape.UNCLEAN in shapes else []
        yield TimelineLane(name=name, marks=[mark for mark in marks if mark.shape in shapes], spans=spans)


def _log_marks(status: ClusterStatus) -> Iterable[TimelineMark]:
    for election in status.elections:
        label = str(election.leader_id)
        yield TimelineMark(at_ms=election.timestamp_ms, shape=Shape.ELECTION, text=election_text(election), label=label)
    for change in status.voter_changes:
        how = "changed by force" if change.forced else "changed"
        signs = (*(f"+{key.id}" for key in change.added), *(f"\u2212{key.id}" for key in change.removed))
        yield TimelineMark(
            at_ms=change.timestamp_ms,
            shape=Shape.FORCED if change.forced else Shape.VOTERS,
            text=f"voter set {how}: {voter_change_text(change)}, at offset {change.offset}",
            label=" ".join(signs)[:12],
        )
    for start in status.starts:
        text, label = f"controller {start.id} started", str(start.id)
        yield TimelineMark(at_ms=start.timestamp_ms, shape=Shape.START, text=text, label=label)
    for unclean in status.unclean:
        text = f"{plural(unclean.elections, 'unclean election')} in topic {topic_text(unclean.topic, unclean.topic_id)}"
        yield TimelineMark(at_ms=unclean.first_timestamp_ms, shape=Shape.UNCLEAN, text=text)


def _recoveries(view: ClusterView, ahead_ms: int) -> Iterable[TimelineSpan]:
    """Yields recoveries, which begin by the controllers' clock and end by the monitor's."""
    status = view.status
    for ended in view.ended_recoveries:
        since_ms = Millis(ended.since_ms - ahead_ms)
        lasted = duration(max(0, ended.ended_ms - since_ms))
        text = f"topic {topic_text(ended.topic, ended.topic_id)} was RECOVERING for {lasted}"
        yield TimelineSpan(from_ms=since_ms, to_ms=ended.ended_ms, kind="recovering", text=text)
    if status is None:
        return
    now_ms = status.now_ms or view.now_ms

    def still_open(since_ms: Millis, text: str) -> TimelineSpan:
        return TimelineSpan(from_ms=since_ms, to_ms=max(now_ms, since_ms), kind="recovering", open=True, text=text)

    for recovery in status.recoveries[:TOPICS_SHOWN]:
        since_ms = Millis(recovery.since_ms - ahead_ms)
        partitions = (
            f"{plural(recovery.partitions, 'partition')} of topic {topic_text(recovery.topic, recovery.topic_id)}"
        )
        least = "at least " if recovery.at_least else ""
        yield still_open(since_ms, f"{partitions} RECOVERING for {least}{duration(max(0, now_ms - since_ms))}")
    if more := status.recoveries[TOPICS_SHOWN:]:
        since_ms = Millis(min(one.since_ms for one in more) - ahead_ms)
        yield still_open(since_ms, f"{plural(len(more), 'more topic')} RECOVERING")


def _alert_lanes(view: ClusterView, from_ms: Millis, to_ms: Millis) -> tuple[list[TimelineLane], int]:
    """Returns at most ALERTS_SHOWN lanes, firing alerts first, then the newest ones, and the number of the others.

    An alert that fired repeatedly has one lane.
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
    for episodes in overlapping[:ALERTS_SHOWN]:
        spans = [span for episode in episodes.values() for span in _alert_spans(episode, view.now_ms)]
        newest = [*episodes.values()][-1][-1]
        lanes.append(TimelineLane(name=f"{newest.rule} · {newest.subject}", spans=spans))
    return lanes, max(0, len(overlapping) - ALERTS_SHOWN)


def _overlaps(episode: Sequence[Alert], from_ms: Millis, to_ms: Millis) -> bool:
    ended = episode[-1].state is AlertState.RESOLVED and episode[-1].observed_at_ms < from_ms
    return episode[0].started_at_ms <= to_ms and not ended


def _rank(episodes: Mapping[int, Sequence[Alert]]) -> tuple[bool, int]:
    newest = [*episodes.values()][-1][-1]
    return newest.state is not AlertState.FIRING, -newest.observed_at_ms


def _alert_spans(episode: Sequence[Alert], now_ms: Millis) -> Iterable[TimelineSpan]:
    first = episode[0]
    if first.observed_at_ms > first.started_at_ms:
        yield TimelineSpan(
            from_ms=first.started_at_ms,
            to_ms=first.observed_at_ms,
            kind="pending",
            text=f"{first.rule}, {first.subject}: pending until its hold expired",
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
            text=f"{alert.severity.value} {alert.rule}, {alert.subject}: {alert.summary}",
        )


def _silences(view: ClusterView) -> Iterable[TimelineSpan]:
    for silence in view.silences:
        if silence.starts_at_ms <= view.now_ms:
            yield TimelineSpan(
                from_ms=silence.starts_at_ms,
                to_ms=min(silence.ends_at_ms, view.now_ms),
                kind="silence",
                open=silence.ends_at_ms > view.now_ms,
                text=f"silenced by {silence.author}: {silence.comment}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeControl:
    """A slider over the part of the timeline that the journal holds, and the events before and after its position."""

    from_ms: Millis
    to_ms: Millis
    step_ms: int
    earlier_ms: Millis | None = None
    """The state after the event before the time that is shown; None: there is no such event."""
    later_ms: Millis | None = None

    def state_after(self, event_ms: Millis) -> Millis | None:
        """Returns the time of the state after an event; None if the journal does not hold it."""
        held = self.from_ms - _AFTER_MS <= event_ms <= self.to_ms
        return Millis(min(event_ms + _AFTER_MS, self.to_ms)) if held else None


def time_control(held: tuple[Millis, Millis] | None, line: Timeline, at_ms: Millis | None) -> TimeControl | None:
    """Returns the control; None if the journal, which holds the times `held`, has nothing of the timeline."""
    if held is None:
        return None
    begin, end = Millis(max(held[0], line.from_ms)), Millis(min(held[1], line.to_ms))
    if begin >= end:
        return None
    control = TimeControl(from_ms=begin, to_ms=end, step_ms=max(1, (end - begin) // _SLIDER_STEPS))
    states = [one for event_ms, _ in line.events if (one := control.state_after(event_ms)) is not None]
    shown = end if at_ms is None else at_ms
    return replace(
        control,
        earlier_ms=max((state for state in states if state < shown), default=None),
        later_ms=None if at_ms is None else min((state for state in states if state > shown), default=None),
    )


def timeline_window(span_ms: int, now_ms: Millis, at_ms: Millis | None) -> tuple[Millis, Millis]:
    """Returns begin and end of a timeline of this length that holds the shown time: it ends now if it can."""
    if at_ms is None or at_ms >= now_ms - span_ms:
        return Millis(now_ms - span_ms), now_ms
    return Millis(at_ms - span_ms // 2), Millis(at_ms - span_ms // 2 + span_ms)
