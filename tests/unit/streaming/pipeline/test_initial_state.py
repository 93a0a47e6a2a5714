"""What the ledger's alerts mean for a start: the states that clusters begin with."""

from collections.abc import Sequence

from rules.alert import Alert
from rules.model.identifiers import Millis
from streaming.pipeline.initial_state import initial_state
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.streaming.pipeline.one_cluster import SETTINGS, OneCluster, healthy, leaderless
from tests.unit.streaming.pipeline.recorded_alerts import RecordedAlerts

CLUSTER = SETTINGS.name
NOW_MS = Millis(NOON_MS + 86_400_000)


def fired_alert(cluster: OneCluster) -> Alert:
    for _ in range(40):
        cluster.batch(leaderless(), restarted=False)
    (fired,) = cluster.transitions()
    return fired


def sent_with(cluster: OneCluster, known: Sequence[Alert]) -> list[str]:
    """Returns what a job whose ledger has these alerts sends for 40 s of a healthy cluster."""
    cluster.output.clear()
    cluster.recorded = RecordedAlerts(*known)
    cluster.options = {"initial": initial_state(known, known, now_ms=NOW_MS).encoded({CLUSTER: SETTINGS})}
    for second in range(40):
        cluster.batch(healthy(), restarted=second == 0)
    return [state for rule, _, state in cluster.alerts() if rule == "no-leader"]


def test_cluster_without_state_begins_with_its_firing_alert() -> None:
    assert sent_with(OneCluster(sequence=100), [fired_alert(OneCluster())]) == ["resolved"]
    assert sent_with(OneCluster(sequence=100), []) == []


def test_cluster_whose_state_is_damaged_with_its_alerts_continues_those_of_the_ledger() -> None:
    """Else nothing would ever resolve them."""
    damaged = OneCluster(sequence=100)
    damaged.batch(healthy())
    damaged.blob = b""

    assert sent_with(damaged, [fired_alert(OneCluster())]) == ["resolved"]


def test_each_cluster_has_its_own_alerts_with_their_beginning() -> None:
    sent = [
        alert("broker 1", rule="broker-fenced", cluster=name, started_at_ms=NOON_MS + minute * 60_000)
        for name, minute in (("a", 0), ("b", 1))
    ]
    begun = {
        name: [(one.rule, one.started_at_ms) for one in each.conditions.values()]
        for name, each in initial_state(sent, sent, now_ms=NOW_MS).clusters.items()
    }
    assert begun == {"a": [("broker-fenced", NOON_MS)], "b": [("broker-fenced", NOON_MS + 60_000)]}


def test_an_alert_of_a_job_whose_clock_is_ahead_lets_this_one_evaluate_now() -> None:
    ahead = alert("quorum", rule="epoch-churn", cluster=CLUSTER, observed_at_ms=Millis(NOW_MS + 3_600_000))
    assert initial_state([ahead], [ahead], now_ms=NOW_MS).clusters[CLUSTER].now_ms == NOW_MS + 60_000
