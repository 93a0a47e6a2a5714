"""Outages: sinks that cannot be told for long, as alerts of their own, so that the other sinks tell of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rules.alert import Alert, AlertState
from rules.checks import monitor_blind
from rules.finding import Severity
from rules.formatting import spelled
from rules.model.identifiers import Millis
from rules.notifications.route import OWN

HOLD_MS = Millis(300_000)
"""So long a sink may fail before the others tell of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a sink cannot be told, and what waits for it."""

    reason: str
    waiting: int


class Outages:
    """What the ledger says is firing goes on over a restart; how long the rest failed begins anew with it."""

    def __init__(self, firing: Sequence[Alert]) -> None:
        """`firing`: what the ledger holds."""
        self._told = {alert.subject: alert for alert in firing if alert.cluster_id == OWN}
        self._since_ms: dict[str, Millis] = {}

    def alerts(self, troubles: Mapping[str, Trouble | None], now_ms: Millis) -> Sequence[Alert]:
        """The transitions that are due.

        Args:
            troubles: by the name of each sink that is known to fail, or (None) to be well. A sink of which neither
                is known is left out; one that is there no more is given as well.
            now_ms: the wall clock.
        """
        due = []
        for name, trouble in troubles.items():
            told = self._told.get(about(name))
            if trouble is None:
                self._since_ms.pop(name, None)
                if told is not None:
                    due.append(_resolved(told, now_ms))
            else:
                # A wall clock that was set back begins to count anew.
                since_ms = min(self._since_ms.setdefault(name, now_ms), now_ms)
                self._since_ms[name] = since_ms
                if told is None and now_ms - since_ms >= HOLD_MS:
                    due.append(_firing(name, trouble, since_ms, now_ms))
        for alert in due:
            if alert.state is AlertState.FIRING:
                self._told[alert.subject] = alert
            else:
                del self._told[alert.subject]
        return due

    def gone(self, names: Sequence[str]) -> Mapping[str, None]:
        """The sinks that alerts still speak of, and that are none of these any more."""
        present = {about(name) for name in names}
        return {subject.removeprefix(_ABOUT): None for subject in self._told if subject not in present}


_ABOUT = "sink "


def about(name: str) -> str:
    """The subject of an alert about a sink."""
    return _ABOUT + name


def is_about(alert: Alert, name: str) -> bool:
    """Whether an alert says that this sink fails."""
    return alert.cluster_id == OWN and alert.subject == about(name)


def _firing(name: str, trouble: Trouble, since_ms: Millis, now_ms: Millis) -> Alert:
    return Alert(
        cluster=OWN,
        cluster_id=OWN,
        rule=monitor_blind.ID,
        subject=about(name),
        severity=Severity.WARNING,
        state=AlertState.FIRING,
        summary=f"The sink {name} could not be told for {spelled(now_ms - since_ms)}: {trouble.reason}.",
        evidence={"sink": name, "reason": trouble.reason, "failing_since_at_ms": since_ms, "waiting": trouble.waiting},
        remedy=(
            f"# Mend what keeps {name} from being told: what waits for it is told then, in order, nothing twice.",
            "# Until then tell those who rely on it by other means.",
        ),
        started_at_ms=since_ms,
        due_at_ms=Millis(since_ms + HOLD_MS),
        observed_at_ms=now_ms,
        offset=None,
    )


def _resolved(told: Alert, now_ms: Millis) -> Alert:
    return replace(
        told,
        state=AlertState.RESOLVED,
        summary=f"resolved after {spelled(now_ms - told.started_at_ms)}: {told.summary}",
        remedy=(),
        due_at_ms=now_ms,
        observed_at_ms=now_ms,
    )
