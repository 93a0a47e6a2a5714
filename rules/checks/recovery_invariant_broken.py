"""A partition's recovery violates KIP-704: its ISR, its beginning or its end is not allowed.

What it means
    A partition whose leader was elected outside the in-sync replicas is RECOVERING (KIP-704). Until the recovery ends,
    its ISR is the leader alone: the leader adds no replica, and the controller refuses a larger ISR. Only an unclean
    election begins a recovery, and only the leader ends it. The log shows something else. Kafka's controllers do not
    write this: it is a bug, or another program wrote to the log. If the log holds it, controllers and brokers apply it
    without a check.

    - The ISR holds another replica than the leader: a follower counts as in sync without the leader's records and may
      be elected leader; or the state is left over, and the partition only appears not to have recovered.
    - The recovery began without an election: the log does not show what the partition recovers from.
    - The record of an election ended the recovery: the new leader counts as recovered, and no replica recovered.

What to do
    1. Keep the leader running. If the alert says so, copy the named directories before their broker starts.
    2. Save a dump of the metadata log around the named offset and report it to the Kafka project.
    3. Compare the log end offsets of the replicas before you trust the ISR.

What not to do
    Do not stop the leader: only its log is known to be the partition's.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, Plain, RuleResult, Severity, Thresholds, hold
from rules.formatting import and_join, numbered, plural, topic_text
from rules.model.history import ElectedRecovered, Recovery
from rules.model.identifiers import Millis
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_topic
from rules.remedies.step import Act, Action, Ends, Plan, Step
from rules.rule import Rule

_KEPT_MS: Final = Millis(3_600_000)
"""How long the alert fires after an election ended a recovery, by the timestamps in the log."""
_MAX_LISTED = 20
"""How many partitions are listed; the rest is counted."""


class _RecoveryViolation(NamedTuple):
    of: Recovery | ElectedRecovered
    problem: str


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each topic with partitions whose recovery violates KIP-704."""
    quorum = facts.quorum
    violations = [
        *(violation for recovery in quorum.recovering for violation in _while_recovering(recovery)),
        *(
            _RecoveryViolation(
                election, f"counts as recovered because broker {election.leader} was elected: no replica recovered"
            )
            for election in quorum.history.elected_recovered
            if (quorum.newest_timestamp_ms or 0) - election.timestamp_ms <= _KEPT_MS
        ),
    ]
    violations.sort(key=_topic_partition_and_offset)
    for _, of_topic in groupby(violations, key=lambda each: each.of.topic_id):
        yield _finding(facts, list(of_topic))


def _topic_partition_and_offset(violation: _RecoveryViolation) -> tuple[str, str, int, int]:
    one = violation.of
    offset = one.since_offset if isinstance(one, Recovery) else one.offset
    return (topic_text(one.topic, one.topic_id), one.topic_id, one.partition, offset)


def _while_recovering(recovery: Recovery) -> Iterator[_RecoveryViolation]:
    """Returns the violations of a recovery in progress. No leader, and an empty ISR (KIP-966), are allowed."""
    if len(recovery.isr) > 1 or (recovery.leader is not None and recovery.isr != (recovery.leader,)):
        isr = and_join(recovery.isr, 6) if recovery.isr else "empty"
        leader = "no leader" if recovery.leader is None else f"leader {recovery.leader}"
        yield _RecoveryViolation(
            recovery, f"is RECOVERING with {leader} and ISR {isr}: a replica that lacks records may count as in sync"
        )
    if recovery.elected is False:
        yield _RecoveryViolation(recovery, "is RECOVERING since a record that elected no leader")


def _finding(facts: Facts, violations: list[_RecoveryViolation]) -> Finding:
    quorum = facts.quorum
    first = violations[0].of
    name = topic_text(first.topic, first.topic_id)
    leaders = sorted({violation.of.leader for violation in violations if violation.of.leader is not None})
    partitions = len({violation.of.partition for violation in violations})
    replicas = {
        node for recovery in quorum.recovering if recovery.topic_id == first.topic_id for node in recovery.replicas
    }
    return Finding(
        subject=Subject("topic", name),
        severity=Severity.CRITICAL,
        summary=f"{plural(partitions, 'partition')} of topic {name} violate{'s' * (partitions == 1)} KIP-704 during "
        f"recovery. Partition {first.partition} {violations[0].problem}.",
        evidence={
            "topic": first.topic,
            "topic_id": first.topic_id,
            "partitions": [_evidence(violation) for violation in violations[:_MAX_LISTED]],
            "partitions_not_listed": max(0, len(violations) - _MAX_LISTED),
            "last_committed_offset": quorum.last_offset,
        },
        starts=tuple(sorted(replicas - {*leaders})),
        remedy=(
            *((describe_topic(facts, name, leaders),) if first.topic is not None else ()),
            _keep_running(facts, violations),
            "# Save a dump of the metadata log around these offsets and report them to the Kafka project",
        ),
    )


def _keep_running(facts: Facts, violations: list[_RecoveryViolation]) -> Step:
    """Returns the step that keeps the leaders running which no other alert wants stopped first."""
    leaders = sorted({one.of.leader for one in violations if one.of.leader is not None} - facts.to_be_stopped)
    # Where an election ended the recovery, no replica joins that shows the end: its leader is kept for good.
    lasting = {one.of.leader for one in violations if not isinstance(one.of, Recovery)}
    until = tuple(Action(Act.JOIN, leader) for leader in leaders if leader not in lasting)
    keep = numbered("broker", leaders) if leaders else "the brokers that hold them"
    text = f"# Keep {keep} running: only the leader's log is known to be the partition's"
    stop = tuple(Action(Act.STOP, leader) for leader in leaders)
    return Step(text, Plan(forbids=stop, until=until, ends=Ends.RECORDS))


def _evidence(violation: _RecoveryViolation) -> dict[str, Plain]:
    one = violation.of
    evidence: dict[str, Plain] = {"partition": one.partition, "violation": violation.problem, "leader": one.leader}
    if isinstance(one, Recovery):
        return {**evidence, "isr": [*one.isr], "replicas": [*one.replicas], "since_offset": one.since_offset}
    return {**evidence, "previous_leader": one.previous_leader, "ended_at_offset": one.offset}


def _resolved(facts: Facts, subject: Subject) -> str:
    return f"No partition of {subject} violates KIP-704 during recovery."


RULE = Rule(
    title="A partition's recovery violates KIP-704",
    resolved=_resolved,
    hold=hold(0.0, "one committed record is enough"),
    needs=(Need.CURRENT_LOG, Need.RECOVERY_STATE),
    without_leader=True,
    records_at_risk=True,
)
