"""A partition is RECOVERING and its in-sync replicas are not its leader alone.

What it means
    A partition whose leader was elected outside the in-sync replicas is RECOVERING (KIP-704), and until that ends its
    ISR is that leader alone: the leader admits nobody, and the controller refuses an ISR of more. The log shows
    another ISR. Kafka's own controllers do not write this: it is a fault, or the log was written by something else.

    Either a follower counts as in sync that does not have the leader's records, and may be elected as if it had; or the
    state is left over, and the partition only looks as if it had not recovered.

Evidence
    One alert a topic, with its partitions: leader, in-sync replicas, replicas, and since which record it is RECOVERING.

What to do
    1. Keep the leader running.
    2. Keep the dump of the metadata log around the offset named, and report it to Kafka.
    3. Compare the ends of the replicas' logs before you trust the ISR.

What not to do
    Do not stop the leader: only its log is known to be the partition's.

Thresholds
    hold (0 s): one committed record is enough. clear (10 s). seen_age (10 s): without the log the rule cannot tell.
"""

from collections.abc import Iterable
from itertools import groupby

from rules.finding import CannotTell, Finding, Rule, Severity, Thresholds, Verdict, clear, hold
from rules.quorum import Quorum, Recovery
from rules.remedy import describe_topic
from rules.sight import SEEN_AGE, catching_up
from rules.text import counted, listed, spelled

ID = "recovery-invariant-broken"
_SHOWN = 20
"""Partitions listed one by one; the rest is counted."""


def judge(quorum: Quorum, thresholds: Thresholds) -> Iterable[Verdict]:
    """One finding a topic that has partitions in RECOVERING whose ISR is not their leader alone."""
    behind = catching_up(ID, quorum)
    if behind is not None:
        yield behind
        return
    seen = quorum.log_seen_at_ms
    if seen is None or quorum.now_ms - seen > thresholds.ms(SEEN_AGE.name):
        ago = "never" if seen is None else f"{spelled(quorum.now_ms - seen)} ago"
        yield CannotTell(rule=ID, subject=None, why=f"the metadata log was last seen {ago}")
        return
    broken = sorted(
        (each for each in quorum.recovering if _broken(each)),
        key=lambda each: (_name(each), each.topic_id, each.partition),
    )
    for _, of_topic in groupby(broken, key=lambda each: each.topic_id):
        yield _finding(quorum, list(of_topic))


def _broken(recovery: Recovery) -> bool:
    """More than one in sync, or another than the leader. No leader, and nobody in sync (KIP-966), are legal."""
    return len(recovery.isr) > 1 or (recovery.leader is not None and recovery.isr != (recovery.leader,))


def _name(recovery: Recovery) -> str:
    return recovery.topic or f"with id {recovery.topic_id}"


def _finding(quorum: Quorum, broken: list[Recovery]) -> Finding:
    name = _name(broken[0])
    leaders = sorted({each.leader for each in broken if each.leader is not None})
    partition = f"partition {broken[0].partition}"
    steps = []
    if broken[0].topic is not None:
        steps.append(describe_topic(quorum, name, leaders))
    keep = f"broker {listed(leaders)}" if leaders else "the brokers that hold them"
    return Finding(
        rule=ID,
        subject=f"topic {name}",
        severity=Severity.CRITICAL,
        summary=f"{counted(len(broken), 'partition')} of topic {name} RECOVERING with in-sync replicas besides the "
        f"leader, which KIP-704 rules out: {partition} has ISR {listed(broken[0].isr, 6)}; a replica may count as in "
        "sync that lacks records",
        evidence={
            "topic": broken[0].topic,
            "topic_id": broken[0].topic_id,
            "partitions": [
                {
                    "partition": each.partition,
                    "leader": each.leader,
                    "isr": [*each.isr],
                    "replicas": [*each.replicas],
                    "since_offset": each.since_offset,
                }
                for each in broken[:_SHOWN]
            ],
            "partitions_not_listed": max(0, len(broken) - _SHOWN),
            "last_committed_offset": quorum.last_offset,
        },
        remedy=(
            *steps,
            f"# Keep {keep} running: only the leader's log is known to be the partition's",
            "# Dump the metadata log around these offsets and report the records to Kafka",
        ),
    )


RULE = Rule(
    id=ID,
    title="A RECOVERING partition has more than its leader in sync",
    text=__doc__ or "",
    thresholds=(hold(0.0), clear(), SEEN_AGE),
    judge=judge,
)
