"""The state with which a job begins after a restart or a takeover: all of it follows from the alerts of the ledger.

With an empty state, a new Spark checkpoint beside an existing ledger would begin every hold and every alert again. What
is read of an alert is its `facts` and not its text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rules.alert import Alert
from rules.evaluate import JOB_RULES
from rules.firing import AHEAD_MS
from rules.job.monitor_degraded import CUT_OFF
from rules.lifecycle import TrackedConditions, notified_conditions
from rules.model.identifiers import Millis
from rules.model.job_state import JOB_CLUSTER_ID, ClockStep, RefusedRows
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialJobState:
    """What fires about the job itself."""

    tracked: TrackedConditions
    """At the newest time at which another job of the store evaluated them; 0 if that is no time of this host's clock:
    a clock that is further ahead than AHEAD_MS says nothing."""
    clock_step: ClockStep | None
    refused: Sequence[RefusedRows]
    cut_off: frozenset[str] | None
    """The clusters that the alert about all blind clusters lists; None: it does not fire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialState:
    """What fires, as the monitors of the clusters and of the job continue it."""

    clusters: Mapping[str, TrackedConditions]
    """By the name of each cluster that the ledger has alerts of."""
    job: InitialJobState

    def encoded(self, clusters: Mapping[str, ClusterSettings]) -> Mapping[str, bytes]:
        """Returns the state of each of these clusters that the ledger has alerts of, as the processor stores it."""
        return {
            name: ClusterMonitor(clusters[name], tracked=tracked).to_bytes()
            for name, tracked in self.clusters.items()
            if name in clusters
        }


def initial_state(firing: Sequence[Alert], history: Iterable[Alert] = (), *, now_ms: Millis) -> InitialState:
    """Returns the state that follows from a ledger.

    Rows before the newest recorded transition of a cluster are replayed, but change no alert: their alerts were sent.
    Another job of the store, whose clock is ahead, may have recorded a later time: nothing would be evaluated until
    then.

    Args:
        firing: the newest transition of each alert that fires.
        history: every transition, of which the clusters are found; none: of the job alone.
        now_ms: the wall clock.
    """
    newest_ms: dict[str, Millis] = {}
    for alert in history:
        newest_ms[alert.cluster] = max(newest_ms.get(alert.cluster, Millis(0)), alert.observed_at_ms)
    return InitialState(
        clusters={
            cluster: TrackedConditions(
                now_ms=Millis(min(at_ms, now_ms + AHEAD_MS)),
                conditions=notified_conditions(one for one in firing if one.cluster == cluster).conditions,
            )
            for cluster, at_ms in newest_ms.items()
        },
        job=_of_job(firing, now_ms),
    )


def _of_job(firing: Sequence[Alert], now_ms: Millis) -> InitialJobState:
    own = [alert for alert in firing if alert.cluster_id == JOB_CLUSTER_ID and alert.rule in JOB_RULES]
    newest_ms = max((alert.observed_at_ms for alert in own), default=Millis(0))
    return InitialJobState(
        tracked=TrackedConditions(
            now_ms=newest_ms if newest_ms <= now_ms + AHEAD_MS else Millis(0),
            conditions=notified_conditions(own).conditions,
        ),
        clock_step=next((alert.facts.clock_step for alert in own if alert.facts.clock_step is not None), None),
        refused=[alert.facts.refused for alert in own if alert.facts.refused is not None],
        cut_off=next((frozenset(alert.facts.clusters) for alert in own if alert.about == CUT_OFF), None),
    )
