"""Weekly maintenance windows as silences that begin and end by themselves."""

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
    """One entry of `maintenance`: begins at a local time of its zone and lasts a fixed length."""

    clusters: tuple[str, ...]
    rules: tuple[str, ...]
    subjects: tuple[str, ...]
    days: frozenset[int]
    """The weekdays on which it begins: 0 is Monday."""
    begins: time
    """A time that daylight saving skips is that much later; of a repeated time the first one counts."""
    lasts: timedelta
    zone: ZoneInfo
    comment: str

    def spans(self, now_ms: Millis) -> Sequence[tuple[Millis, Millis]]:
        """Returns begin and end (ms) of each occurrence that is active or beginning within a week, earliest first."""
        today = datetime.fromtimestamp(now_ms / 1000, self.zone).date()
        # An occurrence that began so many days ago may still last; one more day, because a day may have 25 hours.
        first = -(self.lasts.days + 2)
        days = [today + timedelta(days=offset) for offset in range(first, 8)]
        begins = [datetime.combine(day, self.begins, self.zone) for day in days if day.weekday() in self.days]
        spans = [(_ms(begin), Millis(_ms(begin) + self.lasts // timedelta(milliseconds=1))) for begin in begins]
        return [(begin_ms, end_ms) for begin_ms, end_ms in spans if end_ms > now_ms]


def in_force(windows: Iterable[Window], now_ms: Millis) -> tuple[Silence, ...]:
    """Returns a silence for each window that is active at `now_ms`."""
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


def _ms(time_: datetime) -> Millis:
    return Millis(round(time_.timestamp() * 1000))
