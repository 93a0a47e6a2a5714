"""Maintenance: weekly windows in which people are not told, as silences that begin and end by themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import product
from zoneinfo import ZoneInfo

from rules.model.identifiers import Millis
from rules.notifications.silence import Silence

AUTHOR = "configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One entry of `maintenance`. It begins by the wall clock of its zone, and lasts so long by any clock."""

    clusters: tuple[str, ...]
    rules: tuple[str, ...]
    subjects: tuple[str, ...]
    days: frozenset[int]
    """On which it begins: 0 for Monday."""
    begins: time
    """Where clocks are put forward over it, as much later; where they are put back, the first of the two."""
    lasts: timedelta
    zone: ZoneInfo
    comment: str

    def spans(self, now_ms: Millis) -> Sequence[tuple[Millis, Millis]]:
        """Beginning and end of those that hold now or begin within a week, the earliest first."""
        today = datetime.fromtimestamp(now_ms / 1000, self.zone).date()
        # What began that long ago may still last; a day more, because a day may have 25 hours.
        first = -(self.lasts.days + 2)
        days = [today + timedelta(days=offset) for offset in range(first, 8)]
        begins = [datetime.combine(day, self.begins, self.zone) for day in days if day.weekday() in self.days]
        spans = [(_ms(begin), Millis(_ms(begin) + self.lasts // timedelta(milliseconds=1))) for begin in begins]
        return [(begin_ms, end_ms) for begin_ms, end_ms in spans if end_ms > now_ms]


def in_force(windows: Iterable[Window], now_ms: Millis) -> tuple[Silence, ...]:
    """What the windows silence now."""
    return tuple(
        Silence(
            id=f"maintenance-{number}",
            cluster=cluster,
            rule=rule,
            subject=subject,
            starts_at_ms=begin_ms,
            ends_at_ms=end_ms,
            author=AUTHOR,
            comment=window.comment,
        )
        for number, window in enumerate(windows, start=1)
        for begin_ms, end_ms in window.spans(now_ms)
        if begin_ms <= now_ms
        for cluster, rule, subject in product(window.clusters, window.rules, window.subjects)
    )


def _ms(moment: datetime) -> Millis:
    return Millis(round(moment.timestamp() * 1000))
