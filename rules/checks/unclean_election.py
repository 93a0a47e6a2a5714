"""A partition's leader was elected from outside its in-sync replicas.

What it means
    No replica in the ISR or ELR (KIP-966) was available, and another replica was made leader: because of
    unclean.leader.election.enable, by hand, or because it had led last. The partition serves clients again.

    One alert for each topic:

    - Critical: a replica was elected that was neither in sync nor eligible. Records that only the other replicas had
      acknowledged may be lost, for good once those replicas have started.
    - Warning: the replica that led last was elected, after all brokers that hold the partition crashed, for example by
      a power loss. It has every acknowledged record that it had flushed to disk. With ELR (KIP-966) a broker that
      crashed leaves the ELR when it starts; if no other replica is eligible, Kafka elects the last leader.
    - Info: the same for a topic with one replica, for example after its broker was killed and started.

    `partition-stuck-recovering` reports partitions that do not recover afterwards. A snapshot records no elections.

What to do
    1. Copy the directories that the alert names before their broker starts: it truncates them to the new leader's log.
       One that is missing there: copy it from each other replica that is down, before its broker starts.
    2. Find out whether the election was intended: who ran it, or which topic or broker allows it.
    3. Inform the owner of the topic that acknowledged records may be lost.
    4. If the last leader was elected: find out why its broker crashed. A killed process loses nothing that it had
       written; a host that lost power loses what was not flushed; on a new disk all records are lost, which is critical
       and `broker-disk-replaced` reports.

What not to do
    Do not treat this as the end of an outage: first check that the partitions recover.
"""

from collections.abc import Iterable
from functools import partial

from rules.claims.statement import statement
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Draft, Finding, RuleResult, Severity, Thresholds, hold, keep_firing_for
from rules.formatting import and_join, numbered, plural, topic_text, utc_text
from rules.model.history import UncleanElections
from rules.model.identifiers import TopicId
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_topic
from rules.remedies.start_conditions import copy_sentence, restored_sentence, unflushed_sentence
from rules.rule import Rule

KEEP_FIRING_FOR = keep_firing_for(600.0, "an unclean election, or after it was read if that was later")


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult | Draft]:
    """Returns one finding for each topic with a recent unclean election."""
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms
    if newest is None:
        return
    worst: dict[TopicId, UncleanElections] = {}
    for election in sorted(
        quorum.history.unclean,
        key=lambda each: (_severity(each, restored=_restored(facts, each)).rank, each.last_timestamp_ms),
    ):
        # Of an election during a gap in the observations people learn when the log is read again.
        if newest - max(election.last_timestamp_ms, election.read_timestamp_ms or 0) <= thresholds.ms(
            KEEP_FIRING_FOR.name
        ):
            worst[election.topic_id] = election
    for election in sorted(worst.values(), key=lambda each: (each.topic or "", each.topic_id)):
        severity = _severity(election, restored=_restored(facts, election))
        subject = Subject("topic", topic_text(election.topic, election.topic_id))
        yield Draft(subject=subject, severity=severity, make=partial(_finding, facts, subject, severity, election))


def _finding(facts: Facts, subject: Subject, severity: Severity, one: UncleanElections) -> Finding:
    name = topic_text(one.topic, one.topic_id)
    return Finding(
        subject=subject,
        severity=severity,
        summary=statement(
            f"{plural(one.elections, 'unclean leader election')} for topic {name}, the newest at "
            f"{utc_text(one.last_timestamp_ms)}. ",
            _loss(facts, one),
        ),
        evidence={
            "topic": one.topic,
            "topic_id": one.topic_id,
            "elections": one.elections,
            "elections_of_the_last_leader": one.last_leaders,
            "partitions": [*one.partitions],
            "partitions_recovering_now": facts.recovering_topics[one.topic_id],
            "elected": [*one.leaders],
            "in_sync_before_and_not_elected": [*one.passed_over],
            "first": utc_text(one.first_timestamp_ms),
            "newest_offset": one.last_offset,
        },
        starts=(*one.passed_over, *(node for node in one.others if node in facts.only_copies)),
        remedy=_remedy(facts, one),
    )


def _only_last_leaders(one: UncleanElections) -> bool:
    """Returns whether no other replica's records can be lost."""
    return one.last_leaders == one.elections and bool(one.leaders)


def _restored(facts: Facts, one: UncleanElections) -> bool:
    """Returns whether the log directories without which the last leaders were elected are back, with their records."""
    return (
        bool(one.leaders)
        and not one.passed_over
        and all(facts.emptied.restored(leader, one.topic_id) is not None for leader in one.leaders)
    )


def _severity(one: UncleanElections, *, restored: bool) -> Severity:
    if not _only_last_leaders(one) and not restored:
        return Severity.CRITICAL
    return Severity.INFO if one.most_replicas == 1 else Severity.WARNING


def _loss(facts: Facts, one: UncleanElections) -> str:
    if _restored(facts, one):
        return restored_sentence(one.leaders)
    if _only_last_leaders(one):
        return unflushed_sentence(one.leaders, only_replica=one.most_replicas == 1)
    passed_over = and_join(one.passed_over, 6) if one.passed_over else "unknown"
    brokers = "No broker was" if not one.leaders else f"Broker {one.leaders[0]} was"
    if len(one.leaders) > 1:
        brokers = f"Brokers {and_join(one.leaders, 6)} were"
    emptied = [
        replicas
        for replicas in facts.quorum.history.emptied
        if replicas.topic_id == one.topic_id and replicas.broker in one.leaders
    ]
    copies = copy_sentence(
        facts, (*one.passed_over, *one.others, *(node for replicas in emptied for node in replicas.others))
    )
    if emptied and not one.passed_over:
        without = numbered("Broker", sorted({replicas.broker for replicas in emptied}), 6)
        returned = not any(replicas in facts.emptied.lasting for replicas in emptied)
        lost = "it is back, but another replica may have led since: records may be lost" if returned else "all records"
        may = "" if returned else " may be lost"
        return statement(f"{without} led last, and came back without the log directory: {lost}{may}.", copies)
    elected = f"{brokers} elected; in sync before and not elected: {passed_over}. Acknowledged records may be lost."
    return statement(elected, copies)


def _remedy(facts: Facts, one: UncleanElections) -> tuple[str, ...]:
    check: tuple[str, ...] = ()
    if one.topic is not None:
        check = ("# Check the leader and the in-sync replicas now", describe_topic(facts, one.topic, one.leaders))
    if _restored(facts, one):
        return (
            "# Copy what clients wrote meanwhile from the directories that were kept aside when the former disk was "
            "mounted",
            *check,
        )
    if _only_last_leaders(one):
        brokers = f"broker{'' if len(one.leaders) == 1 else 's'} {and_join(one.leaders, 6)}"
        return (
            f"# Find out why {brokers} crashed: a killed process loses nothing that it had written, a host that "
            "lost power loses what was not flushed",
            f"# Check that {brokers} started with the same log.dirs: on a new disk all records are lost",
            *check,
        )
    return (
        "# Find out whether it was intended: an election by hand, or unclean.leader.election.enable of the "
        "topic or of a broker",
        *check,
        "# Inform the owner of the topic that acknowledged records may be lost",
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    recovering = sum(
        subject.name in (recovery.topic, topic_text(None, recovery.topic_id)) for recovery in facts.quorum.recovering
    )
    now = f"{plural(recovering, 'partition')} of it still RECOVERING" if recovering else "no partition of it RECOVERING"
    lost = "Records that were lost are not restored."
    if restored := facts.emptied.restored_of(subject.name):
        lost = restored_sentence(one.broker for one in restored)
    return f"No further unclean election of {subject}; {now}. {lost}"


RULE = Rule(
    title="Unclean leader election",
    resolved=_resolved,
    hold=hold(0.0, "the election has already happened"),
    further_thresholds=(KEEP_FIRING_FOR,),
    needs=(Need.CURRENT_LOG,),
    grouped_with=("partition-stuck-recovering",),
    without_leader=True,
    records_at_risk=True,
)
