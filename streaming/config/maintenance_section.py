"""One maintenance window: when people are not told, week by week."""

from collections.abc import Sequence
from datetime import time, timedelta
from typing import Annotated, Any, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from streaming.config.maintenance_window import Window
from streaming.config.section import Duration, Section

Day: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_DAYS: tuple[Day, ...] = get_args(Day)


def _time_of_day(value: Any) -> Any:
    # YAML 1.1 reads 22:00 without quotes as 22 * 60.
    if isinstance(value, int) and not isinstance(value, bool) and 60 <= value < 24 * 60:
        return time(value // 60, value % 60)
    if isinstance(value, str) and len(value) == 5:
        return value
    if isinstance(value, time):
        return value
    raise ValueError('is no time of day: write "22:00"')


TimeOfDay = Annotated[
    time,
    BeforeValidator(_time_of_day),
    WithJsonSchema({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}),
]
"""By the clock on the wall: `"22:00"`."""


class MaintenanceSection(Section):
    """A weekly window in which people are not told; records (jsonl, a topic) are written all the same.

    What still stands when it ends is told then.
    """

    model_config = ConfigDict(populate_by_name=True)

    clusters: tuple[str, ...] = Field(default=("*",), min_length=1)
    """Names of clusters, or patterns with `*` and `?`."""
    rules: tuple[str, ...] = Field(default=("*",), min_length=1)
    """Ids of rules, or patterns."""
    subjects: tuple[str, ...] = Field(default=("*",), min_length=1)
    """What alerts are about, as they name it, or patterns."""
    days: tuple[Day, ...] = Field(default=_DAYS, min_length=1)
    """The days on which it begins; each day by default."""
    from_: TimeOfDay = Field(alias="from")
    """When it begins by the clock on the wall there: `"22:00"`."""
    for_: Duration = Field(alias="for")
    """How long it lasts: `4h`, `90m`."""
    timezone: str = "UTC"
    """Whose wall: `Europe/Berlin`. Summer time is minded: the window begins by the wall, and lasts its whole length."""
    comment: str = Field(min_length=1)
    """Why: whoever is on call will want to know."""

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"'{value}' is no time zone: write one as Europe/Berlin or UTC") from None
        return value

    @model_validator(mode="after")
    def _ends(self) -> "MaintenanceSection":
        if self.for_ >= _longest_pause_s(sorted({_DAYS.index(day) for day in self.days})):
            raise ValueError("it lasts until it begins anew, and so never ends: a pager switched off")
        return self

    def window(self) -> Window:
        """The plain value."""
        return Window(
            clusters=self.clusters,
            rules=self.rules,
            subjects=self.subjects,
            days=frozenset(_DAYS.index(day) for day in self.days),
            begins=self.from_,
            lasts=timedelta(seconds=self.for_),
            zone=ZoneInfo(self.timezone),
            comment=self.comment,
        )


def _longest_pause_s(days: Sequence[int]) -> float:
    """From one beginning to the next, at most."""
    following = [*days[1:], days[0] + 7]
    return max(after - day for day, after in zip(days, following, strict=True)) * 86_400.0
