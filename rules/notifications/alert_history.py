"""AlertHistory: the transitions of one alert, from firing to resolved, with their delivery status for one sink."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rules.alert import Alert, AlertState
from rules.model.identifiers import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionStatus:
    """One recorded transition of an alert and its delivery status for one sink."""

    alert: Alert
    delivered: bool
    """The sink accepted the transition."""
    maybe_delivered: bool = False
    """The transition was sent, but the sink's acceptance was not confirmed: the sink may have it."""
    escalations: int = 0
    """How often the incident had escalated, this transition included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertHistory:
    """The transitions of one alert, oldest first. Never empty; discarded transitions are left out."""

    transitions: tuple[TransitionStatus, ...]

    @property
    def newest(self) -> Alert:
        """The newest transition."""
        return self.transitions[-1].alert

    @property
    def resolved(self) -> bool:
        """Whether the newest transition is `resolved`."""
        return self.newest.state is AlertState.RESOLVED

    @property
    def notified(self) -> bool:
        """Whether at least one transition was delivered to the sink."""
        return any(each.delivered for each in self.transitions)

    @property
    def maybe_notified(self) -> bool:
        """Whether the sink may have a transition whose acceptance was not confirmed."""
        return any(each.maybe_delivered for each in self.transitions)

    @property
    def delivered(self) -> tuple[Alert, ...]:
        """The transitions that were delivered to the sink."""
        return tuple(each.alert for each in self.transitions if each.delivered)

    @property
    def pending(self) -> tuple[Alert, ...]:
        """The transitions that were not delivered yet."""
        return tuple(each.alert for each in self.transitions if not each.delivered)


def alert_histories(transitions: Iterable[TransitionStatus]) -> Sequence[AlertHistory]:
    """Groups transitions (oldest first) by fingerprint and start time, in the order of the first transition."""
    by_alert: dict[tuple[str, Millis], list[TransitionStatus]] = {}
    for each in transitions:
        by_alert.setdefault((each.alert.fingerprint, each.alert.started_at_ms), []).append(each)
    return [AlertHistory(transitions=tuple(group)) for group in by_alert.values()]
