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
        # The leader is offline, and stays the one in sync; with ELR (KIP-966) nobody is.
        recovering(healthy(), 0, leader=None, isr=(102,)),
        recovering(healthy(), 0, leader=None, isr=()),
    ],
    ids=["nothing recovers", "the leader alone", "the leader offline", "nobody in sync"],
)
def test_what_kafka_writes_is_no_breach(quorum: Quorum) -> None:
    assert findings(quorum, RULE) == []


@pytest.mark.kip("B009", "B040")
@pytest.mark.parametrize(
    ("leader", "isr"),
    [(102, (102, 101)), (None, (101, 102)), (102, (101,)), (102, ())],
    ids=["isr grew (B009)", "grew without a leader", "leader not in it (B040)", "leader, and nobody in sync"],
)
def test_an_isr_that_is_not_the_leader_alone_is_one(leader: int | None, isr: tuple[int, ...]) -> None:
    quorum = recovering(recovering(healthy(), 0, leader=leader, isr=isr), 1)
    (finding,) = findings(quorum, RULE)
    assert finding.subject == "topic orders"
    assert "1 partition of topic orders" in finding.summary


def test_a_topic_is_one_finding() -> None:
    quorum = recovering(healthy(), 0, 1, 2, isr=(102, 101))
    (finding,) = findings(quorum, RULE)
    assert finding.summary.startswith("3 partitions of topic orders")


def test_a_log_not_seen_for_long_cannot_be_judged() -> None:
    quorum = replace(recovering(healthy(), 0, isr=(102, 101)), log_seen_at_ms=Millis(NOW - 14_000))
    assert findings(quorum, RULE) == []
    assert (RULE, None) in unknown(quorum)
