"""A Life: one alert from firing to resolved, as one sink stands to it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rules.alert import Alert, AlertState
from rules.model.identifiers import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """One recorded transition, as one sink stands to it."""

    alert: Alert
    told: bool
    asked: bool = False
    """It was sent and no answer came that it was taken; it may have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Its transitions in order, never none; those that the sink need never be told are left out."""

    filed: tuple[Filed, ...]

    @property
    def newest(self) -> Alert:
        """The newest word on it."""
        return self.filed[-1].alert

    @property
    def over(self) -> bool:
        """It is resolved."""
        return self.newest.state is AlertState.RESOLVED

    @property
    def begun(self) -> bool:
        """The sink knows of it."""
        return any(each.told for each in self.filed)

    @property
    def asked(self) -> bool:
        """The sink may know of it."""
        return any(each.asked for each in self.filed)

    @property
    def told(self) -> tuple[Alert, ...]:
        """What the sink was told of it."""
        return tuple(each.alert for each in self.filed if each.told)

    @property
    def untold(self) -> tuple[Alert, ...]:
        """What it was not."""
        return tuple(each.alert for each in self.filed if not each.told)


def lives(filed: Iterable[Filed]) -> Sequence[Life]:
    """The lives that these transitions, oldest first, belong to, in the order in which they began."""
    by_life: dict[tuple[str, Millis], list[Filed]] = {}
    for each in filed:
        by_life.setdefault((each.alert.fingerprint, each.alert.started_at_ms), []).append(each)
    return [Life(filed=tuple(one)) for one in by_life.values()]
