"""A new state begins with the alerts of the ledger; those of the early evaluation mute no other rule."""

from collections.abc import Sequence
from dataclasses import replace

from connectors.store.alert_codec import ALERT, ALERTS
from rules.alert import Alert, AlertState
from rules.lifecycle import TrackedConditions
from rules.model.identifiers import Millis
from streaming.pipeline.early_alerts import continued, initial_conditions, initial_states
from streaming.pipeline.step import Step
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.decoded_row import decoded_row
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.streaming.pipeline.test_early_alerts import SETTINGS, EarlyRows, rows
from tests.unit.streaming.pipeline.test_step_containment import OneCluster, healthy, leaderless

CLUSTER = SETTINGS.name
NOW_MS = Millis(NOON_MS + 86_400_000)


def early_alert() -> Alert:
    """Returns the alert that the early evaluation sends after eight seconds without a leader."""
    (fired,) = EarlyRows().observe(rows(leaderless(), range(8)))
    return fired


def later(seconds: float, *, leader: bool, tracked_by: Alert) -> list[Alert]:
    """Returns what a new state sends of the early alert's rule, of a quorum that has a leader from some second on."""
    monitor = ClusterMonitor(SETTINGS)
    monitor.tracked = initial_conditions([tracked_by], [tracked_by], now_ms=NOW_MS)[CLUSTER]
    before = healthy() if leader else leaderless()
    observed = [*rows(before, range(round(seconds))), *rows(healthy(), range(round(seconds), 40))]
    alerts = [
        one
        for sequence, row in enumerate(observed)
        for one in monitor.apply([decoded_row(replace(row, sequence=sequence))]).alerts
    ]
    alerts = [one for one in alerts if one.rule == tracked_by.rule]
    return continued(alerts, lambda fingerprint: tracked_by if fingerprint == tracked_by.fingerprint else None)


def fired_alert() -> Alert:
    cluster = OneCluster()
    for _ in range(40):
        cluster.batch(leaderless(), restarted=False)
    (fired,) = [ALERT.validate_json(row.body) for row in cluster.taken("alert")]
    return fired


def transitions(cluster: OneCluster, known: Sequence[Alert]) -> list[str]:
    """Returns what a job whose ledger has these alerts sends for 40 s of a healthy cluster."""
    step = Step({CLUSTER: SETTINGS}, initial=initial_states({CLUSTER: SETTINGS}, known, known, now_ms=NOW_MS))
    Step._cache.clear()
    for _ in range(40):
        for frame in cluster.pass_to(step, cluster.frame(healthy())):
            cluster.output += list(frame.itertuples(index=False))
    return [state for rule, _, state in cluster.alerts() if rule == "no-leader"]


def test_cluster_without_state_begins_with_its_firing_alert() -> None:
    assert transitions(OneCluster(sequence=100), [fired_alert()]) == ["resolved"]
    assert transitions(OneCluster(sequence=100), []) == []


def test_a_state_that_is_restored_says_what_fires_with_its_remedy() -> None:
    cluster = OneCluster()
    for _ in range(40):
        cluster.batch(leaderless(), restarted=False)
    (fired,) = [ALERT.validate_json(row.body) for row in cluster.taken("alert")]
    cluster.taken("firing")
    cluster.batch(leaderless(), restarted=False)
    assert cluster.taken("firing") == []
    cluster.batch(leaderless(), restarted=True)
    ((again,),) = [ALERTS.validate_json(row.body) for row in cluster.taken("firing")]
    assert (again.fingerprint, again.started_at_ms, again.severity) == (
        fired.fingerprint,
        fired.started_at_ms,
        fired.severity,
    )
    assert again.remedy == fired.remedy != ()
    for _ in range(40):
        cluster.batch(healthy(), restarted=False)
    cluster.batch(healthy(), restarted=True)
    (others,) = [ALERTS.validate_json(row.body) for row in cluster.taken("firing")]
    assert fired.rule not in {each.rule for each in others}


def test_cluster_that_has_state_is_not_changed() -> None:
    known = OneCluster()
    known.batch(healthy())

    assert transitions(known, [fired_alert()]) == []


def test_cluster_whose_state_is_damaged_with_its_alerts_continues_those_of_the_ledger() -> None:
    """Else nothing would ever resolve them."""
    damaged = OneCluster(sequence=100)
    damaged.batch(healthy())
    damaged.state.blob = b""

    assert transitions(damaged, [fired_alert()]) == ["resolved"]


def test_each_cluster_has_its_own_alerts_with_their_beginning() -> None:
    sent = [
        alert("broker 1", rule="broker-fenced", cluster=name, started_at_ms=NOON_MS + minute * 60_000)
        for name, minute in (("a", 0), ("b", 1))
    ]
    begun = {
        name: [(one.rule, one.started_at_ms) for one in each.conditions.values()]
        for name, each in initial_conditions(sent, sent, now_ms=NOW_MS).items()
    }
    assert begun == {"a": [("broker-fenced", NOON_MS)], "b": [("broker-fenced", NOON_MS + 60_000)]}


def test_early_alert_mutes_no_row_of_another_rule() -> None:
    sent = alert("broker 1", rule="broker-fenced", cluster=CLUSTER, observed_at_ms=Millis(NOON_MS))
    early = replace(early_alert(), observed_at_ms=Millis(NOON_MS + 60_000))

    assert initial_conditions([sent, early], [early], now_ms=NOW_MS)[CLUSTER].now_ms == NOON_MS
    assert initial_conditions([early], [early], now_ms=NOW_MS)[CLUSTER].now_ms == 0
    assert initial_conditions([replace(early, state=AlertState.RESOLVED)], [], now_ms=NOW_MS) == {
        CLUSTER: TrackedConditions()
    }


def test_early_alert_that_the_step_finds_too_is_sent_once_and_ends_once() -> None:
    (ended,) = later(20, leader=False, tracked_by=early_alert())

    assert ended.state is AlertState.RESOLVED


def test_early_alert_that_the_step_does_not_find_ends_after_it() -> None:
    early = early_alert()
    (ended,) = later(0, leader=True, tracked_by=early)

    assert ended.state is AlertState.RESOLVED
    assert ended.observed_at_ms > early.observed_at_ms


def test_an_alert_of_a_job_whose_clock_is_ahead_lets_this_one_evaluate_now() -> None:
    ahead = alert("quorum", rule="epoch-churn", cluster=CLUSTER, observed_at_ms=Millis(NOW_MS + 3_600_000))
    assert initial_conditions([ahead], [ahead], now_ms=NOW_MS)[CLUSTER].now_ms == NOW_MS + 60_000
