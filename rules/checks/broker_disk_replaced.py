"""A broker came back with other log directories, and no other replica has all records of its partitions.

What it means
    A broker registers its log directories, and the log names the directory of each replica (KIP-858). This one started
    without a directory in which it led partitions, or had their only replica in sync. It has created their logs again
    in another directory: empty, unless their files were moved there. For the controller it is still the replica with
    every acknowledged record. So it leads the partitions, with or without ELR (KIP-966): clients go on as if nothing
    was missing, and each other replica that starts truncates its log to the empty one.

    The alert fires for an hour, and as long as a broker with another replica has not started since: its copy can still
    be saved. It resolves when the broker has registered the former directories again, or the topics are deleted.

    In a log without directories (before Kafka 3.7) this cannot be seen. Nor can what a snapshot does not record.

What to do
    1. Copy the directories that the alert names before their brokers start.
    2. If the files were moved to the new directory, nothing is lost: silence the alert.
    3. Stop the broker. If the former disk still exists, copy from it the partitions that other replicas lead: the
       broker truncates them. Then mount it, keep the directories aside that the broker created again (with both it
       ends at its start: "Duplicate log directories"), and start the broker.
    4. If it is lost, start the brokers of the other replicas while this one is stopped, and elect one of those, for
       these partitions alone, by an unclean election: only the records that it lacks are lost. After that, start this
       broker: it copies them, and leads its other partitions with all their records.
    5. Partitions without another replica are lost: restore the topic from a backup, or delete it and create it again.

What not to do
    Do not start a broker with another replica while this one runs: its copy is truncated. Do not wait for the
    partitions to come back by themselves: they do, without their records.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from rules.claims.statement import statement
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, hold
from rules.formatting import and_join, numbered, plural, topic_text, utc_text
from rules.model.history import EmptiedReplicas
from rules.model.identifiers import Millis, NodeId
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_log_dirs
from rules.remedies.start_conditions import copy_sentence
from rules.remedies.step import Act, Action, Ends, Plan, Step, does, starts
from rules.rule import Rule

_KEPT_MS: Final = Millis(3_600_000)
"""How long the alert fires after the broker reported its new directories, or after that was read if it was later;
longer while replicas are copied."""
_MAX_LISTED = 20
_MAX_NAMED = 3
_RESTORE = "# What no replica has, restore from a backup, or delete the topic and create it again"


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each broker that came back without a directory."""
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms
    if newest is None:
        return
    lasting = [
        replicas
        for replicas in facts.emptied.lasting
        if newest - max(replicas.timestamp_ms, replicas.read_timestamp_ms or 0) <= _KEPT_MS
        or _with_a_copy(facts, (replicas,))
    ]
    ordered = sorted(lasting, key=lambda one: (one.broker, one.topic or "", one.topic_id))
    for broker, of_broker in groupby(ordered, key=lambda one: one.broker):
        yield _finding(facts, broker, tuple(of_broker))


def _with_a_copy(facts: Facts, emptied: Iterable[EmptiedReplicas]) -> list[NodeId]:
    """Returns the brokers of other replicas that have not started since."""
    held = facts.only_copies
    found = {
        node
        for replicas in emptied
        for node in replicas.others
        if any(directory.topic == (replicas.topic or replicas.topic_id) for directory in held.get(node, ()))
    }
    return sorted(found)


def _finding(facts: Facts, broker: NodeId, emptied: tuple[EmptiedReplicas, ...]) -> Finding:
    count, copies = sum(replicas.partitions for replicas in emptied), _with_a_copy(facts, emptied)
    lost = sorted({directory for replicas in emptied for directory in replicas.lost})
    names = [
        f"{topic_text(replicas.topic, replicas.topic_id)}-{number}"
        for replicas in emptied
        for number in replicas.numbers
    ]
    more = count - len(names[:_MAX_NAMED])
    shown = [*names[:_MAX_NAMED], *([f"{more} more"] if more else [])]
    them = "it" if count == 1 else "them"
    return Finding(
        subject=Subject("broker", broker),
        severity=Severity.CRITICAL,
        summary=statement(
            f"Broker {broker} came back without {_directories(len(lost))} of {plural(count, 'partition')} of which "
            f"it is the leader or the only in-sync replica: {and_join(shown, 4)}. It created {them} in another "
            f"directory at {utc_text(max(replicas.timestamp_ms for replicas in emptied))}, empty unless the files were "
            f"moved there, and leads {them} as soon as it can.",
            copy_sentence(facts, copies),
        ),
        evidence={
            "broker": broker,
            "partitions": count,
            "examples": [*names[:_MAX_LISTED]],
            "examples_not_listed": max(0, count - len(names[:_MAX_LISTED])),
            "former_log_directories": [*lost],
            "log_directories": [*sorted({directory for replicas in emptied for directory in replicas.directories})],
            "other_replicas": [*sorted({node for replicas in emptied for node in replicas.others})],
            "other_replicas_not_started_since": [*copies],
            "registered_at_offset": max(replicas.registered_offset for replicas in emptied),
        },
        remedy=tuple(_remedy(facts, broker, emptied, lost, copies)),
        starts=tuple(node for replicas in emptied for node in replicas.others),
    )


def _directories(count: int) -> str:
    return "the log directory" if count == 1 else f"{count} log directories"


def _remedy(
    facts: Facts, broker: NodeId, emptied: tuple[EmptiedReplicas, ...], lost: Sequence[str], copies: Sequence[NodeId]
) -> Iterator[str]:
    why = "a replica that follows its empty log truncates its own, and clients write to it"
    others = sorted({node for replicas in emptied for node in replicas.others})
    follow = [node for node in others if node in facts.quorum.brokers and facts.quorum.brokers[node].alive]
    stop = (Act.STOP, (broker,))
    if broker in facts.quorum.brokers and facts.quorum.brokers[broker].alive:
        yield f"# Check the size of these partitions on broker {broker}: those that are not empty were moved, or copied"
        yield describe_log_dirs(facts, broker)
        if follow and not copies:
            yield does(
                f"# Otherwise, if the former disk exists, stop {numbered('broker', follow)} first and broker {broker} "
                f"after that: another replica in the ISR would lead with its truncated log, and broker {broker} would "
                "truncate the records on the disk",
                (Act.STOP, (*follow, broker)),
            )
        else:
            yield does(f"# Otherwise stop broker {broker}: {why}", stop)
    elif broker not in facts.records_awaited and _overtaken(facts, broker, emptied):
        yield f"# Another replica is the one in sync: broker {broker} copies what that one has when it starts"
        yield (
            "# What that one lacks is on the former disk, if it exists: copy it from there, and do not mount it, "
            f"because broker {broker} truncates it"
        )
        yield _RESTORE
        return
    else:
        yield does(f"# Unless the files were moved, stop broker {broker} or leave it stopped: {why}", stop)
    yield Step(
        f"# If the former disk exists, copy from it what other replicas lead before you mount it: broker {broker} "
        "truncates that when it starts, also records of former incidents that no other replica has",
        Plan(forbids=(Action(Act.RECOVER, broker),), until=(Action(Act.COPY, broker),), ends=Ends.RECORDS),
    )
    ids = f"directory.id {lost[0]} is" if len(lost) == 1 else f"directory.id {and_join(lost, 4)} are"
    yield does(
        f"# Then mount it as it was ({ids} in its meta.properties), and keep aside the "
        f"directories of these partitions that broker {broker} has created again: it does not start with both "
        '("Duplicate log directories"), and what clients wrote meanwhile is only there',
        (Act.RECOVER, (broker,)),
    )
    yield starts(f"# Then start broker {broker}, and the brokers of other replicas after it", broker)
    elect = "with kafka-leader-election.sh --election-type unclean: acknowledged records that it lacks are lost"
    recovers, of_them = (Act.RECOVER, (broker,)), "of these partitions, and of no other,"
    if copies:
        yield does(
            f"# If the disk is lost, start {numbered('broker', copies)} while broker {broker} is stopped, then elect "
            f"another replica {of_them} {elect}",
            (Act.START, copies),
            recovers,
        )
    elif others:
        yield does(
            f"# If the disk is lost, check the size on {numbered('broker', others)} too: while broker {broker} is "
            f"stopped, a replica {of_them} that is not empty can be elected {elect}",
            recovers,
        )
    if others:
        yield starts(f"# Start broker {broker} when another replica leads them: it copies what that one has", broker)
    yield _RESTORE


def _overtaken(facts: Facts, broker: NodeId, emptied: Iterable[EmptiedReplicas]) -> bool:
    """Returns whether another replica leads one of the partitions, or will: it has followed the empty log."""
    awaited = {one.text for one in facts.records_awaited.get(broker, ())}
    return any(
        f"{topic_text(replicas.topic, replicas.topic_id)}-{number}" not in awaited
        for replicas in emptied
        if replicas.others
        for number in replicas.numbers
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    quorum = facts.quorum
    lost = {
        directory
        for replicas in quorum.history.emptied
        if replicas.broker == subject.node
        for directory in replicas.lost
    }
    if lost and subject.node in quorum.brokers and lost <= {*quorum.brokers[subject.node].log_dirs}:
        back = f"Broker {subject.node} has registered its former log directories again"
        restored = all(
            facts.emptied.restored(one.broker, one.topic_id)
            for one in quorum.history.emptied
            if one.broker == subject.node
        )
        if restored:
            return f"{back}, with what was acknowledged before. Records that clients wrote meanwhile are not in them."
        return f"{back}. Another replica may have led since: records that it lacks may be lost."
    return f"Broker {subject.node} has lost no further log directory. Records that were lost are not restored."


RULE = Rule(
    title="A broker came back without its disk",
    resolved=_resolved,
    hold=hold(0.0, "the broker leads the partitions as soon as it can, and others truncate"),
    needs=(Need.CURRENT_LOG,),
    grouped_with=(
        *("partitions-offline", "broker-fenced", "log-directory-offline"),
        *("unclean-election", "partition-stuck-recovering"),
    ),
    without_leader=True,
)
