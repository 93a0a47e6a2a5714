"""SinkFailureAlerts: raises an alert when a sink fails for a long time, so that the other sinks report it."""

from collections.abc import Mapping, Sequence

from connectors.delivery.delivery_report import SinkResult
from connectors.delivery.job_alert import job_alert, resolved_alert
from rules.alert import Alert, AlertState
from rules.evaluate import BLIND
from rules.finding import Severity
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID

HOLD_MS = Millis(300_000)
"""How long a sink fails before the alert fires."""


class SinkFailureAlerts:
    """Evaluates the failures of sinks. Firing alerts survive a restart (ledger); the hold time starts again."""

    def __init__(self, firing: Sequence[Alert]) -> None:
        """`firing`: the firing alerts of the ledger."""
        self._firing = {
            alert.subject: alert
            for alert in firing
            if alert.cluster_id == JOB_CLUSTER_ID and alert.subject.startswith(_SUBJECT_PREFIX)
        }
        self._since_ms: dict[str, Millis] = {}
        self._evaluated_ms = Millis(0)

    def take_over(self, predecessor: "SinkFailureAlerts", now_ms: Millis) -> None:
        """Continues the holds of `predecessor`, unless another job has notified for so long that its sinks work."""
        if 0 <= now_ms - predecessor._evaluated_ms < HOLD_MS:
            self._since_ms = predecessor._since_ms

    def due(self, results: Mapping[str, SinkResult | None], now_ms: Millis) -> Sequence[Alert]:
        """Returns the transitions that are due.

        Args:
            results: by sink name; None for a sink that was removed. A sink whose state is not known is left out.
            now_ms: the wall clock.
        """
        self._evaluated_ms = now_ms
        transitions = []
        for name, result in results.items():
            firing = self._firing.get(subject_of(name))
            if result is None or result.failing is None:
                self._since_ms.pop(name, None)
                if firing is not None:
                    transitions.append(resolved_alert(firing, now_ms, f"No delivery to the sink {name} fails."))
            else:
                since_ms = self._since_ms.setdefault(name, now_ms)
                if firing is None and now_ms - since_ms >= HOLD_MS:
                    transitions.append(_firing_alert(name, result, since_ms, now_ms))
        for alert in transitions:
            if alert.state is AlertState.FIRING:
                self._firing[alert.subject] = alert
            else:
                del self._firing[alert.subject]
        return transitions

    def move_by_step(self, step_ms: int) -> None:
        """Moves the starts of failures with a wall clock that was set: no hold becomes shorter or longer by it."""
        self._since_ms = {name: Millis(since_ms + step_ms) for name, since_ms in self._since_ms.items()}

    def removed_sinks(self, names: Sequence[str]) -> Mapping[str, None]:
        """Returns the sinks that have a firing alert and are not among the configured `names`."""
        configured = {subject_of(name) for name in names}
        return {subject.removeprefix(_SUBJECT_PREFIX): None for subject in self._firing if subject not in configured}


_SUBJECT_PREFIX = "sink "
_MAX_LISTED = 10


def subject_of(name: str) -> str:
    """Returns the subject of an alert about a sink."""
    return _SUBJECT_PREFIX + name


def is_about(alert: Alert, name: str) -> bool:
    """Returns whether an alert reports that this sink fails."""
    return alert.cluster_id == JOB_CLUSTER_ID and alert.subject == subject_of(name)


def _firing_alert(name: str, result: SinkResult, since_ms: Millis, now_ms: Millis) -> Alert:
    return job_alert(
        BLIND,
        subject_of(name),
        Severity.WARNING,
        summary=_summary(name, result, since_ms),
        evidence={
            "sink": name,
            "reason": result.failing,
            "failing_since_at_ms": since_ms,
            "waiting": result.pending,
            **({"not_accepted": list(result.not_accepted[:_MAX_LISTED])} if result.not_accepted else {}),
        },
        remedy=(
            f"# Fix the cause of the failure of {name}: pending alerts are then delivered, each once.",
            f"# Until then, inform the recipients of {name} by other means.",
        ),
        started_at_ms=since_ms,
        due_at_ms=Millis(since_ms + HOLD_MS),
        now_ms=now_ms,
    )


def _summary(name: str, result: SinkResult, since_ms: Millis) -> str:
    count = len(result.not_accepted)
    if not count:
        return f"Delivery to the sink {name} has failed since {utc_text(since_ms)}: {result.failing}."
    what = "1 notification" if count == 1 else f"{count} notifications"
    return f"The sink {name} has not accepted {what} since {utc_text(since_ms)}, but accepts others: {result.failing}."
