"""KIP-704, from the record to the alert: how RECOVERING may begin and end, and its alerts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rules.finding import Finding
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import partitions_json
from tests.kips.test_kip_856_gauges import state_of
from tests.unit.rules.situation import findings, healthy
from tests.unit.rules.situation import recovering as several_recovering
from tests.unit.streaming.replay.log_script import LogScript, apply, machine

STUCK, BREACH = "partition-stuck-recovering", "recovery-invariant-broken"


def written(topic: str = "orders") -> tuple[LogScript, Machine]:
    """Returns a partition of three in-sync replicas led by 101; every broker is unfenced."""
    script, replay = LogScript(), machine()
    script.leader(1)
    for node in (101, 102, 103):
        script.broker(node, fenced=False)
    script.topic(topic)
    script.partition(topic, 0, 101, 102, 103)
    apply(replay, [script.read()])
    return script, replay


def recovering(topic: str = "orders") -> tuple[LogScript, Machine]:
    """Returns the partition after an unclean election of 102."""
    script, replay = written(topic)
    script.change(topic, 0, isr=(102,), leader=102, recovering=True)
    apply(replay, [script.read()])
    return script, replay


def later(script: LogScript, replay: Machine, after_ms: int) -> Quorum:
    """Continues the log with NoOp records only."""
    rows = []
    for passed_ms in (after_ms, 500):
        script.noops(1)
        rows.append(script.read(after_ms=passed_ms))
    return apply(replay, rows)


@pytest.mark.kip("B004", "B025", "B036", "B037")
@pytest.mark.parametrize("leader", [None, 101], ids=["no leader named", "the same leader named"])
def test_recovering_without_another_leader_is_a_violation(leader: int | None) -> None:
    script, replay = written()
    script.change("orders", 0, isr=(101,), leader=leader, recovering=True)

    quorum = apply(replay, [script.read()])

    (finding,) = findings(quorum, BREACH)
    assert quorum.history.unclean == (), "no election"
    assert finding.severity == "critical"
    assert finding.summary.endswith("Partition 0 is RECOVERING since a record that elected no leader.")


@pytest.mark.kip("B008", "B038", "B043")
@pytest.mark.parametrize(
    ("isr", "leader", "replicas", "breaches"),
    [
        ((102,), None, None, 0),
        ((102,), 102, None, 0),
        ((102, 103), None, None, 0),
        # The end of a reassignment may move the leader in the same record.
        ((103,), 103, (103, 104), 0),
        ((103,), 103, None, 1),
        ((102, 103), 103, None, 1),
    ],
    ids=[
        "by its leader",
        "by its leader, which it names",
        "with a replica that joined",
        "with a reassignment",
        "by an election",
        "by an election of it",
    ],
)
def test_the_leader_ends_recovery_and_an_election_does_not(
    isr: tuple[int, ...], leader: int | None, replicas: tuple[int, ...] | None, breaches: int
) -> None:
    script, replay = recovering()
    script.change("orders", 0, isr=isr, leader=leader, replicas=replicas, recovering=False)

    quorum = apply(replay, [script.read()])

    assert quorum.recovering == ()
    found = findings(quorum, BREACH)
    assert len(found) == breaches
    assert all("counts as recovered because broker 103 was elected" in one.summary for one in found)
    assert len(findings(later(script, replay, 3_500_000), BREACH)) == breaches, "and it fires for an hour"
    assert findings(later(script, replay, 200_000), BREACH) == []


@pytest.mark.kip("B009", "B024")
@pytest.mark.parametrize(("isr", "breaches"), [((102,), 0), ((102, 103), 1)])
def test_recovering_with_more_than_one_in_sync_replica_is_a_violation(isr: tuple[int, ...], breaches: int) -> None:
    script, replay = recovering()
    script.change("orders", 0, isr=isr)

    found = findings(apply(replay, [script.read()]), BREACH)

    assert len(found) == breaches
    for each in found:
        evidence = partition_of(each)
        assert (evidence["leader"], evidence["isr"], evidence["replicas"]) == (102, [102, 103], [101, 102, 103])


@pytest.mark.kip("B026", "B052", "B053")
@pytest.mark.parametrize("isr", [(102,), (102, 103)])
def test_a_broker_without_the_state_ends_recovery_and_nothing_fires(isr: tuple[int, ...]) -> None:
    """It sends AlterPartition version 0, which the controller records as 0: recovered."""
    script, replay = recovering()
    assert len(findings(replay.quorum(), STUCK)) == 1
    script.change("orders", 0, isr=isr, recovering=False)

    quorum = apply(replay, [script.read()])

    assert quorum.recovering == ()
    assert findings(quorum, STUCK) == findings(quorum, BREACH) == []


def partition_of(finding: Finding) -> Mapping[str, Any]:
    listed = finding.evidence["partitions"]
    assert isinstance(listed, list)
    (only,) = listed
    assert isinstance(only, dict)
    return only


@pytest.mark.kip("B034", "B047", "B048", "K047")
def test_a_stuck_recovery_fires_with_its_fields_and_partitions() -> None:
    script, replay = recovering()
    began = replay.quorum().recovering[0]
    script.change("orders", 0, isr=(103,), leader=103)
    script.change("orders", 0, leader=103)
    script.change("orders", 0, isr=(102,), leader=102)
    script.change("orders", 0, isr=(102,))
    quorum = apply(replay, [script.read()])

    (finding,) = findings(quorum, STUCK)

    fields = {
        "partition": 0, "leader": 102, "leader_epoch": 4, "partition_epoch": 5, "leader_changes": 2,
        "since_offset": began.since_offset, "replicas": [101, 102, 103], "isr": [102],
    }  # fmt: skip
    evidence = partition_of(finding)
    assert {name: evidence[name] for name in fields} == fields
    assert evidence["since_timestamp_ms"] == began.since_timestamp_ms
    assert (finding.evidence["topic"], finding.evidence["topic_id"]) == ("orders", "id-of-orders")
    assert "2 more leaders elected since" in finding.summary
    assert quorum.newest_timestamp_ms is not None
    assert finding.condition_age_ms == quorum.newest_timestamp_ms - began.since_timestamp_ms, "its hold is the log's"
    shown = partitions_json(cluster_status(state_of(quorum)))
    listed = shown["recovering"]
    assert isinstance(listed, list)
    assert isinstance(listed[0], dict)
    assert {name: listed[0][name] for name in fields} == fields


@pytest.mark.kip("B047", "B048")
def test_partitions_of_a_topic_are_one_alert_since_the_first_of_them() -> None:
    quorum = several_recovering(several_recovering(healthy(), 0, for_ms=75_000), 1, for_ms=90_000)
    again = tuple(replace(one, leader_changes=2) for one in quorum.recovering)

    (finding,) = findings(replace(quorum, recovering=again), STUCK)

    assert "4 more leaders elected since" in finding.summary
    assert finding.condition_age_ms == 90_000
    listed = finding.evidence["partitions"]
    assert isinstance(listed, list)
    assert [each["partition"] for each in listed if isinstance(each, dict)] == [0, 1]


@pytest.mark.kip("B011", "B034", "B048", "K025")
def test_a_recovering_partition_without_a_leader_is_offline() -> None:
    script, replay = recovering()
    (led,) = findings(replay.quorum(), STUCK)
    assert led.evidence["clients_refused"] is False
    gone = script.change("orders", 0, leader=102, isr=())
    script.events[-1] = replace(gone, leader=None)

    quorum = apply(replay, [script.read()])

    (finding,) = findings(quorum, STUCK)
    assert (quorum.recovering[0].isr, quorum.recovering[0].leader) == ((), None), "what is set is not kept"

    assert finding.evidence["clients_refused"] is True
    assert "except on 1 partition without a leader" in finding.summary
    assert partition_of(finding)["leader_changes"] == 0, "no leader is not another leader"


@pytest.mark.kip("B003")
@pytest.mark.parametrize(
    ("topic", "severities"),
    [
        ("orders", ["warning", "critical"]),
        ("__transaction_state", ["critical", "critical"]),
        ("__consumer_offsets", ["critical", "critical"]),
        ("__share_group_state", ["critical", "critical"]),
    ],
)
def test_internal_topics_have_a_higher_severity(topic: str, severities: list[str]) -> None:
    script, replay = recovering(topic)
    (fresh,) = findings(later(script, replay, 5_000), STUCK)
    (old,) = findings(later(script, replay, 60_000), STUCK)

    assert [fresh.severity, old.severity] == severities
    consequence = old.summary.partition("may be lost")[2].partition("Do not start")[0]
    assert ("may" in consequence) is topic.startswith("__"), "and what may follow is said"
