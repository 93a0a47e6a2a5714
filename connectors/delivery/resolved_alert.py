"""The resolved transition of an alert that delivery itself ends."""

from dataclasses import replace

from rules.alert import Alert, AlertState
from rules.formatting import resolved_summary
from rules.model.identifiers import Millis


def resolved_alert(firing: Alert, now_ms: Millis, now: str) -> Alert:
    """Returns the transition that resolves a firing alert at `now_ms`, the wall clock; `now` says what is true now."""
    return replace(
        firing,
        state=AlertState.RESOLVED,
        summary=resolved_summary(now, firing.started_at_ms, now_ms),
        remedy=(),
        due_at_ms=now_ms,
        observed_at_ms=now_ms,
    )
