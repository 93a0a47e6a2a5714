"""A partition's recovery is not as KIP-704 has it: who is in sync meanwhile, how it began, or how it ended.

What it means
    A partition whose leader was elected outside the in-sync replicas is RECOVERING (KIP-704), and until that ends its
    ISR is that leader alone: the leader admits nobody, and the controller refuses an ISR of more. Only an unclean
    election begins it, only the leader itself ends it. The log shows otherwise. Kafka's own controllers do not write
    this: it is a fault, or the log was written by something else.

    - An ISR of others than the leader: a follower counts as in sync that does not have the leader's records, and may be
      elected as if it had; or the state is left over, and the partition only looks as if it had not recovered.
    - Begun without another leader: nobody was elected, so nothing tells what is being recovered from.
    - Ended by the record of an election: the new leader counts as recovered, and nobody recovered.

Evidence
    One alert a topic, with its partitions: what is wrong, leader, in-sync replicas, replicas, and which record it is.

What to do
    1. Keep the leader running.
    2. Keep the dump of the metadata log around the offset named, and report it to Kafka.
    3. Compare the ends of the replicas' logs before you trust the ISR.

What not to do
    Do not stop the leader: only its log is known to be the partition's.

Thresholds
    hold (0 s): one committed record is enough. clear (10 s). told_for (1 h): for how long an end by an election is
    told, by the log's own time. seen_age (10 s): without the log the rule cannot tell.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from rules.analysis.freshness import SEEN_AGE
from rules.analysis.log_freshness import unread
from rules.finding import Finding, Plain, Rule, RuleResult, Severity, Threshold, Thresholds, clear, hold
from rules.formatting import counted, listed
from rules.model.history import ElectedRecovered, Recovery
from rules.model.identifiers import NodeId, Offset, TopicId
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_topic

ID = "recovery-invariant-broken"
TOLD_FOR = Threshold(
    name="told_for",
    default=3_600.0,
    unit="s",
    meaning="for how long after it the end of a recovery by an election is told, by the log's own time",
)
_SHOWN = 20
"""Partitions listed one by one; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Breach:
    """What is wrong with one partition."""

    topic_id: TopicId
    topic: str | None
    partition: int
    what: str
    leader: NodeId | None
    offset: Offset
    more: dict[str, Plain]


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a topic with partitions whose recovery breaks a promise of KIP-704."""
    hindrance = unread(ID, quorum, thresholds)
    if hindrance is not None:
        yield hindrance
        return
    breaches = [
        *(breach for each in quorum.recovering for breach in _meanwhile(each)),
        *(
            _at_the_end(each)
            for each in quorum.past.elected_recovered
            if (quorum.newest_timestamp_ms or 0) - each.timestamp_ms <= thresholds.ms(TOLD_FOR.name)
        ),
    ]
    breaches.sort(key=lambda each: (_name(each), each.topic_id, each.partition, each.offset))
    for _, of_topic in groupby(breaches, key=lambda each: each.topic_id):
        yield _finding(quorum, list(of_topic))


def _meanwhile(recovery: Recovery) -> Iterator[_Breach]:
    """More than one in sync, or another than the leader; no leader, and nobody in sync (KIP-966), are legal."""
    if len(recovery.isr) > 1 or (recovery.leader is not None and recovery.isr != (recovery.leader,)):
        isr = listed(recovery.isr, 6) if recovery.isr else "nobody"
        leader = "no leader" if recovery.leader is None else f"leader {recovery.leader}"
        yield _of(
            recovery, f"is RECOVERING with {leader} and ISR {isr}: a replica may count as in sync that lacks records"
        )
    if recovery.elected is False:
        yield _of(recovery, "is RECOVERING since a record that elected nobody: nothing tells what from")


def _of(recovery: Recovery, what: str) -> _Breach:
    return _Breach(
        topic_id=recovery.topic_id,
        topic=recovery.topic,
        partition=recovery.partition,
        what=what,
        leader=recovery.leader,
        offset=recovery.since_offset,
        more={"isr": [*recovery.isr], "replicas": [*recovery.replicas], "since_offset": recovery.since_offset},
    )


def _at_the_end(one: ElectedRecovered) -> _Breach:
    return _Breach(
        topic_id=one.topic_id,
        topic=one.topic,
        partition=one.partition,
        what=f"counts as recovered by the mere election of broker {one.leader}: nobody recovered",
        leader=one.leader,
        offset=one.offset,
        more={"previous_leader": one.previous_leader, "ended_at_offset": one.offset},
    )


def _name(breach: _Breach) -> str:
    return breach.topic or f"with id {breach.topic_id}"


def _finding(quorum: Quorum, breaches: list[_Breach]) -> Finding:
    first, name = breaches[0], _name(breaches[0])
    leaders = sorted({each.leader for each in breaches if each.leader is not None})
    partitions = len({each.partition for each in breaches})
    keep = f"broker {listed(leaders)}" if leaders else "the brokers that hold them"
    return Finding(
        rule=ID,
        subject=f"topic {name}",
        severity=Severity.CRITICAL,
        summary=f"{counted(partitions, 'partition')} of topic {name} with a recovery that KIP-704 rules out: partition "
        f"{first.partition} {first.what}",
        evidence={
            "topic": first.topic,
            "topic_id": first.topic_id,
            "partitions": [
                {"partition": each.partition, "breach": each.what, "leader": each.leader, **each.more}
                for each in breaches[:_SHOWN]
            ],
            "partitions_not_listed": max(0, len(breaches) - _SHOWN),
            "last_committed_offset": quorum.last_offset,
        },
        remedy=(
            *((describe_topic(quorum, name, leaders),) if first.topic is not None else ()),
            f"# Keep {keep} running: only the leader's log is known to be the partition's",
            "# Dump the metadata log around these offsets and report the records to Kafka",
        ),
    )


RULE = Rule(
    id=ID,
    title="A partition's recovery breaks what KIP-704 promises",
    text=__doc__ or "",
    thresholds=(hold(0.0), clear(), TOLD_FOR, SEEN_AGE),
    evaluate=evaluate,
)
