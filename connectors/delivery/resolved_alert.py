"""The resolved transition of an alert that delivery itself ends."""

from dataclasses import replace

from rules.alert import Alert, AlertState
from rules.formatting import ms_text
from rules.model.identifiers import Millis


def resolved_alert(firing: Alert, now_ms: Millis) -> Alert:
    """Returns the transition that resolves a firing alert at `now_ms`, the wall clock."""
    return replace(
        firing,
        state=AlertState.RESOLVED,
        summary=f"resolved after {ms_text(now_ms - firing.started_at_ms)}: {firing.summary}",
        remedy=(),
        due_at_ms=now_ms,
        observed_at_ms=now_ms,
    )
