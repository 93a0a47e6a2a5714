"""What a damaged ledger has lost, found by a comparison with the alerts in Spark's state. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from connectors.delivery.job_alert import resolved_alert
from connectors.delivery.ledger_index import AlertRecord
from connectors.delivery.ledger_record import AlertDelivered, IncidentNotified, LedgerRecord, SinkAdded
from rules.alert import Alert
from rules.model.identifiers import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedCluster:
    """A cluster's alerts in Spark's state."""

    cluster: str
    """The cluster's name."""
    now_ms: Millis
    """The time of the newest row that was evaluated."""
    firing: Sequence[Alert]
    """The firing alerts, each as its newest transition would be sent."""


def lost_transitions(
    clusters: Sequence[EvaluatedCluster],
    firing: Sequence[Alert],
    newest: Callable[[str], AlertRecord | None],
) -> Sequence[Alert]:
    """Returns the transitions that the ledger lacks.

    A transition that is newer than the state stays as it is: Spark repeats its batch, which was not committed.

    Args:
        clusters: what is firing in Spark's state.
        firing: what is firing in the ledger.
        newest: returns the newest transition in the ledger, by fingerprint.
    """
    fired = [alert for each in clusters for alert in _fired(each, newest)]
    evaluated_ms = {each.cluster: each.now_ms for each in clusters}
    still_firing = {alert.fingerprint for each in clusters for alert in each.firing}
    resolved = [
        resolved_alert(alert, now_ms, f"The condition is over: {alert.subject}.")
        for alert in firing
        if (now_ms := evaluated_ms.get(alert.cluster)) is not None
        and alert.observed_at_ms <= now_ms
        and alert.fingerprint not in still_firing
    ]
    return [*fired, *resolved]


def _fired(state: EvaluatedCluster, newest: Callable[[str], AlertRecord | None]) -> Iterator[Alert]:
    for alert in state.firing:
        record = newest(alert.fingerprint)
        if record is None or not _covers(record.alert, alert, state):
            yield alert


def _covers(recorded: Alert, firing: Alert, state: EvaluatedCluster) -> bool:
    same = (recorded.state, recorded.severity, recorded.started_at_ms) == (
        firing.state,
        firing.severity,
        firing.started_at_ms,
    )
    return same or recorded.observed_at_ms > state.now_ms


def sinks_without_addition(records: Sequence[LedgerRecord]) -> Sequence[str]:
    """Returns the sinks that a ledger names, but whose addition it does not have."""
    named = dict.fromkeys(record.sink for record in records if isinstance(record, AlertDelivered | IncidentNotified))
    added = {record.sink for record in records if isinstance(record, SinkAdded)}
    return [sink for sink in named if sink not in added]
