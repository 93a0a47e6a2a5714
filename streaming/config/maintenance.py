"""Weekly maintenance windows: their configuration, and the silences that begin and end by themselves."""

from collections.abc import Iterable, Sequence
from datetime import datetime, time, timedelta
from itertools import product
from typing import Annotated, Any, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from connectors.settings.sections import Duration, Section
from rules.model.identifiers import Millis
from rules.notifications.route import WINDOW_ID, Silence

AUTHOR = "configuration"


def _ms(time_: datetime) -> Millis:
    return Millis(round(time_.timestamp() * 1000))


Day: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_DAYS: tuple[Day, ...] = get_args(Day)


def _time_of_day(value: Any) -> Any:
    if isinstance(value, time) or (isinstance(value, str) and len(value) == 5):
        return value
    raise ValueError('invalid time of day: write "22:00"')


TimeOfDay = Annotated[
    time,
    BeforeValidator(_time_of_day),
    WithJsonSchema({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}),
]
"""A local time such as `"22:00"`."""


class MaintenanceSection(Section):
    """A weekly window in which sinks for people are not notified; record sinks (jsonl, a topic) are.

    Alerts that are still firing when it ends are notified then.
    """

    model_config = ConfigDict(populate_by_name=True)

    clusters: tuple[str, ...] = Field(default=("*",), min_length=1)
    """The clusters: names, or patterns with `*` and `?`."""
    rules: tuple[str, ...] = Field(default=("*",), min_length=1)
    """The rules: ids, or patterns."""
    subjects: tuple[str, ...] = Field(default=("*",), min_length=1)
    """The subjects of alerts, or patterns."""
    days: tuple[Day, ...] = Field(default=_DAYS, min_length=1)
    """The days on which the window begins; default: every day."""
    from_: TimeOfDay = Field(alias="from")
    """The local time at which it begins: `"22:00"`."""
    for_: Duration = Field(alias="for")
    """How long it lasts, such as `4h`."""
    timezone: str = "UTC"
    """The time zone of `from`, such as `Europe/Berlin`; daylight saving time does not change the length."""
    comment: str = Field(min_length=1)
    """The reason, shown to the person on call."""

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"unknown time zone '{value}': write one such as Europe/Berlin or UTC") from None
        return value

    @model_validator(mode="after")
    def _ends(self) -> "MaintenanceSection":
        if self.for_ >= _longest_interval_s(sorted({_DAYS.index(day) for day in self.days})):
            raise ValueError("the window lasts until it begins again, so it never ends: shorten `for` or remove days")
        return self

    def spans(self, now_ms: Millis) -> Sequence[tuple[Millis, Millis]]:
        """Returns begin and end (ms) of each occurrence that is active or beginning within a week, earliest first.

        A time that daylight saving skips is that much later; of a repeated time the first one counts.
        """
        zone, lasts = ZoneInfo(self.timezone), timedelta(seconds=self.for_)
        today = datetime.fromtimestamp(now_ms / 1000, zone).date()
        # An occurrence that began so many days ago may still last; one more day, because a day may have 25 hours.
        days = [today + timedelta(days=offset) for offset in range(-(lasts.days + 2), 8)]
        begins = [datetime.combine(day, self.from_, zone) for day in days if _DAYS[day.weekday()] in self.days]
        spans = [(_ms(begin), Millis(_ms(begin) + lasts // timedelta(milliseconds=1))) for begin in begins]
        return [(begin_ms, end_ms) for begin_ms, end_ms in spans if end_ms > now_ms]


def in_force(windows: Iterable[MaintenanceSection], now_ms: Millis) -> tuple[Silence, ...]:
    """Returns a silence for each window that is active at `now_ms`."""
    return tuple(
        Silence(
            id=f"{WINDOW_ID}{number}",
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


def _longest_interval_s(days: Sequence[int]) -> float:
    following = [*days[1:], days[0] + 7]
    return max(after - day for day, after in zip(days, following, strict=True)) * 86_400.0
