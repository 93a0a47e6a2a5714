"""Partitions have fewer in-sync replicas than min.insync.replicas: producers that want every acknowledgement fail.

What it means
    These partitions have a leader, which serves reads. It refuses writes with `acks=all`, the default since Kafka 3.0
    (NOT_ENOUGH_REPLICAS), because fewer replicas would hold them than the topic promises. Transactions and consumer
    groups stop if partitions of their internal topics are among these. Nothing is lost.

    There is one alert for each broker whose replicas are missing, because of what is wrong with it: it is fenced, has a
    log directory offline, runs as a controller only, is not registered, or is alive and does not keep up. If several
    are missing, it is about the one that can come back most easily.

    min.insync.replicas is read from the metadata log: the topic's own, else the default of the cluster. What only
    server.properties has is not known, and 1 is assumed. Where KIP-966 is on, as in new clusters from Kafka 4.1 on, the
    files of the brokers do not count: the active controller has written *its own* value into the log as the default of
    the cluster, 1 unless its file says more (`kafka-configs.sh --describe --entity-type brokers --entity-default`). Set
    `min_isr` of the cluster in the configuration to what the files have: an information says then that less counts.

What to do
    1. Bring the broker back, or its log directory.
    2. If it is alive: look for slow or full disks, its network to the leaders, and a replication throttle that is left.
    3. If it will not come back, move its replicas to other brokers.

What not to do
    Do not lower min.insync.replicas as the first step: records that one replica alone acknowledges are lost with it.
    With KIP-966 a change also clears the list of replicas that may become leaders.
"""

from collections.abc import Iterable, Iterator

from rules.answers.broker_restart import files_do_not_count
from rules.facts.needs import Need
from rules.facts.offline_partitions import Cause, named, named_ones
from rules.facts.quorum import Facts
from rules.finding import Finding, FindingFacts, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import plural, utc_text
from rules.model.history import PartitionSum
from rules.model.identifiers import Millis, NodeId
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_partitions, directory_steps, register_again, set_default
from rules.remedies.start_conditions import start_as_broker
from rules.remedies.step import restarts, starts
from rules.rule import Rule

RESTART = Threshold(
    name="restart",
    default=300.0,
    meaning="as hold, if the broker left by a controlled shutdown: where every replica must be in sync, each step of a "
    "rolling restart takes partitions below it, and is finished by then",
)
DEFAULT = Subject("default of min.insync.replicas")
_MAX_LISTED = 20


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each broker whose replicas are missing, and one if the brokers' files do not count."""
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms
    yield from _other_default(facts)
    if newest is None:
        if quorum.under_min_isr:
            yield UnknownResult(why="no timestamp of the metadata log has been read")
        return
    of_broker: dict[NodeId, list[tuple[Cause, PartitionSum]]] = {}
    for partition in quorum.under_min_isr:
        if not partition.holders:
            # Replay counts no more than 10,000 sets of replicas; or a record names a replica twice.
            yield UnknownResult(why=f"which replicas {plural(partition.partitions, 'partition')} lack is not known")
            continue
        cause, replica = facts.not_in_sync(partition)
        of_broker.setdefault(replica.id, []).append((cause, partition))
    for node, sums in sorted(of_broker.items()):
        yield _finding(facts, node, sums, newest, thresholds)


def _other_default(facts: Facts) -> Iterator[Finding]:
    """Yields that the default of the cluster in the log is less than what the brokers' files have."""
    default, in_files = facts.quorum.default_min_isr, facts.quorum.broker_min_isr
    if (why := files_do_not_count(facts.quorum, in_files)) is None:
        return
    yield Finding(
        subject=DEFAULT,
        severity=Severity.INFO,
        summary=f"{why}.",
        evidence={"min_isr": default, "min_isr_of_files": in_files},
        remedy=(
            "# While all replicas are in sync (the change clears the eligible leader replicas), set it in the log",
            set_default(facts, f"min.insync.replicas={in_files}"),
        ),
    )


def _finding(
    facts: Facts, node: NodeId, sums: list[tuple[Cause, PartitionSum]], newest: Millis, thresholds: Thresholds
) -> Finding:
    cause = min((cause for cause, _ in sums), key=lambda each: each.value)
    count, left = sum(partition.partitions for _, partition in sums), node in facts.left_in_order
    first = min((partition for _, partition in sums), key=lambda one: one.since_timestamp_ms)
    examples = [example for _, partition in sums for example in partition.examples]
    since = f"{'before ' if first.at_least else ''}{utc_text(first.since_timestamp_ms)}"
    failed = (node,) if cause is Cause.FENCED else ()
    have = "has" if count == 1 else "have"
    return Finding(
        subject=Subject("broker", node),
        severity=Severity.CRITICAL,
        summary=f"{plural(count, 'partition')} {have} fewer in-sync replicas than min.insync.replicas: "
        f"{_why(facts, cause, node, left=left)}. Writes with acks=all are refused there since {since}: "
        f"{named_ones(examples, count)}.",
        evidence={
            "partitions_under_min_isr": count,
            "since": since,
            "partitions": [named(example) for example in examples[:_MAX_LISTED]],
            "partitions_not_listed": max(0, count - len(examples[:_MAX_LISTED])),
            "broker": node,
            **({"failed_nodes": [*failed]} if failed else {}),
        },
        remedy=(describe_partitions(facts, "under-min-isr"), *_remedy(facts, cause, node)),
        facts=FindingFacts(failed_nodes=failed),
        condition_age_ms=Millis(max(0, newest - first.since_timestamp_ms)),
        hold_ms=thresholds.ms(RESTART.name) if cause is Cause.FENCED and left else None,
    )


def _why(facts: Facts, cause: Cause, node: NodeId, *, left: bool) -> str:
    if cause is Cause.CONTROLLER_ONLY:
        return f"node {node}, which has a missing replica, {facts.controllers_only[node]}"
    return {
        Cause.FENCED: f"broker {node} {'left by a controlled shutdown' if left else 'is fenced'}",
        Cause.DIRECTORY: f"a log directory of broker {node} is offline",
        Cause.UNREGISTERED: f"broker {node}, which has a missing replica, is not registered",
    }.get(cause, f"broker {node} is alive, and its replicas are not in sync")


def _remedy(facts: Facts, cause: Cause, node: NodeId) -> Iterator[str]:
    match cause:
        case Cause.NOT_LEADING:
            yield (
                f"# Look on broker {node} for slow or full disks, its network to the leaders, and a replication "
                "throttle that is left"
            )
            return
        case Cause.CONTROLLER_ONLY:
            yield restarts(f"# {start_as_broker(node).capitalize()}", node)
        case Cause.DIRECTORY:
            yield from directory_steps(facts, node)
        case Cause.UNREGISTERED:
            yield register_again(facts, node)
        case _:
            check = "or check in its log why its heartbeats to the active controller fail"
            yield starts(f"# Start broker {node}, {check}", node)
    yield "# If it will not come back, move its replicas to other brokers with kafka-reassign-partitions.sh"


def _resolved(facts: Facts, subject: Subject) -> str:
    count = sum(partition.partitions for partition in facts.quorum.under_min_isr)
    if subject == DEFAULT:
        default = facts.quorum.default_min_isr
        return f"The default of min.insync.replicas in the metadata log: {'none' if default is None else default}."
    return (
        f"No partition lacks a replica of broker {subject.node} for min.insync.replicas. Partitions below it: {count}."
    )


RULE = Rule(
    title="Partitions are below min.insync.replicas",
    resolved=_resolved,
    hold=hold(60.0, "by the timestamps in the log; the in-sync replicas shrink and grow within seconds of a restart"),
    further_thresholds=(RESTART,),
    needs=(Need.CURRENT_LOG,),
    grouped_with=("broker-fenced", "partitions-offline", "log-directory-offline", "partition-stuck-recovering"),
)
