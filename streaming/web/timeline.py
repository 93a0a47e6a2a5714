"""The timeline: elections, voter changes, controllers' starts, recoveries and alerts of one cluster on one axis.

Places on it are per cent of its width, so that the picture is as wide as the screen. Elections, voter changes, starts
and recoveries are told by the log's own time (the controllers' clock), alerts and silences by the monitor's. Where the
log's newest time is ahead of the moment at which it was read, the clocks differ by that: it is taken off. A log that is
behind may as well be idle, so nothing is added.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rules.model.identifiers import Millis
from streaming.web.cluster_view import Dossier
from streaming.web.timeline_lanes import Lane, Mark, Span, of_alerts, of_silences, of_the_log

ALERTS_SHOWN = 16
"""Alerts that get a lane of their own, the newest; the rest is counted and listed in words."""
_STEPS_S = (10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400, 172_800, 604_800)
_TICKS = 8
_AGREE_MS = 2_000
"""Clocks that differ by less are taken for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The picture, and the same as a list."""

    from_ms: Millis
    to_ms: Millis
    lanes: tuple[Lane, ...]
    ticks: tuple[tuple[float, str], ...]
    """Where, and what is written there, UTC."""
    events: tuple[tuple[Millis, str], ...]
    """Everything in the picture in words, newest first."""
    omitted: int
    """Alerts without a lane."""
    ahead_ms: Millis
    """How far the controllers' clock is ahead of ours; 0 where it is not known to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """From when to when, and where on it a moment is."""

    from_ms: Millis
    to_ms: Millis

    def x(self, at_ms: int) -> float:
        """Per cent of the width."""
        return round(100 * min(1.0, max(0.0, (at_ms - self.from_ms) / max(1, self.to_ms - self.from_ms))), 3)

    def placed(self, lane: Lane, ahead_ms: int = 0) -> Lane:
        """What of a lane is on the axis, in its place; its clock may be ahead."""
        marks = sorted((_at(self, mark, ahead_ms) for mark in lane.marks), key=lambda mark: mark.at_ms)
        spans = (_over(self, one, ahead_ms) for one in lane.spans)
        return Lane(
            name=lane.name,
            marks=_labelled([mark for mark in marks if self.from_ms <= mark.at_ms <= self.to_ms]),
            spans=tuple(one for one in spans if one.to_ms >= self.from_ms and one.from_ms <= self.to_ms),
        )

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Where, and what is written there."""
        span_s = (self.to_ms - self.from_ms) / 1000
        # A time with seconds is wider.
        fitting = (one for one in _STEPS_S if span_s / one <= (_TICKS if one >= 60 else _TICKS - 3))
        step = next(fitting, _STEPS_S[-1]) * 1000
        form = "%H:%M:%S" if step < 60_000 else "%H:%M" if span_s <= 172_800 else "%d %b"
        first = -(-self.from_ms // step) * step
        return tuple(
            (self.x(at), datetime.fromtimestamp(at / 1000, UTC).strftime(form))
            for at in range(first, self.to_ms + 1, step)
        )


def timeline(dossier: Dossier, from_ms: Millis, to_ms: Millis) -> Timeline:
    """Everything that touches the span."""
    axis = Axis(from_ms=from_ms, to_ms=to_ms)
    ahead_ms = ahead(dossier)
    alerts, omitted = of_alerts(dossier, from_ms, to_ms, most=ALERTS_SHOWN)
    silences = axis.placed(of_silences(dossier))
    lanes = (
        *(axis.placed(lane, ahead_ms) for lane in of_the_log(dossier, ahead_ms)),
        *map(axis.placed, alerts),
        *([silences] if silences.spans else []),
    )
    told = [(mark.at_ms, mark.says) for lane in lanes for mark in lane.marks]
    told += [(one.from_ms, one.says) for lane in lanes for one in lane.spans]
    return Timeline(
        from_ms=from_ms,
        to_ms=to_ms,
        lanes=lanes,
        ticks=axis.ticks(),
        ahead_ms=ahead_ms,
        events=tuple(sorted(told, key=lambda event: -event[0])),
        omitted=omitted,
    )


def ahead(dossier: Dossier) -> Millis:
    """How far the log's newest time is ahead of the moment at which it was read; 0 where it is not, or by little."""
    newest, seen = dossier.portrait.get("newest_timestamp_ms"), dossier.portrait.get("log_seen_at_ms")
    ahead_ms = 0 if newest is None or seen is None else newest - seen
    return Millis(ahead_ms if ahead_ms > _AGREE_MS else 0)


def _at(axis: Axis, mark: Mark, ahead_ms: int) -> Mark:
    at_ms = Millis(mark.at_ms - ahead_ms)
    return replace(mark, at_ms=at_ms, x=axis.x(at_ms))


def _over(axis: Axis, one: Span, ahead_ms: int) -> Span:
    from_ms, to_ms = Millis(one.from_ms - ahead_ms), Millis(one.to_ms - ahead_ms)
    begin, end = axis.x(from_ms), axis.x(to_ms)
    return replace(one, from_ms=from_ms, to_ms=to_ms, x=begin, width=round(end - begin, 3))


def _labelled(marks: list[Mark]) -> tuple[Mark, ...]:
    """Words that would run into the next mark are left out: the mark itself says them."""
    kept = []
    for at, mark in enumerate(marks):
        room = (marks[at + 1].x if at + 1 < len(marks) else 100.0) - mark.x
        needed = 2.5 + 1.2 * len(mark.label)
        kept.append(mark if room >= needed else replace(mark, label=""))
    return tuple(kept)
