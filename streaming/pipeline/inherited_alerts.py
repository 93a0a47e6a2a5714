"""Alerts that another job found, and that this job, which notifies now, does not find.

Jobs that share a store and gather themselves do not observe the same: one may be cut off from a cluster that the other
one reaches. When the lease changes hands, an alert that only the former job found would never end, because its
resolution would come from that job.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from connectors.delivery.job_alert import resolved_alert
from rules.alert import Alert
from rules.notifications.route import JOB_CLUSTER_ID
from streaming.status.cluster_status import ClusterStatus, FindingStatus, PendingCondition

HOLD_S: Final = 60.0
"""How long this job does not find an alert's condition before it ends the alert: longer than a clear time."""
_NOT_FOUND: Final = "Another job of this store reported it; this one observes the cluster and does not find it."


class InheritedAlerts:
    """The alerts of clusters that were firing when this job began to notify, until this job finds or ends them."""

    def __init__(self, firing: Sequence[Alert]) -> None:
        """`firing`: the firing alerts of the ledger."""
        self._inherited = {each.fingerprint for each in firing if each.cluster_id != JOB_CLUSTER_ID}
        self._not_found_since: dict[str, float] = {}

    def due(self, firing: Sequence[Alert], status_of: Callable[[str], ClusterStatus | None]) -> Sequence[Alert]:
        """Returns the resolved transitions that are due.

        Args:
            firing: the firing alerts of the ledger.
            status_of: returns the newest status of a cluster by this job; None if there is none.
        """
        if not self._inherited:
            return ()
        inherited = [each for each in firing if each.fingerprint in self._inherited]
        self._inherited &= {each.fingerprint for each in inherited}
        return [end for each in inherited if (end := self._end(each, status_of(each.cluster))) is not None]

    def _end(self, alert: Alert, status: ClusterStatus | None) -> Alert | None:
        name, now = alert.fingerprint, time.monotonic()
        if status is None or not _is_evaluated(alert, status) or _is_among(alert, status.pending):
            self._not_found_since.pop(name, None)
        elif _is_among(alert, status.findings):
            # It fires in this job too, which will resolve it.
            self._inherited.discard(name)
        elif now - self._not_found_since.setdefault(name, now) >= HOLD_S:
            self._inherited.discard(name)
            return resolved_alert(alert, status.now_ms, _NOT_FOUND)
        return None


def _is_evaluated(alert: Alert, status: ClusterStatus) -> bool:
    unknown = any(one.rule == alert.rule and one.subject in (None, alert.subject) for one in status.unknown)
    return not unknown and status.now_ms > alert.observed_at_ms


def _is_among(alert: Alert, conditions: Sequence[FindingStatus | PendingCondition]) -> bool:
    return any((one.rule, one.subject) == (alert.rule, alert.subject) for one in conditions)
