"""A process fetches the metadata log and is registered as nothing: the active controller refuses its registration.

What it means
    A broker registers with the active controller when it starts, and a controller does from metadata.version 3.7 on.
    This node fetches the metadata log, so it runs and reaches the quorum, but the log has no registration of its id. A
    broker like this serves no client and holds no replica; a controller like this cannot become a voter.

    Its own log has the reason. The usual ones:

    - it lacks a feature at the finalized level, because its version is too old (UNSUPPORTED_VERSION);
    - another process has its node id and is alive (DUPLICATE_BROKER_REGISTRATION);
    - it was formatted for another cluster (INCONSISTENT_CLUSTER_ID);
    - it may not do so (CLUSTER_AUTHORIZATION_FAILED);
    - it was unregistered while it ran: it registers again only when it is restarted;
    - a controller's first registration timed out, and it does not try again: Kafka 3.9.2, 4.0.1, 4.1.2 and 4.2.0
      (KAFKA-20247, fixed in 4.2.1 and 4.3.1).

What to do
    1. Read in its log why its registration is refused, and correct that.
    2. Restart it.
    3. If it should not be part of this cluster, stop it: the leader lists it for five more minutes.

    A broker that was unregistered while it ran does not end at SIGTERM for five minutes, because no controller accepts
    its controlled shutdown: kill it (SIGKILL) if it has not ended after half a minute. It leads nothing.

What not to do
    Do not delete its disk before you know the reason: it may be a broker whose registration was removed by mistake.
"""

from collections.abc import Iterable, Sequence

from rules.facts.damaged_log import HIDDEN
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.facts.replica_lag import last_fetch_text
from rules.finding import Finding, FindingFacts, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join
from rules.model.history import Unregistration
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.replica import Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_features, describe_status, register_again
from rules.remedies.step import Act, does, restarts
from rules.rule import Rule


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each node that fetches and is neither a voter nor registered."""
    quorum = facts.quorum
    poll, hidden = needed(quorum.poll), facts.hides_records
    known = {*quorum.voter_ids, *poll.voter_ids, *quorum.controllers, *quorum.brokers}
    for node, keys in facts.nodes.fetching.items():
        if node not in known and hidden:
            yield UnknownResult(subject=Subject("node", node), why=f"node {node} {HIDDEN}")
        elif node not in known:
            yield _finding(facts, poll, node, keys)


def _finding(facts: Facts, poll: Poll, node: NodeId, keys: Sequence[ReplicaKey]) -> Finding:
    quorum = facts.quorum
    left = next(
        (unregistration for unregistration in reversed(quorum.history.unregistrations) if unregistration.id == node),
        None,
    )
    return Finding(
        subject=Subject("node", node),
        severity=Severity.WARNING,
        summary=f"Node {node} fetches the metadata log and is not registered, neither as a broker nor as a controller: "
        "it serves no client. "
        + (
            "It was unregistered while it ran."
            if left
            else "The active controller refuses its registration, or has never received it."
        ),
        evidence={
            "node": node,
            "failed_nodes": [node],
            "directories": [str(key) for key in keys],
            "last_fetch": last_fetch_text(quorum, poll, keys[0]),
            "unregistered_at_offset": left.offset if left else None,
            "metadata_version": quorum.metadata_version,
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(
            _correct(facts, node, left),
            does(f"# If node {node} does not belong to this cluster, stop it", (Act.STOP, (node,))),
            "# Compare the finalized levels with those that its version supports",
            describe_features(facts),
            describe_status(facts),
        ),
        facts=FindingFacts(failed_nodes=(node,)),
        starts=(node,),
    )


def _correct(facts: Facts, node: NodeId, left: Unregistration | None) -> str:
    if node in facts.unregistered_running:
        return register_again(facts, node)
    if left:
        return restarts(f"# Restart node {node} if it is meant to run: it registers only when it starts", node)
    return (
        f"# Read in the log of node {node} why its registration is refused: an unsupported feature level, a node id "
        "that another process has, another cluster id, a missing permission; or that it timed out, after which Kafka "
        "before 4.2.1 does not try again while the node runs (KAFKA-20247)"
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    quorum = facts.quorum
    node = subject.node
    roles = [
        role
        for role, there in (
            ("a voter", node in quorum.voter_ids),
            ("a controller", node in quorum.controllers),
            ("a broker", node in quorum.brokers),
        )
        if there
    ]
    return f"Node {node} is {and_join(roles)}." if roles else f"Node {node} does not fetch the metadata log any more."


RULE = Rule(
    title="A node is not registered",
    resolved=_resolved,
    hold=hold(120.0, "a node that starts registers within seconds after it fetches"),
    needs=(Need.CURRENT_LOG, Need.FRESH_POLL),
    inhibited_by=("controller-stuck", "open-transaction"),
    grouped_with=("duplicate-node-id", "version-drift", "committed-metadata-lost"),
)
