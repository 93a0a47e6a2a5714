"""The timeline: elections, voter changes, controller starts, recoveries and alerts of one cluster on one axis.

Positions are per cent of the width, so that the image fills any screen. Elections, voter changes, starts and
recoveries have record timestamps (the controllers' clock), alerts and silences the monitor's time. If the newest record
is ahead of the time at which it was read, the clocks differ by at least that: the timeline subtracts it. An older
newest record may mean an idle log, so nothing is added.

The control under the timeline chooses the time of which the page shows the state.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rules.model.identifiers import Millis
from streaming.web.cluster_view import ClusterView
from streaming.web.timeline_lanes import TimelineLane, TimelineMark, TimelineSpan, alert_lanes, log_lanes, silence_lane

ALERTS_SHOWN = 16
"""Alerts that get their own lane, the newest ones; the others are counted."""
_STEPS_S = (10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400, 172_800, 604_800)
_TICKS = 8
_AGREE_MS = 2_000
"""A smaller clock difference is ignored."""
_SLIDER_STEPS = 1_000
"""Positions of the slider."""
_AFTER_MS = 1_000
"""An event is observed within this time: the state that follows it is that much later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The image, and the same as a list."""

    from_ms: Millis
    to_ms: Millis
    lanes: tuple[TimelineLane, ...]
    ticks: tuple[tuple[float, str], ...]
    """Position and label, UTC."""
    events: tuple[tuple[Millis, str], ...]
    """Everything in the image as text, newest first."""
    omitted: int
    """Alerts without a lane."""
    ahead_ms: Millis
    """How far the controllers' clock is ahead of the monitor's; 0 where that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Begin and end of the timeline, and positions on it."""

    from_ms: Millis
    to_ms: Millis

    def x(self, at_ms: int) -> float:
        """Returns the position of a time in per cent of the width."""
        return round(100 * min(1.0, max(0.0, (at_ms - self.from_ms) / max(1, self.to_ms - self.from_ms))), 3)

    def placed(self, lane: TimelineLane, ahead_ms: int = 0) -> TimelineLane:
        """Returns the part of a lane that is on the axis, with positions; subtracts `ahead_ms` from its times."""
        marks = sorted((_placed_mark(self, mark, ahead_ms) for mark in lane.marks), key=lambda mark: mark.at_ms)
        spans = (_placed_span(self, one, ahead_ms) for one in lane.spans)
        return TimelineLane(
            name=lane.name,
            marks=_labelled([mark for mark in marks if self.from_ms <= mark.at_ms <= self.to_ms]),
            spans=tuple(one for one in spans if one.to_ms >= self.from_ms and one.from_ms <= self.to_ms),
        )

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Returns position and label of each tick."""
        span_s = (self.to_ms - self.from_ms) / 1000
        # A label with seconds is wider.
        fitting = (one for one in _STEPS_S if span_s / one <= (_TICKS if one >= 60 else _TICKS - 3))
        step = next(fitting, _STEPS_S[-1]) * 1000
        form = "%H:%M:%S" if step < 60_000 else "%H:%M" if span_s <= 172_800 else "%d %b"
        first = -(-self.from_ms // step) * step
        return tuple(
            (self.x(at), datetime.fromtimestamp(at / 1000, UTC).strftime(form))
            for at in range(first, self.to_ms + 1, step)
        )


def timeline(view: ClusterView, from_ms: Millis, to_ms: Millis) -> Timeline:
    """Returns everything that overlaps the span."""
    axis = Axis(from_ms=from_ms, to_ms=to_ms)
    ahead_ms = clock_ahead_ms(view)
    alerts, omitted = alert_lanes(view, from_ms, to_ms, most=ALERTS_SHOWN)
    silences = axis.placed(silence_lane(view))
    lanes = (
        *(axis.placed(lane, ahead_ms) for lane in log_lanes(view, ahead_ms)),
        *map(axis.placed, alerts),
        *([silences] if silences.spans else []),
    )
    events = [(mark.at_ms, mark.text) for lane in lanes for mark in lane.marks]
    events += [(one.from_ms, one.text) for lane in lanes for one in lane.spans]
    return Timeline(
        from_ms=from_ms,
        to_ms=to_ms,
        lanes=lanes,
        ticks=axis.ticks(),
        ahead_ms=ahead_ms,
        events=tuple(sorted(events, key=lambda event: -event[0])),
        omitted=omitted,
    )


def clock_ahead_ms(view: ClusterView) -> Millis:
    """Returns how far the newest record is ahead of the time at which it was read; 0 up to two seconds."""
    newest = view.status.newest_timestamp_ms if view.status else None
    read_at = view.status.log_seen_at_ms if view.status else None
    ahead_ms = 0 if newest is None or read_at is None else newest - read_at
    return Millis(ahead_ms if ahead_ms > _AGREE_MS else 0)


def _placed_mark(axis: Axis, mark: TimelineMark, ahead_ms: int) -> TimelineMark:
    at_ms = Millis(mark.at_ms - ahead_ms)
    return replace(mark, at_ms=at_ms, x=axis.x(at_ms))


def _placed_span(axis: Axis, one: TimelineSpan, ahead_ms: int) -> TimelineSpan:
    from_ms, to_ms = Millis(one.from_ms - ahead_ms), Millis(one.to_ms - ahead_ms)
    begin, end = axis.x(from_ms), axis.x(to_ms)
    return replace(one, from_ms=from_ms, to_ms=to_ms, x=begin, width=round(end - begin, 3))


def _labelled(marks: list[TimelineMark]) -> tuple[TimelineMark, ...]:
    """Removes labels that would overlap the next mark: the mark's title holds the text."""
    kept = []
    for at, mark in enumerate(marks):
        room = (marks[at + 1].x if at + 1 < len(marks) else 100.0) - mark.x
        needed = 2.5 + 1.2 * len(mark.label)
        kept.append(mark if room >= needed else replace(mark, label=""))
    return tuple(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeControl:
    """A slider over the part of the timeline that the journal holds, and the events before and after its position."""

    from_ms: Millis
    to_ms: Millis
    step_ms: int
    at_ms: Millis | None
    """The time that is shown; None: the present."""
    earlier_ms: Millis | None
    """The state after the event before that time; None: there is no such event."""
    later_ms: Millis | None

    def state_after(self, event_ms: Millis) -> Millis | None:
        """Returns the time of the state after an event; None if the journal does not hold it."""
        return _state_after(event_ms, self.from_ms, self.to_ms)


def time_control(
    held: tuple[Millis, Millis] | None, window: tuple[Millis, Millis], at_ms: Millis | None, events: Iterable[Millis]
) -> TimeControl | None:
    """Returns the control; None if the journal holds nothing of the timeline.

    Args:
        held: the times of the first and the newest observation in the journal; None: there is none.
    """
    if held is None:
        return None
    begin, end = Millis(max(held[0], window[0])), Millis(min(held[1], window[1]))
    if begin >= end:
        return None
    shown = end if at_ms is None else at_ms
    found = (_state_after(one, begin, end) for one in events)
    states = sorted({one for one in found if one is not None})
    return TimeControl(
        from_ms=begin,
        to_ms=end,
        step_ms=max(1, (end - begin) // _SLIDER_STEPS),
        at_ms=at_ms,
        earlier_ms=max((one for one in states if one < shown), default=None),
        later_ms=None if at_ms is None else min((one for one in states if one > shown), default=None),
    )


def timeline_window(span_ms: int, now_ms: Millis, at_ms: Millis | None) -> tuple[Millis, Millis]:
    """Returns begin and end of a timeline of this length that holds the shown time: it ends now if it can."""
    if at_ms is None or at_ms >= now_ms - span_ms:
        return Millis(now_ms - span_ms), now_ms
    return Millis(at_ms - span_ms // 2), Millis(at_ms - span_ms // 2 + span_ms)


def _state_after(event_ms: Millis, begin: Millis, end: Millis) -> Millis | None:
    return Millis(min(event_ms + _AFTER_MS, end)) if begin - _AFTER_MS <= event_ms <= end else None
