"""Whether a node is back after its restart: the next node may then be asked about.

Of a voter: it fetches from the leader with the directory that the voters have recorded, has caught up, and its endpoint
reaches it. Of a broker: it is registered with all directories that hold its replicas, unfenced, and each of its
replicas is in sync. What was observed before the question began may be of the process before: the node must have
fetched since. A node of both roles is back if both are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rules.answers.restart import Unusable, roles_of, usable_poll
from rules.claims.claim import NOBODY, Question, claim
from rules.claims.statement import statement
from rules.claims.words import clause, predicate
from rules.facts.endpoint_text import endpoint_kind, faults_text, probe_outcome
from rules.facts.following import Following, fetched_after_ms, following, since_last_fetch_ms
from rules.facts.freshness import log_age_problem, poll_problem
from rules.facts.node_claims import follows_claim
from rules.facts.offline_partitions import named_ones
from rules.facts.quorum import Facts
from rules.formatting import ms_text, plural
from rules.model.history import NodeKind, OutOfSyncReplicas, Reassignment
from rules.model.identifiers import Millis, NodeId
from rules.model.replica import Poll


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterRestart:
    """Whether a node is back, with the reasons."""

    node: NodeId
    roles: tuple[NodeKind, ...]
    missing: tuple[str, ...]
    """What it does not do yet, the most important first."""
    unknown: tuple[str, ...]
    """What is not observed of it."""

    @property
    def back(self) -> bool | None:
        """Whether it is back; None if it is not known to do all that it should."""
        return False if self.missing else None if self.unknown else True


def after_restart(facts: Facts, node: NodeId, since_ms: Millis) -> AfterRestart:
    """Evaluates one of `restartable(facts)`. `since_ms`: when its former process had ended, by the monitor's clock."""
    quorum, roles = facts.quorum, roles_of(facts, node)
    poll = usable_poll(facts)
    if isinstance(poll, Unusable):
        missing_leader = (clause(claim(Question.LEADER, NOBODY)),) if poll.against else ()
        return AfterRestart(node=node, roles=roles, missing=missing_leader, unknown=poll.unknown)
    unknown = [problem for problem in (log_age_problem(quorum),) if problem is not None]
    if poll.leader is None:
        unknown.append(poll_problem(quorum))
    elif poll.observed_at_ms < since_ms:
        unknown.append("DescribeQuorum was not answered since this command began")
    if unknown:
        return AfterRestart(node=node, roles=roles, missing=(), unknown=tuple(unknown))
    missing = [*_not_fetched(facts, poll, node, since_ms)]
    if NodeKind.CONTROLLER in roles:
        missing += _voter(facts, node)
        unknown += _endpoint_unknown(facts, node, since_ms)
    if NodeKind.BROKER in roles:
        missing += _broker(facts, node)
        if not quorum.log_complete:
            unknown.append("a record of the metadata log is missing or was not decoded: its replicas are not known")
        unknown += _maybe_added(facts, node)
    return AfterRestart(node=node, roles=roles, missing=tuple(missing), unknown=tuple(unknown))


def _not_fetched(facts: Facts, poll: Poll, node: NodeId, since_ms: Millis) -> Iterator[str]:
    ages = [since_last_fetch_ms(facts.quorum, poll, row.key) for row in poll.rows_by_id.get(node, ())]
    age = min((age for age in ages if age is not None), default=None)
    if age is None:
        yield "it does not fetch the metadata log"
    elif fetched_after_ms(poll, age) < since_ms:
        yield f"it has not fetched the metadata log since this command began, for {ms_text(age)}"


def _voter(facts: Facts, node: NodeId) -> Iterator[str]:
    quorum = facts.quorum
    voter = next((one for one in facts.nodes.voters if one.id == node), None)
    if node in facts.without_vote:
        yield f"it {facts.without_vote[node]}"
    elif voter is not None and following(quorum, facts.nodes.poll, voter.key) is not Following.IN_SYNC:
        yield statement("it is a voter and ", predicate(follows_claim(facts.nodes, voter)))
    if voter is not None and not voter.reachable:
        yield statement(f"its {endpoint_kind(quorum)} endpoint {voter.endpoint} ", faults_text(voter))


def _endpoint_unknown(facts: Facts, node: NodeId, since_ms: Millis) -> Iterator[str]:
    voter = next((one for one in facts.nodes.voters if one.id == node), None)
    if voter is None or voter.endpoint is None:
        return
    if voter.probe is None or voter.probe.observed_at_ms < since_ms:
        yield f"its endpoint {voter.endpoint} was not probed since this command began"
    elif voter.reachable and not voter.is_known:
        yield f"unknown whether its endpoint {voter.endpoint} reaches it ({probe_outcome(voter)})"


def _broker(facts: Facts, node: NodeId) -> Iterator[str]:
    quorum = facts.quorum
    broker = quorum.brokers[node]
    if broker.fenced:
        yield "it is registered as a broker and fenced: it starts, or its heartbeats do not arrive"
    elif broker.in_controlled_shutdown:
        yield "its former process still shuts down"
    for directory in quorum.offline_directories:
        if directory.broker == node:
            yield f"its log directory {directory.directory_id} is offline, with {plural(directory.replicas, 'replica')}"
    behind = quorum.out_of_sync.get(node)
    if behind is not None and behind.partitions > len(_adding(facts, node)):
        yield f"its replicas of {_partitions(behind)} are not in sync"


def _maybe_added(facts: Facts, node: NodeId) -> Iterator[str]:
    """Yields what is not in sync and may not be added: of several added replicas, one may be in sync already."""
    behind, adding = facts.quorum.out_of_sync.get(node), _adding(facts, node)
    if behind is not None and sum(len(one.adding) == 1 for one in adding) < behind.partitions <= len(adding):
        yield (
            f"unknown whether a reassignment adds its replicas of {_partitions(behind)}, which are not in sync: wait "
            "until it has ended"
        )


def _adding(facts: Facts, node: NodeId) -> list[Reassignment]:
    """Returns the reassignments that add a replica on a broker: it copies the partition, for however long."""
    return [one for one in facts.quorum.reassignments if node in one.adding]


def _partitions(behind: OutOfSyncReplicas) -> str:
    return f"{plural(behind.partitions, 'partition')} ({named_ones(behind.examples, behind.partitions)})"
