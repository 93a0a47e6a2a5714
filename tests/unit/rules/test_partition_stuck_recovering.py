"""partition-stuck-recovering: severity by the replicas that could join, one alert per topic, age by the log's time."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from rules.finding import Severity
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    findings,
    healthy,
    recovering,
    unknown_reasons,
    with_broker,
)

RULE = "partition-stuck-recovering"
FENCED_101 = with_broker(healthy(), 101, fenced=True)


def with_brokers(nodes: Iterable[int], *, alive_for_ms: int = 3_600_000) -> Quorum:
    quorum = healthy()
    for node in nodes:
        quorum = with_broker(quorum, node, alive_for_ms=alive_for_ms)
    return quorum


@pytest.mark.parametrize(
    ("quorum", "severity", "why"),
    [
        (recovering(healthy(), 0), "critical", "Broker 101 is alive and does not join the ISR"),
        (recovering(FENCED_101, 0), "warning", "No other replica is alive"),
        (
            recovering(with_broker(healthy(), 101, alive_for_ms=5_000), 0),
            "warning",
            "101 is back and has not joined the ISR",
        ),
        (recovering(with_broker(healthy(), 101, alive_for_ms=30_000), 0), "critical", "does not join the ISR"),
        # The broker's uptime is unknown: it has had as long to join as the partition is RECOVERING.
        (recovering(with_broker(healthy(), 101, alive_for_ms=None), 0), "critical", "does not join the ISR"),
        (
            recovering(with_broker(healthy(), 101, alive_for_ms=None), 0, for_ms=9_000),
            "warning",
            "has not joined the ISR yet",
        ),
        (recovering(healthy(), 0, replicas=(102,)), "info", "has one replica, so the state stays"),
        (recovering(healthy(), 0, replicas=(102, 109)), "warning", "No other replica is alive"),
        (recovering(FENCED_101, 0, replicas=(101, 102, 103)), "warning", "No other replica is alive"),
        (
            recovering(with_broker(FENCED_101, 103), 0, replicas=(101, 102, 103)),
            "critical",
            "Broker 103 is alive",
        ),
        (recovering(FENCED_101, 0, leader=None), "critical", "Broker 102 is alive"),
        (
            recovering(with_broker(healthy(), 103), 0, replicas=(101, 102, 103)),
            "critical",
            "Brokers 101 and 103 are alive and do not join the ISR.",
        ),
        (
            recovering(with_brokers(range(101, 108)), 0, replicas=tuple(range(101, 108))),
            "critical",
            "Brokers 101, 103, 104, 105 and 2 more are alive and do not join the ISR.",
        ),
        (
            recovering(with_brokers(range(101, 108), alive_for_ms=5_000), 0, replicas=tuple(range(101, 108))),
            "warning",
            "Broker 101, 103, 104, 105 and 2 more is back and has not joined the ISR yet.",
        ),
    ],
)
def test_severity_depends_on_the_replicas_that_could_join(quorum: Quorum, severity: str, why: str) -> None:
    (finding,) = findings(quorum, RULE)
    assert finding.severity == severity
    assert why in finding.summary
    refused = ", except on 1 partition without a leader" if quorum.recovering[0].leader is None else ""
    assert finding.summary.endswith(f" Clients are not refused{refused}.")
    assert finding.summary.count("refused") == 1


@pytest.mark.parametrize(("at_least", "severity"), [(False, Severity.WARNING), (True, Severity.CRITICAL)])
def test_of_a_state_that_a_snapshot_contains_only_the_uptime_of_a_broker_counts(
    at_least: bool, severity: Severity
) -> None:
    (finding,) = findings(recovering(healthy(), 0, for_ms=5_000, at_least=at_least), RULE)
    assert finding.severity is severity
    assert ("RECOVERING since before " in finding.summary) is at_least


def test_partitions_beyond_the_limit_are_counted() -> None:
    (finding,) = findings(recovering(healthy(), *range(25)), RULE)
    listed = finding.evidence["partitions"]
    assert isinstance(listed, list)
    assert (len(listed), finding.evidence["partitions_not_listed"]) == (20, 5)
    assert finding.evidence["partitions_recovering"] == 25
    assert finding.summary.startswith("25 partitions of topic orders have been RECOVERING")


def test_age_is_measured_by_the_timestamps_in_the_log() -> None:
    (finding,) = findings(recovering(FENCED_101, 0, for_ms=75_000), RULE)
    assert finding.condition_age_ms == 75_000
    later = replace(recovering(FENCED_101, 0, for_ms=75_000), now_ms=Millis(NOW + 5_000))
    assert findings(later, RULE)[0].condition_age_ms == 75_000


def test_partition_without_a_leader_needs_its_leader_first() -> None:
    """Its only in-sync replica is down: no replica can join, and restarting the live one fixes nothing."""
    quorum = with_broker(recovering(healthy(), 3, leader=None), 102, fenced=True)
    (stuck,) = quorum.recovering
    (finding,) = findings(replace(quorum, recovering=(replace(stuck, isr=(NodeId(102),)),)), RULE)
    assert finding.severity is Severity.CRITICAL
    assert "Clients are not refused, except on 1 partition without a leader." in finding.summary
    assert finding.evidence["clients_refused"] is True
    listed = finding.evidence["partitions"]
    assert isinstance(listed, list)
    assert [(one["leader"], one["isr"]) for one in listed if isinstance(one, dict)] == [(None, [102])]
    assert finding.remedy[0].startswith("# Do not start or restart broker 101 before you have copied orders-3 from")
    assert finding.remedy[1:] == (
        "kafka-topics.sh --bootstrap-server b101.test:9092 --describe --topic orders",
        "# Partition 3 has no leader and serves no client: start broker 102 first, it holds the only in-sync copy",
    )
    unknown = [replace(stuck, partition=number, isr=()) for number in (5, 7)]
    (mixed,) = findings(replace(quorum, recovering=(replace(stuck, isr=(NodeId(102),)), *unknown)), RULE)
    assert mixed.remedy[2:] == (
        finding.remedy[2],
        "# Partitions 5 and 7 have no leader and serve no client: first start the brokers that --describe lists under "
        "Elr or LastKnownElr",
    )


@pytest.mark.parametrize(("replicas", "severity"), [((101, 102, 103), Severity.WARNING), ((102, 103), Severity.INFO)])
def test_recently_added_replica_is_given_time_to_copy(replicas: tuple[int, ...], severity: Severity) -> None:
    """The reassignment that the remedy proposes must not raise the severity: the broker is old, its replica is new."""
    quorum = with_broker(recovering(FENCED_101, 0, replicas=replicas, for_ms=7_200_000), 103)
    (stuck,) = quorum.recovering

    def added(ago_ms: int) -> Quorum:
        since = Millis(NOW - 300 - ago_ms)
        return replace(quorum, recovering=(replace(stuck, added=(NodeId(103),), added_timestamp_ms=since),))

    (finding,) = findings(added(120_000), RULE)
    assert finding.severity is severity
    assert "Broker 103 was assigned a replica and is copying it" in finding.summary
    assert any("broker 103 is copying the partition" in step for step in finding.remedy)
    assert not any("To end the state" in step for step in finding.remedy)
    assert findings(added(3_600_000), RULE)[0].severity is Severity.CRITICAL


def test_only_a_partition_of_one_replica_is_information_while_another_is_copied() -> None:
    """Kafka refuses a second replica in the ISR of a RECOVERING partition; a log with one is still a warning."""
    quorum = with_broker(recovering(healthy(), 0, replicas=(101, 102, 103), for_ms=7_200_000), 103)
    (stuck,) = quorum.recovering
    copied = replace(
        stuck,
        isr=(NodeId(101), NodeId(102)),
        added=(NodeId(103),),
        added_timestamp_ms=Millis(NOW - 300 - 120_000),
    )

    (finding,) = findings(replace(quorum, recovering=(copied,)), RULE)
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("isr", "elr", "holders"),
    [((101, 102), (), "101"), ((102,), (103,), "103"), ((101,), (103,), "101 and 103")],
)
def test_records_may_be_lost_that_only_the_previous_isr_and_elr_acknowledged(
    isr: tuple[int, ...], elr: tuple[int, ...], holders: str
) -> None:
    """Broker 102 leads now: what it had before is not lost."""
    quorum = recovering(FENCED_101, 0, replicas=(101, 102, 103), previous_isr=isr)
    (stuck,) = quorum.recovering
    (finding,) = findings(replace(quorum, recovering=(replace(stuck, previous_elr=_nodes(elr)),)), RULE)
    assert finding.evidence["may_be_lost"] == (
        f"records that only broker {holders} acknowledged (ISR or ELR before the election)"
    )


@pytest.mark.parametrize(
    ("replicas", "severity", "which"),
    [((102,), Severity.INFO, "has the only replica"), ((101, 102), Severity.WARNING, "led last")],
)
@pytest.mark.parametrize("topic", ["orders", "__transaction_state"])
def test_after_an_election_of_the_last_leader_only_unflushed_records_can_be_lost(
    replicas: tuple[int, ...], severity: Severity, which: str, topic: str
) -> None:
    """The same severities and words as of unclean-election."""
    quorum = recovering(FENCED_101, 0, replicas=replicas, previous_isr=(), topic=topic, last_leader=True)
    (finding,) = findings(quorum, RULE)

    assert finding.severity is severity
    assert f"Broker 102 {which}: only records that it had not flushed to disk when it crashed" in finding.summary
    assert "acknowledged records may be lost" not in finding.summary
    assert str(finding.evidence["may_be_lost"]).startswith("only records that the elected broker had not flushed")
    assert not any("before you have copied" in step for step in finding.remedy)


def _nodes(ids: Iterable[int]) -> tuple[NodeId, ...]:
    return tuple(NodeId(each) for each in ids)


def test_a_topic_has_the_age_and_the_severity_of_the_worst_of_its_partitions() -> None:
    quorum = recovering(recovering(healthy(), 0, replicas=(102,)), 3, for_ms=500_000)
    (finding,) = findings(quorum, RULE)
    assert (finding.severity, finding.condition_age_ms) == (Severity.CRITICAL, 500_000)
    assert finding.evidence["oldest"] == "since 2026-09-21 14:04:59 UTC"


def test_records_of_a_topic_may_be_lost_if_those_of_one_of_its_partitions_may() -> None:
    unflushed = recovering(FENCED_101, 0, last_leader=True)
    assert "acknowledged records may be lost" not in findings(unflushed, RULE)[0].summary
    (finding,) = findings(recovering(unflushed, 3), RULE)
    assert "After the unclean election acknowledged records may be lost." in finding.summary


def test_broker_in_controlled_shutdown_is_not_expected_to_join() -> None:
    quorum = recovering(healthy(), 0)
    leaving = {node: replace(each, in_controlled_shutdown=node == 101) for node, each in quorum.brokers.items()}
    (finding,) = findings(replace(quorum, brokers=leaving), RULE)
    assert finding.severity is Severity.WARNING


def test_result_is_unknown_without_a_time_of_the_log() -> None:
    assert unknown_reasons(replace(recovering(healthy(), 0), newest_timestamp_ms=None), RULE) == [
        (None, "no timestamp of the metadata log has been read")
    ]
