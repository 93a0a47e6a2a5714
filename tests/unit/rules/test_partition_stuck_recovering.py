"""partition-stuck-recovering: graded by who could join, one alert a topic, aged by the log's clock."""

from dataclasses import replace

import pytest

from rules.finding import Severity
from rules.model.identifiers import Millis, NodeId, TopicId
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    findings,
    healthy,
    recovering,
    told,
    unknown,
    unseen_for,
    with_broker,
)

RULE = "partition-stuck-recovering"


def dead_101(quorum: Quorum | None = None) -> Quorum:
    return with_broker(quorum or healthy(), 101, fenced=True)


@pytest.mark.kip("B011", "B049", "K025")
@pytest.mark.parametrize(
    ("quorum", "severity", "why"),
    [
        (recovering(healthy(), 0), "critical", "broker 101 is alive and does not join"),
        (recovering(dead_101(), 0), "warning", "no other replica is alive"),
        (recovering(with_broker(healthy(), 101, alive_for_ms=5_000), 0), "warning", "101 is back and has not joined"),
        (recovering(with_broker(healthy(), 101, alive_for_ms=30_000), 0), "critical", "does not join"),
        # We do not know since when it lives: it has had the time that the partition has.
        (recovering(with_broker(healthy(), 101, alive_for_ms=None), 0), "critical", "does not join"),
        (recovering(with_broker(healthy(), 101, alive_for_ms=None), 0, for_ms=9_000), "warning", "has not joined yet"),
        (recovering(healthy(), 0, replicas=(102,)), "info", "with one replica the state stays"),
        (recovering(healthy(), 0, replicas=(102, 109)), "warning", "no other replica is alive"),
        (recovering(dead_101(), 0, replicas=(101, 102, 103)), "warning", "no other replica is alive"),
        (recovering(with_broker(dead_101(), 103), 0, replicas=(101, 102, 103)), "critical", "broker 103 is alive"),
        (recovering(dead_101(), 0, leader=None), "critical", "broker 102 is alive"),
    ],
)
def test_graded_by_who_could_join(quorum: Quorum, severity: str, why: str) -> None:
    (finding,) = findings(quorum, RULE)
    assert finding.severity == severity
    assert why in finding.summary
    assert "clients are not refused" in finding.summary


def test_a_broker_that_shuts_down_is_not_expected_to_join() -> None:
    quorum = recovering(healthy(), 0)
    leaving = {node: replace(each, in_controlled_shutdown=node == 101) for node, each in quorum.brokers.items()}
    (finding,) = findings(replace(quorum, brokers=leaving), RULE)
    assert finding.severity is Severity.WARNING


def test_one_finding_a_topic_and_the_worst_of_its_partitions() -> None:
    quorum = recovering(recovering(dead_101(), 2, 0, replicas=(101, 102)), 1, replicas=(102,), for_ms=100_000)
    other = recovering(quorum, 0, topic="payments", topic_id=TopicId("cGF5bWVudHMtdG9waWMtLQ"), replicas=(102,))
    first, second = findings(other, RULE)
    assert (first.subject, first.severity) == ("topic orders", Severity.WARNING)
    assert (second.subject, second.severity) == ("topic payments", Severity.INFO)
    assert first.evidence["partitions_recovering"] == 3
    partitions = first.evidence["partitions"]
    assert isinstance(partitions, list)
    assert [each["partition"] for each in partitions if isinstance(each, dict)] == [0, 1, 2]


def test_it_is_aged_by_the_logs_clock() -> None:
    (finding,) = findings(recovering(dead_101(), 0, for_ms=75_000), RULE)
    assert finding.standing_ms == 75_000
    slow_here = replace(recovering(dead_101(), 0, for_ms=75_000), now_ms=Millis(NOW + 5_000))
    assert findings(slow_here, RULE)[0].standing_ms == 75_000


def test_from_a_snapshot_it_is_at_least_that_old() -> None:
    (finding,) = findings(recovering(dead_101(), 0, at_least=True), RULE)
    assert "at least 75 s" in finding.summary


def test_it_says_what_may_be_lost_and_never_a_count() -> None:
    (known,) = findings(recovering(dead_101(), 0, previous_isr=(101,)), RULE)
    assert known.evidence["may_be_lost"] == (
        "records that only broker 101 acknowledged: in sync, or eligible, before the election"
    )
    (forgotten,) = findings(recovering(dead_101(), 0, previous_isr=None), RULE)
    assert "no longer tells" in str(forgotten.evidence["may_be_lost"])


def test_a_long_list_is_cut_and_counted() -> None:
    (finding,) = findings(recovering(dead_101(), *range(500)), RULE)
    partitions = finding.evidence["partitions"]
    assert isinstance(partitions, list)
    assert len(partitions) == 20
    assert finding.evidence["partitions_not_listed"] == 480
    assert "500 partitions of topic orders" in finding.summary


def test_a_topic_whose_name_is_not_known_yet() -> None:
    (finding,) = findings(recovering(dead_101(), 0, topic=None), RULE)
    assert finding.subject == "topic with id dG9waWMtb3JkZXJzAAAAAA"
    assert not any("kafka-topics.sh" in step for step in finding.remedy)


def test_remedies() -> None:
    describe = "kafka-topics.sh --bootstrap-server b102.test:9092 --describe --topic orders"
    (dead,) = findings(recovering(dead_101(), 0), RULE)
    assert dead.remedy[0] == describe
    assert [step for step in dead.remedy if "Start broker 101 again" in step]
    assert [step for step in dead.remedy if "copy its directories" in step]
    (lame,) = findings(recovering(healthy(), 0), RULE)
    assert lame.remedy[0] == describe
    assert "then restart it" in lame.remedy[-1]
    (single,) = findings(recovering(healthy(), 0, replicas=(102,)), RULE)
    assert "kafka-reassign-partitions.sh" in single.remedy[-1]


def test_without_the_log_it_cannot_tell() -> None:
    blind = unseen_for(recovering(dead_101(), 0), log_ms=11_000, poll_ms=None)
    assert told(blind) == ["warning monitor-blind: quorum"]
    assert (RULE, None) in unknown(blind)
    assert (RULE, None) in unknown(replace(recovering(dead_101(), 0), newest_timestamp_ms=None))


def test_healed() -> None:
    assert findings(dead_101(), RULE) == []


@pytest.mark.kip("B046")
def test_a_partition_that_lost_its_leader_too_needs_that_one_first() -> None:
    """Its only in-sync replica died: nobody can join, and restarting the live one mends nothing."""
    quorum = with_broker(recovering(healthy(), 3, leader=None), 102, fenced=True)
    (stuck,) = quorum.recovering
    (finding,) = findings(replace(quorum, recovering=(replace(stuck, isr=(NodeId(102),)),)), RULE)
    assert finding.severity is Severity.CRITICAL
    assert "1 partition without a leader, which serves nobody" in finding.summary
    assert finding.evidence["clients_refused"] is True
    assert finding.remedy == (
        "kafka-topics.sh --bootstrap-server b101.test:9092 --describe --topic orders",
        "# Partition 3 has no leader and serves nobody: start broker 102 first, which holds the only in-sync copy",
    )
    (unknown_isr,) = findings(quorum, RULE)
    assert any("Elr or LastKnownElr" in step for step in unknown_isr.remedy)


@pytest.mark.parametrize(("replicas", "severity"), [((101, 102, 103), Severity.WARNING), ((102, 103), Severity.INFO)])
def test_a_replica_that_was_just_added_copies_first(replicas: tuple[int, ...], severity: Severity) -> None:
    """The remedy's own reassignment is no reason to wake anybody: the broker is old, its replica new."""
    quorum = with_broker(recovering(dead_101(), 0, replicas=replicas, for_ms=7_200_000), 103)
    (stuck,) = quorum.recovering

    def added(ago_ms: int) -> Quorum:
        since = Millis(NOW - 300 - ago_ms)
        return replace(quorum, recovering=(replace(stuck, added=(NodeId(103),), added_timestamp_ms=since),))

    (finding,) = findings(added(120_000), RULE)
    assert finding.severity is severity
    assert "broker 103 was given a replica and copies it" in finding.summary
    assert any("Broker 103 copies" in step for step in finding.remedy)
    assert not any("If the state is to end" in step for step in finding.remedy)
    assert findings(added(3_600_000), RULE)[0].severity is Severity.CRITICAL
