"""The processor: when it yields a status, and that nothing which one cluster's rows or state hold ends the query."""

import base64
import json
import pickle
from collections.abc import Iterable
from typing import Any

import pytest

from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Event
from connectors.observations.partition_run import each_event
from connectors.store.alert_codec import FIRING
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from streaming.pipeline import cluster_processor
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.state_codec import UnusableStateError
from tests.scripts.log_script import LogScript, poll, replica
from tests.unit.streaming.pipeline.one_cluster import NOW, OneCluster, healthy, leaderless

VOTERS = ("1-a", "2-b", "3-c")


def statuses(cluster: OneCluster, now_s: float, events: Iterable[Event]) -> list[int]:
    """Passes a row to a worker that is never restarted; returns the times of the statuses in ms since NOW."""
    cluster.batch(events, restarted=cluster.sequence < 0, at_ms=NOW + round(1_000 * now_s))
    return [json.loads(row.body)["now_ms"] - NOW for row in cluster.taken("status")]


def polled(second: int) -> Event:
    rows = (replica(name, 100 + second, fetch=1_000 * second, caught_up=1_000 * second) for name in VOTERS)
    return poll(*rows, hw=90 + second)


def test_a_status_comes_once_a_second_and_with_an_alert() -> None:
    cluster = OneCluster()
    shown = [at for tenth in range(0, 35, 2) for at in statuses(cluster, tenth / 10, [polled(tenth)])]
    assert shown == [0, 1_000, 2_000, 3_000]

    for tenth in range(36, 200, 3):
        shown = statuses(cluster, tenth / 10, leaderless())
        if cluster.alerts():
            break
    assert shown == [100 * tenth]


def test_the_status_before_an_election_is_shown_too() -> None:
    """Otherwise /metrics could not measure how long the election took."""
    cluster, script = OneCluster(), LogScript(now_ms=NOW)
    script.leader(1)
    script.voters(*VOTERS)
    statuses(cluster, 0, each_event(script.read(after_ms=0).events))
    script.noops(2)
    assert statuses(cluster, 0.5, each_event(script.read().events)) == []
    script.leader(2, epoch=2)

    assert statuses(cluster, 1.2, each_event(script.read().events)) == [500, 1_200]


def numbered(number: int) -> ClusterSettings:
    return ClusterSettings(
        name=f"cluster-{number}",
        cluster_id=f"id-{number}",
        bootstrap=tuple(f"controller-{node}.cluster-{number}.example:9093" for node in (1, 2, 3)),
        thresholds=thresholds_for({"no-leader.hold": number % 2}),
    )


def test_settings_of_many_clusters_are_small_and_complete() -> None:
    """They are pickled for every task."""
    clusters = {f"cluster-{number}": numbered(number) for number in range(1_000)}

    pickled = pickle.dumps(ClusterProcessor(clusters))

    assert len(pickled) < 500 * len(clusters)
    assert pickle.loads(pickled)._clusters == clusters


def test_a_row_that_cannot_be_decoded_is_quarantined() -> None:
    cluster = OneCluster()
    cluster.batch([Undecodable(offset=None, reason="a quorum row is no event", length=3)])

    (quarantined,) = cluster.taken("quarantine")
    assert quarantined.name == "0-0"
    assert json.loads(quarantined.body)["reason"] == "a quorum row is no event"
    assert cluster.alerts() == [("data-contract-broken", "every-record-decodes", "firing")]
    assert len(cluster.taken("status")) == 1


def test_changed_thresholds_apply_to_a_state_that_the_worker_keeps() -> None:
    cluster = OneCluster(thresholds_for({"no-leader.hold": 3_600}))
    for _ in range(8):
        cluster.batch(leaderless(), restarted=False)
    assert cluster.alerts() == []

    cluster.thresholds = thresholds_for({"no-leader.hold": 1})
    cluster.batch(leaderless(), restarted=False)
    assert cluster.alerts() == [("no-leader", "quorum", "firing")]


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted worker", "same worker"])
def test_a_failing_rule_blinds_no_other_rule(restarted: bool) -> None:
    cluster = OneCluster({**thresholds_for({}), "voter-log-regressed": Thresholds(values={"hold": 0, "clear": 10})})
    for _ in range(8):
        cluster.batch(leaderless(), restarted=restarted)
    for _ in range(2):
        cluster.batch(healthy(), restarted=restarted)

    assert cluster.alerts() == [
        ("no-leader", "quorum", "firing"),
        ("data-contract-broken", "every-rule-can-be-evaluated", "firing"),
    ]
    (quarantined,) = cluster.taken("quarantine")
    body = json.loads(quarantined.body)
    assert (quarantined.name, body["sequence"]) == ("8-1", 8)
    assert body["reason"].startswith("could not be evaluated: rule voter-log-regressed: KeyError in rules.")


def test_a_state_that_cannot_be_evaluated_is_reported_and_keeps_its_last_status() -> None:
    complete = thresholds_for({})
    cluster = OneCluster({rule: complete[rule] for rule in complete if rule != "no-leader"})
    for _ in range(3):
        cluster.batch(leaderless())

    assert cluster.alerts() == [
        ("data-contract-broken", "every-row-can-be-applied", "firing"),
        ("data-contract-broken", "every-status-can-be-rendered", "firing"),
    ]
    assert cluster.taken("status") == []
    assert [row.name for row in cluster.taken("quarantine")] == ["0-3", "1-3", "2-3"]

    cluster.thresholds = complete
    for _ in range(8):
        cluster.batch(leaderless())
    assert ("no-leader", "quorum", "firing") in cluster.alerts()
    assert len(cluster.taken("status")) == 8


@pytest.mark.parametrize("render", ["_firing", "_evaluated"], ids=["what fires", "the time of the next poll"])
def test_what_cannot_be_rendered_is_reported_although_the_status_can(
    monkeypatch: pytest.MonkeyPatch, render: str
) -> None:
    rendered = getattr(cluster_processor, render)

    def raising(cluster: str, value: Any) -> Any:
        fired = [one for one in getattr(value, "alerts", ()) if one.rule == "no-leader"]
        if render == "_evaluated" or any("evidence" not in one.evidence for one in fired):
            raise ValueError
        return rendered(cluster, value)

    monkeypatch.setattr(cluster_processor, render, raising)
    cluster = OneCluster()
    for _ in range(9):
        cluster.batch(leaderless())

    assert cluster.taken("status")
    found = cluster.alerts()
    assert ("data-contract-broken", "every-status-can-be-rendered", "firing") in found
    assert ("no-leader", "quorum", "firing") in found


def test_what_fires_is_said_again_after_a_change_and_after_a_restart_only() -> None:
    cluster = OneCluster()
    for _ in range(8):
        cluster.batch(leaderless(), restarted=False)
    assert cluster.alerts() == [("no-leader", "quorum", "firing")]
    cluster.batch(leaderless(), restarted=False, at_ms=NOW + 7_500)
    assert cluster.taken("firing") == []
    cluster.batch(leaderless(), restarted=False, at_ms=NOW + 7_000 + cluster_processor.REPEATED_MS)
    assert len(cluster.taken("firing")) == 1, "it still fires"
    cluster.batch(leaderless(), restarted=True, at_ms=NOW + 7_100 + cluster_processor.REPEATED_MS)
    (row,) = cluster.taken("firing")
    (again,) = FIRING.validate_json(row.body).alerts
    assert again.remedy != (), "a job whose ledger lacks it sends it whole"


def test_a_damaged_state_is_kept_in_quarantine_and_the_cluster_starts_with_a_new_one() -> None:
    cluster = OneCluster()
    for _ in range(8):
        cluster.batch(leaderless())
    assert cluster.alerts() == [("no-leader", "quorum", "firing")]
    damaged = cluster.blob = cluster.blob[:-1]
    cluster.batch(leaderless())

    assert cluster.alerts() == [("data-contract-broken", "every-state-can-be-read", "firing")]
    (quarantined,) = cluster.taken("quarantine")
    assert base64.b64decode(json.loads(quarantined.body)["state"]) == damaged
    # The alert was readable, so it resolves when the quorum is healthy again.
    for _ in range(14):
        cluster.batch(healthy())
    assert ("no-leader", "quorum", "resolved") in cluster.alerts()
    assert cluster.taken("quarantine") == []


@pytest.mark.parametrize("end", [0, 3, 5, 40])
def test_a_state_of_which_nothing_can_be_read_ends_no_query(end: int) -> None:
    cluster = OneCluster()
    cluster.batch(leaderless())
    cluster.blob = cluster.blob[:end]
    for _ in range(8):
        cluster.batch(leaderless())

    assert {alert[0] for alert in cluster.alerts()} == {"data-contract-broken", "no-leader"}


def test_a_state_of_another_version_ends_the_query_which_begins_another_one() -> None:
    cluster = OneCluster()
    cluster.batch(leaderless())
    cluster.blob = cluster.blob[:3] + b"\xff" + cluster.blob[4:]

    with pytest.raises(UnusableStateError, match="of cluster prod has version 255, and this kraftwatch reads"):
        cluster.batch(leaderless())
