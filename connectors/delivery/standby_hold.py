"""StandbyHold: suppresses the notifications of a standby job while the first job notifies."""

from dataclasses import dataclass

from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID
from rules.notifications.silence import Silence

_FOREVER_MS = Millis(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyHold(Silence):
    """A silence of all alerts but those about this job itself.

    An alert that resolves meanwhile is discarded only once the first job is known to have run later than that: if it
    had stopped by then, its recipients still have to be notified.
    """

    covered_until_ms: Millis
    """The first job has notified of all transitions up to this time."""

    def matches(self, alert: Alert) -> bool:
        """Returns whether the first job notifies of this alert."""
        return alert.cluster_id != JOB_CLUSTER_ID

    def may_discard(self, alert: Alert) -> bool:
        """Returns whether the first job has notified of this transition."""
        return not self.matches(alert) or alert.observed_at_ms <= self.covered_until_ms


def standby_hold(covered_until_ms: Millis) -> StandbyHold:
    """Returns the hold while the first job runs."""
    return StandbyHold(
        id="standby",
        starts_at_ms=Millis(0),
        ends_at_ms=_FOREVER_MS,
        author="standby",
        comment="the first job notifies",
        covered_until_ms=covered_until_ms,
    )
