"""A broker is fenced, because heartbeats are missing or its start is not finished; or it is gone and has replicas.

What it means
    A fenced broker leads no partition and serves no client, and its replicas are in no ISR. Every partition that it
    holds has one replica less. `partitions-offline` reports those that nobody leads.

    - Warning: the broker crashed, is cut off from the controllers, or has started and is not ready. A broker registers
      first, and is fenced until it has caught up with the metadata and recovered its logs, which can take an hour after
      a crash. One that fetches the metadata log and does not register again is refused: its own log says why.
    - Warning: the node was broker and controller, and runs as a controller only now. Its registration as a broker is
      left over: Kafka still places replicas of new topics there, which no process holds.
    - Warning: the broker was unregistered although partitions have replicas on it. Kafka does not copy them to
      other brokers: each of these partitions has one replica less until they are moved or the broker is back.
    - Info: the broker left by a controlled shutdown and has not come back.

    The severity is one step higher if no registered broker is alive (the alert then fires after a minute), or if the
    broker may hold the only copy of acknowledged records after an unclean election.

What to do
    1. If the alert says so, copy the named directories before the broker starts. After an unclean election it may hold
       the only copy of acknowledged records, and it truncates them when it starts.
    2. If the alert names a broker that has to be back first, start that one: partitions that both hold wait for it, and
       with unclean.leader.election.enable this one would lead them without the records that it lacks.
    3. If the broker's process is down, start it. One that ends before it registers looks the same, however often its
       supervisor starts it: nothing outside its host shows these starts, and the end of its own log says why.
    4. If it has registered since, read in its log how far its start is, and wait while it makes progress.
    5. If it runs, read the end of its log. The log shows why its heartbeats fail: the network to the controllers, a
       long pause, a full or broken disk. If all controllers have moved since it started, it cannot find them: correct
       its `controller.quorum.bootstrap.servers` and restart it.
    6. If the broker will not come back, or its node runs as a controller only, move its partitions to other brokers
       first. Unregister it after that. One that is unregistered already needs only the move.

What not to do
    Do not unregister a broker that still holds the only replica of a partition. Do not restart a broker that recovers
    its logs: it would begin again.
"""

from collections.abc import Iterable

from rules.claims.statement import statement
from rules.facts.following import following
from rules.facts.freshness import fresh_poll
from rules.facts.needs import Need
from rules.facts.offline_partitions import named, named_ones
from rules.facts.quorum import Facts
from rules.finding import HOLD, Finding, FindingFacts, RuleResult, Severity, Threshold, Thresholds, hold
from rules.formatting import and_join, plural
from rules.model.history import BrokerPartitions
from rules.model.identifiers import START, NodeId
from rules.model.membership import BrokerRegistration
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status, register_again
from rules.remedies.start_conditions import copy_sentence, first_sentence, start_as_broker
from rules.remedies.step import restarts, starts
from rules.remedies.unregister import leftover_steps
from rules.rule import Rule

NONE_ALIVE_HOLD = Threshold(
    name="none_alive_hold",
    default=60.0,
    meaning="as hold, and at most as long, while no registered broker is alive and this one has not left by a "
    "controlled shutdown: the cluster serves no client. A broker that is restarted alone is back by then",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each broker that is fenced, or that is not registered and has replicas."""
    quorum = facts.quorum
    for _, broker in sorted(quorum.brokers.items()):
        if broker.fenced:
            left_over = facts.leftover_brokers.get(broker.id)
            if left_over is None:
                yield _finding(facts, broker, thresholds)
            else:
                yield _left_over(facts, broker, left_over)
    # Without any broker, no-broker says it.
    for node, of_broker in quorum.brokers_down.items() if quorum.brokers else ():
        if node not in quorum.brokers:
            yield _not_registered(facts, of_broker)


def _finding(facts: Facts, broker: BrokerRegistration, thresholds: Thresholds) -> Finding:
    node, left = broker.id, broker.in_controlled_shutdown
    starting = not left and node in facts.starting_brokers
    alive, copies = facts.brokers_alive, copy_sentence(facts, (node,))
    first = first_sentence(facts, node)
    where = f" at {and_join(broker.endpoints, 2)}" if broker.endpoints else ""
    fetches = not left and _fetches(facts, node)
    why = "it left by a controlled shutdown" if left else "the active controller receives no heartbeats from it"
    if fetches and not starting:
        why = (
            "it runs and fetches the metadata log, and is still starting, or its registration or heartbeats are refused"
        )
    if starting:
        why = "it has registered again and is still starting, or has failed since"
    return Finding(
        subject=Subject("broker", node),
        severity=_severity(left=left, worse=bool(copies) or not alive),
        summary=statement(f"Broker {node} is fenced: {why}. It serves no client.", copies, first, _alive_text(facts)),
        evidence={
            "broker": node,
            "failed_nodes": [node],
            "incarnation_id": broker.incarnation_id,
            "registered_at_offset": broker.at.offset,
            "registered_endpoints": [str(endpoint) for endpoint in broker.endpoints],
            "left_by_controlled_shutdown": left,
            "fetches_the_metadata_log": fetches,
            "brokers_registered": len(facts.quorum.brokers),
            "brokers_alive": alive,
            "recovering_partitions_on_broker": facts.recovering_on[node],
        },
        remedy=(
            *(_wait_for_start(node) if starting else ()),
            *(_refused(node) if fetches and not starting else ()),
            starts(f"# Start broker {node}{where} if it is meant to run", node)
            if left
            else starts(
                f"# Start broker {node}{where}, or check in its log why its heartbeats to the active controller fail",
                node,
            ),
            f"# If broker {node} will not come back, move its partitions to other brokers first, then unregister it "
            "with kafka-cluster.sh unregister",
            "# Check which controller is the leader: brokers send their heartbeats to it",
            describe_status(facts),
        ),
        facts=FindingFacts(failed_nodes=(node,)),
        hold_ms=None if alive or left else min(thresholds.ms(NONE_ALIVE_HOLD.name), thresholds.ms(HOLD)),
    )


def _alive_text(facts: Facts) -> str:
    return f" Brokers alive: {facts.brokers_alive} of {len(facts.quorum.brokers)} registered."


def _left_over(facts: Facts, broker: BrokerRegistration, why: str) -> Finding:
    quorum = facts.quorum
    node, alive, copies = broker.id, facts.brokers_alive, copy_sentence(facts, (broker.id,))
    return Finding(
        subject=Subject("broker", node),
        severity=Severity.CRITICAL if copies else Severity.WARNING,
        summary=statement(
            f"Broker {node} is fenced: node {node} {why}; its registration as a broker is left over. Kafka still "
            "places replicas of new topics on it, which no process holds.",
            copies,
            _alive_text(facts),
        ),
        evidence={
            "broker": node,
            "incarnation_id": broker.incarnation_id,
            "registered_at_offset": broker.at.offset,
            "controller_registered_at_offset": quorum.controllers[node].at.offset,
            "brokers_registered": len(quorum.brokers),
            "brokers_alive": alive,
            "recovering_partitions_on_broker": facts.recovering_on[node],
        },
        remedy=(*leftover_steps(facts, node), describe_status(facts)),
    )


def _not_registered(facts: Facts, of_broker: BrokerPartitions) -> Finding:
    node, count, alive = of_broker.broker, of_broker.replicas, facts.brokers_alive
    controller, copies = facts.controllers_only.get(node), copy_sentence(facts, (of_broker.broker,))
    why = "" if controller is None else f" (node {node} {controller})"
    return Finding(
        subject=Subject("broker", node),
        severity=Severity.CRITICAL if copies else Severity.WARNING,
        summary=statement(
            f"Broker {node} is not registered{why}, and {plural(count, 'partition')} {'has' if count == 1 else 'have'} "
            f"a replica on it: {named_ones(of_broker.examples, count)}. Kafka does not copy them elsewhere.",
            copies,
            _alive_text(facts),
        ),
        evidence={
            "broker": node,
            "partitions_with_a_replica": count,
            "partitions": [named(example) for example in of_broker.examples],
            "brokers_registered": len(facts.quorum.brokers),
            "brokers_alive": alive,
            "recovering_partitions_on_broker": facts.recovering_on[node],
        },
        remedy=(
            register_again(facts, node)
            if controller is None
            else restarts(f"# If node {node} should be a broker as well, {start_as_broker(node)}", node),
            f"# If it will not come back, move the replicas of broker {node} to other brokers with "
            "kafka-reassign-partitions.sh",
            describe_status(facts),
        ),
    )


def _wait_for_start(node: NodeId) -> tuple[str, ...]:
    return (
        f"# If broker {node} runs and its log shows progress, wait and do not restart it: after a crash it recovers "
        "its logs first, which can take an hour",
    )


def _fetches(facts: Facts, node: NodeId) -> bool:
    """Returns whether a broker has fetched since it was fenced, and does so now: its process runs."""
    poll = fresh_poll(facts.quorum)
    since_ms = facts.fenced_ms.get(node, START)
    return any(
        following(facts.quorum, poll, row.key).fetches and (row.last_fetch_ms or START) > since_ms
        for row in (poll.observers_by_id.get(node, ()) if poll else ())
    )


def _refused(node: NodeId) -> tuple[str, ...]:
    return (
        f"# Read in the log of broker {node} how far its start is, or why it is refused: an unsupported feature level, "
        "a node id that another process has, a missing permission",
    )


def _severity(*, left: bool, worse: bool) -> Severity:
    """One step higher if no broker is alive or it may hold the only copy: an alert that fires is then sent again."""
    if worse:
        return Severity.WARNING if left else Severity.CRITICAL
    return Severity.INFO if left else Severity.WARNING


def _resolved(facts: Facts, subject: Subject) -> str:
    quorum = facts.quorum
    broker = quorum.brokers.get(subject.node)
    now = "is no longer registered, and has no replica" if broker is None else "is not fenced: it serves clients"
    return f"Broker {subject.node} {now}.{_alive_text(facts)}"


RULE = Rule(
    title="A broker is fenced, or is gone and has replicas",
    resolved=_resolved,
    hold=hold(
        300.0, "a restart of a broker with many partitions, and each step of a rolling upgrade, is finished by then"
    ),
    further_thresholds=(NONE_ALIVE_HOLD,),
    needs=(Need.CURRENT_LOG,),
    # An unclean election passes over a fenced broker, and one that flaps may stay fenced: one fault, one incident.
    grouped_with=(
        "broker-flapping",
        "node-not-registered",
        "no-broker",
        "unclean-election",
        "partition-stuck-recovering",
    ),
)
