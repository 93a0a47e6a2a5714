"""The control under a timeline that chooses the time of which the page shows the state."""

from collections.abc import Iterable
from dataclasses import dataclass

from rules.model.identifiers import Millis

_STEPS = 1_000
"""Positions of the slider."""
_AFTER_MS = 1_000
"""An event is observed within this time: the state that follows it is that much later."""


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
        window: begin and end of the timeline.
        at_ms: the time that is shown; None: the present.
        events: the times of the events on the timeline.
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
        step_ms=max(1, (end - begin) // _STEPS),
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
