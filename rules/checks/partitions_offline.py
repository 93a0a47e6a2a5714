"""Partitions are offline: no live broker leads them.

What it means
    No client can write to these partitions or read from them. Other partitions, also of the same topics, are served.
    Only a replica with every acknowledged record may become the leader: one in the ISR or the ELR (KIP-966), or the one
    that led last. All of those are unavailable. Nothing is lost yet: once one is available, it leads within a second.

    There is one alert for each broker that has to come back, because of what is wrong with it:

    - It is fenced: its process is down, cut off from the controllers, or still starting.
    - It is alive, but the log directory with these partitions is offline (KIP-858): the disk failed, is full, or is not
      mounted. The broker serves its other directories.
    - Its node was broker and controller, and runs as a controller only now: no process serves its replicas.
    - It is not registered: it was unregistered although it had the last replica.
    - It is recorded as their leader although it is fenced or not registered: the active controller should have elected
      another replica then.

    A further alert is about partitions for which Kafka elects no leader by itself: the log names no replica that has
    every acknowledged record, for example because a change of min.insync.replicas cleared the ELR.

What to do
    1. Bring the broker or the directory back. Nothing else keeps every record.
    2. Of a directory, read in the broker's server.log why it is offline ("Stopping serving logs in dir"). Repair or
       mount the disk with its content, then restart the broker: it uses a failed directory only after a restart.
    3. If it will not come back, copy what is left of the disk first. Partitions with another replica can then be led
       again by an unclean election, which loses the records that this replica lacks.
    4. Partitions without another replica are lost: restore the topic from a backup, or delete it and create it again.

What not to do
    Do not start the broker with an empty disk while the records are needed: it then leads these partitions, which are
    empty, and clients go on as if nothing was missing (`broker-disk-replaced`). Do not unregister the broker either.
"""

from collections.abc import Iterable, Iterator

from rules.facts.emptied import is_emptied
from rules.facts.needs import Need
from rules.facts.offline_partitions import Cause, named, named_ones
from rules.facts.quorum import Facts
from rules.finding import Finding, FindingFacts, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import numbered, plural, utc_text
from rules.model.history import NodeKind, PartitionSum
from rules.model.identifiers import DirectoryId, Millis, NodeId, ReplicaKey
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_partitions, directory_steps, register_again
from rules.remedies.start_conditions import start_as_broker
from rules.remedies.step import restarts, starts
from rules.rule import Rule

RESTART = Threshold(
    name="restart",
    default=300.0,
    meaning="how long partitions may be offline whose broker left by a controlled shutdown, instead of `hold`: each "
    "step of a rolling restart takes partitions with one replica offline, and is finished by then",
)
NO_REPLICA = Subject("partitions without an eligible replica")
"""The subject of the finding that is about no broker."""
_ELECT = (
    "Elect another replica with kafka-leader-election.sh --election-type unclean: acknowledged records that it lacks "
    "are lost"
)
_MAX_LISTED = 20


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each broker that holds the replicas which may lead offline partitions."""
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms
    if newest is None:
        if quorum.offline:
            yield UnknownResult(why="no timestamp of the metadata log has been read")
        return
    of_broker: dict[NodeId | None, list[tuple[Cause, ReplicaKey | None, PartitionSum]]] = {}
    for partition in facts.offline:
        cause, holder = facts.awaited(partition)
        of_broker.setdefault(None if holder is None else holder.id, []).append((cause, holder, partition))
    for led in _led(facts, newest):
        of_broker.setdefault(led[1].id, []).append(led)
    for broker, sums in sorted(of_broker.items(), key=lambda item: -1 if item[0] is None else item[0]):
        yield _finding(facts, broker, sums, newest, thresholds)


def _led(facts: Facts, newest: Millis) -> Iterator[tuple[Cause, ReplicaKey, PartitionSum]]:
    """Yields the partitions of which a broker is recorded as the leader that is fenced or not registered."""
    quorum = facts.quorum
    gone = {
        unregistration.id: unregistration.timestamp_ms
        for unregistration in quorum.history.unregistrations
        if unregistration.kind is NodeKind.BROKER
    }
    since = {**facts.fenced_ms, **gone}
    for node, of_broker in quorum.brokers_down.items():
        if of_broker.leads and (node not in quorum.brokers or quorum.brokers[node].fenced):
            key = ReplicaKey(id=node)
            yield (
                Cause.LEADER,
                key,
                PartitionSum(
                    holders=(key,),
                    partitions=of_broker.leads,
                    since_timestamp_ms=since.get(node, newest),
                    at_least=node not in since,
                    examples=of_broker.examples,
                ),
            )


def _finding(
    facts: Facts,
    broker: NodeId | None,
    sums: list[tuple[Cause, ReplicaKey | None, PartitionSum]],
    newest: Millis,
    thresholds: Thresholds,
) -> Finding:
    count = sum(partition.partitions for _, _, partition in sums)
    first = min((partition for _, _, partition in sums), key=lambda one: one.since_timestamp_ms)
    examples = [example for _, _, partition in sums for example in partition.examples]
    directories = sorted(
        {holder.directory_id for _, holder, _ in sums if holder is not None and holder.directory_id is not None}
    )
    cause, left = sums[0][0], broker in facts.left_in_order
    failed = () if broker is None or cause not in (Cause.FENCED, Cause.LEADER) else (broker,)
    since = f"{'before ' if first.at_least else ''}{utc_text(first.since_timestamp_ms)}"
    return Finding(
        subject=NO_REPLICA if broker is None else Subject("broker", broker),
        severity=Severity.CRITICAL,
        summary=f"{plural(count, 'partition')} {'is' if count == 1 else 'are'} offline: "
        f"{_why(facts, cause, broker, directories, left=left)}. No client is served there since {since}: "
        f"{named_ones(examples, count)}.",
        evidence={
            "partitions_offline": count,
            "since": since,
            "partitions": [named(example) for example in examples[:_MAX_LISTED]],
            "partitions_not_listed": max(0, count - len(examples[:_MAX_LISTED])),
            "broker": broker,
            **({"failed_nodes": [*failed]} if failed else {}),
            "log_directories": [*directories],
        },
        remedy=tuple(_remedy(facts, cause, broker, sums)),
        facts=FindingFacts(failed_nodes=failed),
        condition_age_ms=Millis(max(0, newest - first.since_timestamp_ms)),
        hold_ms=thresholds.ms(RESTART.name) if cause is Cause.FENCED and left else None,
    )


def _why(facts: Facts, cause: Cause, broker: NodeId | None, directories: list[DirectoryId], *, left: bool) -> str:
    match cause:
        case Cause.CONTROLLER_ONLY:
            assert broker is not None
            return f"node {broker}, which has the last replica, {facts.controllers_only[broker]}"
        case Cause.FENCED:
            return f"broker {broker} {'left by a controlled shutdown' if left else 'is fenced'}"
        case Cause.DIRECTORY:
            which = "a log directory" if len(directories) == 1 else f"{len(directories)} log directories"
            return f"{which} of broker {broker} {'is' if len(directories) == 1 else 'are'} offline"
        case Cause.UNREGISTERED:
            return f"broker {broker}, which has the last replica, is not registered"
        case Cause.LEADER:
            how = "fenced" if broker in facts.quorum.brokers else "not registered"
            return f"broker {broker}, which is recorded as the leader, is {how}"
        case Cause.NOT_LEADING:
            return "no replica is known to have every acknowledged record"


def _remedy(
    facts: Facts, cause: Cause, broker: NodeId | None, sums: list[tuple[Cause, ReplicaKey | None, PartitionSum]]
) -> Iterator[str]:
    if any(broker.alive for broker in facts.quorum.brokers.values()):
        yield describe_partitions(facts, "unavailable")
    match cause:
        case Cause.LEADER:
            assert broker is not None
            check = "or check in its log why its heartbeats fail"
            yield starts(f"# Start broker {broker} with its own disks, {check}", broker)
            yield "# Read in the log of the active controller why it elected no other leader when the broker was fenced"
            return
        case Cause.FENCED:
            assert broker is not None
            check = "or check in its log why its heartbeats to the active controller fail"
            yield starts(f"# Start broker {broker}, {check}", broker)
        case Cause.CONTROLLER_ONLY:
            assert broker is not None
            yield restarts(f"# {start_as_broker(broker).capitalize()}", broker)
            yield f"# Then move its replicas to other brokers before node {broker} becomes a controller only again"
        case Cause.DIRECTORY:
            assert broker is not None
            yield from directory_steps(facts, broker)
        case Cause.UNREGISTERED:
            assert broker is not None
            yield register_again(facts, broker)
        case Cause.NOT_LEADING:
            emptied = {key.id for _, _, one in sums for key in one.holders if is_emptied(facts.emptied, one, key)}
            if emptied:
                yield (
                    f"# If the former disk of {numbered('broker', sorted(emptied))} can be mounted, do that first: the "
                    "alert broker-disk-replaced says how"
                )
            yield "# Find the replica with the most records: compare the ends of its log on each broker that holds one"
            yield f"# {_ELECT}"
            return
    yield "# Only if it will not come back, copy what is left of its disk, and go on"
    yield f"# {_ELECT}"


def _resolved(facts: Facts, subject: Subject) -> str:
    count = sum(partition.partitions for partition in facts.quorum.offline)
    if subject == NO_REPLICA:
        now = "No partition lacks an eligible replica"
    else:
        now = f"No partition waits for broker {subject.node}"
    return f"{now}. Partitions offline: {count}."


RULE = Rule(
    title="Partitions are offline",
    resolved=_resolved,
    hold=hold(
        60.0, "by the timestamps in the log; the controllers elect a leader within a second if a replica may lead"
    ),
    further_thresholds=(RESTART,),
    needs=(Need.CURRENT_LOG,),
    grouped_with=("broker-fenced", "log-directory-offline", "partition-stuck-recovering", "unclean-election"),
)
