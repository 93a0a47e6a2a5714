"""The states that clusters begin with: the alerts of the ledger are known to be firing.

With an empty state, a new Spark checkpoint beside an existing ledger would send each firing alert again after its hold,
and would never resolve an alert that ended in the meantime. With these, a condition that lasts keeps its alert, and one
that is over resolves it.
"""

from collections.abc import Iterable, Mapping, Sequence

from connectors.relay.relay_message import AHEAD_MS
from rules.alert import Alert
from rules.lifecycle import TrackedCondition, TrackedConditions
from rules.model.identifiers import Millis
from streaming.pipeline.early_alerts import EARLY_RULES
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings


def initial_states(
    clusters: Mapping[str, ClusterSettings], history: Iterable[Alert], firing: Sequence[Alert], *, now_ms: Millis
) -> Mapping[str, bytes]:
    """Returns the initial state of each cluster, by name, that the ledger has alerts of; arguments as below."""
    return {
        name: ClusterMonitor(clusters[name], tracked=tracked).to_bytes()
        for name, tracked in initial_conditions(history, firing, now_ms=now_ms).items()
        if name in clusters
    }


def initial_conditions(
    history: Iterable[Alert], firing: Sequence[Alert], *, now_ms: Millis
) -> Mapping[str, TrackedConditions]:
    """Returns, by cluster name, the conditions of the firing alerts.

    Rows before the newest recorded transition of a cluster are replayed, but change no alert: their alerts were sent.
    Transitions of `EARLY_RULES` do not count: they may have been recorded before any other rule was evaluated, and
    `early_alerts.continued` drops theirs that are repeated.

    Args:
        history: every transition in the ledger.
        firing: the newest transition of each firing alert.
        now_ms: the wall clock. Another job of the store, whose clock is ahead, may have recorded a later time: nothing
            would be evaluated until then.
    """
    conditions: dict[str, dict[str, TrackedCondition]] = {}
    for alert in firing:
        conditions.setdefault(alert.cluster, {})[f"{alert.rule} {alert.subject}"] = _condition(alert)
    newest_ms: dict[str, Millis] = {}
    for alert in history:
        counted_ms = Millis(0) if alert.rule in EARLY_RULES else alert.observed_at_ms
        newest_ms[alert.cluster] = max(newest_ms.get(alert.cluster, Millis(0)), counted_ms)
    return {
        cluster: TrackedConditions(now_ms=Millis(min(at_ms, now_ms + AHEAD_MS)), conditions=conditions.get(cluster, {}))
        for cluster, at_ms in newest_ms.items()
    }


def _condition(alert: Alert) -> TrackedCondition:
    return TrackedCondition(
        rule=alert.rule,
        subject=alert.subject,
        cluster_id=alert.cluster_id,
        started_at_ms=alert.started_at_ms,
        due_at_ms=alert.due_at_ms,
        last_seen_at_ms=alert.observed_at_ms,
        # Rows before it are evaluated again: it can only end after them.
        clearing_since_ms=alert.observed_at_ms if alert.rule in EARLY_RULES else None,
        notified_severity=alert.severity,
        summary=alert.summary,
        evidence=alert.evidence,
    )
