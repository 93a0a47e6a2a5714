from dataclasses import replace

import pytest

from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from tests.unit.rules.situation import NOW, findings, healthy, recovering, unknown

RULE = "recovery-invariant-broken"


@pytest.mark.kip("B046")
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


@pytest.mark.kip("B009", "B040")
@pytest.mark.parametrize(
    ("leader", "isr"),
    [(102, (102, 101)), (None, (101, 102)), (102, (101,)), (102, ())],
    ids=["ISR grew (B009)", "ISR grew without a leader", "leader not in ISR (B040)", "leader and empty ISR"],
)
def test_isr_other_than_the_leader_alone_is_a_violation(leader: int | None, isr: tuple[int, ...]) -> None:
    quorum = recovering(recovering(healthy(), 0, leader=leader, isr=isr), 1)
    (finding,) = findings(quorum, RULE)
    assert finding.subject == "topic orders"
    assert "1 partition of topic orders" in finding.summary


def test_partitions_of_one_topic_are_one_finding() -> None:
    quorum = recovering(healthy(), 0, 1, 2, isr=(102, 101))
    (finding,) = findings(quorum, RULE)
    assert finding.summary.startswith("3 partitions of topic orders")


def test_result_is_unknown_if_the_log_was_not_read_recently() -> None:
    quorum = replace(recovering(healthy(), 0, isr=(102, 101)), log_seen_at_ms=Millis(NOW - 14_000))
    assert findings(quorum, RULE) == []
    assert (RULE, None) in unknown(quorum)
