from dataclasses import replace

import pytest

from rules.model.history import ElectedRecovered
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.quorum import Quorum
from tests.unit.rules.situation import NOW, TOPIC, finding_lines, findings, healthy, recovering, with_past

RULE = "recovery-invariant-broken"


@pytest.mark.parametrize(
    "quorum",
    [
        healthy(),
        recovering(healthy(), 0),
        # The leader is offline and stays the only in-sync replica; with ELR (KIP-966) the ISR is empty.
        recovering(healthy(), 0, leader=None, isr=(102,)),
        recovering(healthy(), 0, leader=None, isr=()),
    ],
    ids=["no recovery", "leader alone", "leader offline", "empty ISR"],
)
def test_recoveries_that_kafka_writes_are_allowed(quorum: Quorum) -> None:
    assert findings(quorum, RULE) == []


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize(
    ("leader", "isr"),
    [(102, (102, 101)), (None, (101, 102)), (102, (101,)), (102, ())],
    ids=["ISR grew", "ISR grew without a leader", "leader not in ISR", "leader and empty ISR"],
)
def test_isr_other_than_the_leader_alone_is_a_violation(
    leader: int | None, isr: tuple[int, ...], partition: int
) -> None:
    before, after = range(partition), range(partition + 1, 2)
    quorum = recovering(recovering(recovering(healthy(), *before), partition, leader=leader, isr=isr), *after)
    (finding,) = findings(quorum, RULE)
    assert finding.subject == "topic orders"
    assert "1 partition of topic orders" in finding.summary


def elected_recovered(ago_ms: int) -> Quorum:
    """The record that made broker 101 leader of orders-0 instead of 102 also ended the recovery, this long ago."""
    assert healthy().newest_timestamp_ms is not None
    ended = ElectedRecovered(
        topic_id=TOPIC,
        topic="orders",
        partition=0,
        leader=NodeId(101),
        previous_leader=NodeId(102),
        offset=Offset(9_700),
        timestamp_ms=Millis(NOW - 300 - ago_ms),
    )
    return with_past(healthy(), elected_recovered=(ended,))


@pytest.mark.parametrize(("ago_ms", "fires"), [(0, True), (3_600_000, True), (3_600_001, False)])
def test_recovery_that_an_election_ended_is_a_violation_for_an_hour(ago_ms: int, fires: bool) -> None:
    assert finding_lines(elected_recovered(ago_ms)) == [f"critical {RULE}: topic orders"] * fires


def test_recovery_that_an_election_ended_is_listed_with_both_leaders_and_its_offset() -> None:
    (finding,) = findings(elected_recovered(0), RULE)
    problem = "counts as recovered because broker 101 was elected: no replica recovered"
    assert finding.summary == f"1 partition of topic orders violates KIP-704 during recovery. Partition 0 {problem}."
    assert finding.evidence["topic_id"] == TOPIC
    assert finding.evidence["partitions"] == [
        {"partition": 0, "violation": problem, "leader": 101, "previous_leader": 102, "ended_at_offset": 9_700}
    ]


def test_a_partition_with_two_violations_is_one_partition() -> None:
    (one,) = recovering(healthy(), 0, isr=(102, 101)).recovering
    (finding,) = findings(replace(healthy(), recovering=(replace(one, elected=False),)), "recovery-invariant-broken")

    assert finding.summary.startswith("1 partition of topic orders violates KIP-704 during recovery. Partition 0 is ")
    partitions = finding.evidence["partitions"]
    assert isinstance(partitions, list)
    assert len(partitions) == 2
