"""What this job, which notifies now, finds otherwise than the ledger has it: another job wrote that, or it was lost.

Jobs that share a store and gather themselves do not observe the same: one may be cut off from a cluster that the other
one reaches. An alert that only the other job finds would never end, and one that the other job has ended would not be
sent again, because a job's state yields each transition once. The same holds for what a server's backup or replica did
not have.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from connectors.delivery.job_alerts import resolved_alert
from connectors.delivery.ledger import Ledger
from connectors.relay.relay_message import AHEAD_MS
from rules.alert import Alert, AlertState
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID
from streaming.status.cluster_status import ClusterStatus

HOLD_S: Final = 60.0
"""How long this job does not find an alert's condition before it ends the alert: longer than a clear time."""
_NOT_FOUND: Final = "Another job of this store reported it; this one observes the cluster and does not find it."


class LedgerDifferences:
    """Follows which alerts fire by this job's own state, whether or not it notifies."""

    def __init__(self, status_of: Callable[[str], ClusterStatus | None]) -> None:
        """`status_of` returns the newest status of a cluster by this job; None if there is none."""
        self._status_of = status_of
        self._own: dict[str, dict[str, Alert]] = {}
        """By cluster and fingerprint."""
        self._not_found_since: dict[str, float] = {}

    def restart_holds(self) -> None:
        """This job begins to notify."""
        self._not_found_since.clear()

    def restored(self, cluster: str, firing: Sequence[Alert]) -> None:
        """These alerts fire by the state of a cluster."""
        self._own[cluster] = {each.fingerprint: each for each in firing}

    def changed(self, alert: Alert) -> None:
        """The state of a cluster has yielded a transition."""
        own = self._own.setdefault(alert.cluster, {})
        own.pop(alert.fingerprint, None)
        if alert.state is AlertState.FIRING:
            own[alert.fingerprint] = alert

    def due(self, ledger: Ledger, now_ms: Millis, *, besides: Collection[str]) -> Sequence[Alert]:
        """Returns the transitions that make the ledger's alerts those of this job.

        `besides`: fingerprints of alerts that change anyway.
        """
        ended = [end for each in ledger.firing() if (end := self._end(each, now_ms)) is not None]
        return [one for one in (*ended, *self._lacking(ledger, now_ms)) if one.fingerprint not in besides]

    def _end(self, alert: Alert, now_ms: Millis) -> Alert | None:
        name, now = alert.fingerprint, time.monotonic()
        status = self._status_of(alert.cluster)
        found = alert.cluster_id == JOB_CLUSTER_ID or name in self._own.get(alert.cluster, ())
        if found or status is None or not _decides(alert, status, now_ms) or _summary(alert, status) is not None:
            self._not_found_since.pop(name, None)
        elif now - self._not_found_since.setdefault(name, now) >= HOLD_S:
            return resolved_alert(alert, status.now_ms, _NOT_FOUND)
        return None

    def _lacking(self, ledger: Ledger, now_ms: Millis) -> Iterator[Alert]:
        for cluster, own in self._own.items():
            status = self._status_of(cluster)
            if status is None:
                continue
            for alert in own.values():
                before, started_at_ms = ledger.newest(alert.fingerprint), alert.started_at_ms
                if before is not None:
                    fires = before.state is AlertState.FIRING
                    if (fires and before.severity is alert.severity) or not _is_newer(status, before, now_ms):
                        continue
                    started_at_ms = before.started_at_ms if fires else status.now_ms
                if (summary := _summary(alert, status)) is not None:
                    yield replace(
                        alert,
                        summary=summary,
                        started_at_ms=started_at_ms,
                        due_at_ms=status.now_ms,
                        observed_at_ms=status.now_ms,
                    )


def _decides(alert: Alert, status: ClusterStatus, now_ms: Millis) -> bool:
    unknown = any(one.rule == alert.rule and one.subject in (None, alert.subject) for one in status.unknown)
    return not unknown and _is_newer(status, alert, now_ms)


def _is_newer(status: ClusterStatus, alert: Alert, now_ms: Millis) -> bool:
    # A job whose clock is ahead has recorded a time in the future, which says nothing.
    return status.now_ms > alert.observed_at_ms or alert.observed_at_ms > now_ms + AHEAD_MS


def _summary(alert: Alert, status: ClusterStatus) -> str | None:
    same = (one.summary for one in status.findings if (one.rule, one.subject) == (alert.rule, alert.subject))
    return next(same, None)
