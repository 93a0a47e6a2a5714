"""Two processes run with one node.id: a configuration or a machine image was copied.

What it means
    Kafka takes both for one node. Critical: the id is a voter's, and a majority may count it twice. Warning: another
    controller's or a broker's. Either two directory ids fetch under this id at the same time, or a process registered
    again after the other one had replaced it, which a restart never does.

What to do
    1. Find both processes. The voter is the one with the voter's directory id in its meta.properties.
    2. Stop the other one, give it a node.id of its own, format its log directory, and start it.

What not to do
    Do not remove or add this voter, or restart other controllers, while both run.
"""

from collections.abc import Iterable, Sequence

from rules.claims.claim import Directory, Question, claim
from rules.claims.statement import statement
from rules.claims.words import clause, sentence
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.facts.replica_lag import last_fetch_text
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, hold
from rules.formatting import and_join, utc_text
from rules.model.history import DoubleRegistration
from rules.model.identifiers import Endpoint, NodeId, ReplicaKey
from rules.model.quorum import Quorum
from rules.model.replica import Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status, no_change_while_both_run
from rules.remedies.step import may_restart
from rules.rule import Rule

WINDOW = Threshold(
    name="window",
    default=300.0,
    meaning="two processes run until their registrations have not alternated for this long, by the timestamps in the "
    "log. A controller registers again within seconds",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each node id that two processes have."""
    quorum = facts.quorum
    poll, newest = needed(quorum.poll), quorum.newest_timestamp_ms
    named = {node: [key for key in keys if key.directory_id] for node, keys in facts.nodes.fetching.items()}
    fetching = {node: keys for node, keys in named.items() if len(keys) > 1}
    registered: dict[NodeId, list[DoubleRegistration]] = {}
    for registration in quorum.history.double_registrations:
        if newest is not None and newest - registration.timestamp_ms <= thresholds.ms(WINDOW.name):
            registered.setdefault(registration.id, []).append(registration)
    for node in sorted({*fetching, *registered}):
        yield _finding(facts, poll, node, fetching.get(node, ()), registered.get(node, ()))


def _finding(
    facts: Facts,
    poll: Poll,
    node: NodeId,
    keys: Sequence[ReplicaKey],
    registered: Sequence[DoubleRegistration],
) -> Finding:
    """`registered`: as controller, as broker, or as both."""
    quorum = facts.quorum
    voters = {key.id: key for key in (quorum.committed.keys if quorum.committed else poll.voter_keys)}
    voter = voters.get(node)
    endpoints = _endpoints(registered)
    only_broker = voter is None and node in quorum.brokers and node not in quorum.controllers
    return Finding(
        subject=Subject("node", node),
        severity=Severity.WARNING if voter is None else Severity.CRITICAL,
        summary=statement(
            sentence(clause(claim(Question.DIRECTORY, Directory.COPY, node=node))),
            f"{'' if voter is None else ', a voter'}.",
            f" They registered in turn, at {and_join(endpoints)}." if registered else "",
            f" Directories {and_join(key.directory_id for key in keys)} both fetch." if keys else "",
        ),
        evidence={
            "node": node,
            "voter": None if voter is None else str(voter),
            "endpoints": [*endpoints],
            "registered_endpoints": [str(endpoint) for endpoint in _registered(quorum, node)],
            "returns_of_a_registration": sum(registration.returns for registration in registered),
            "last_return": utc_text(max(registration.timestamp_ms for registration in registered))
            if registered
            else None,
            "last_fetched": {str(key): last_fetch_text(quorum, poll, key) for key in keys},
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(
            f"# Find both processes with node.id={node}{f': {and_join(endpoints)}' if endpoints else ''}",
            *_which(voter, keys),
            may_restart(
                f"# Stop the copy, give it a node.id of its own instead of {node}, format its log directory"
                f"{'' if only_broker else ' (a controller with --no-initial-controllers)'} and start it",
                node,
            ),
            *(() if only_broker else (no_change_while_both_run(node),)),
            describe_status(facts, excluding=node),
        ),
    )


def _endpoints(registered: Iterable[DoubleRegistration]) -> Sequence[str]:
    """Returns the endpoints of both processes, without repetitions: a copied configuration may name the same."""
    return [
        *dict.fromkeys(
            str(endpoint)
            for registration in registered
            for endpoint in (*registration.endpoints, *registration.other_endpoints)
        )
    ]


def _registered(quorum: Quorum, node: NodeId) -> tuple[Endpoint, ...]:
    registrations = [one for one in (quorum.controllers.get(node), quorum.brokers.get(node)) if one is not None]
    return tuple(endpoint for registration in registrations for endpoint in registration.endpoints)


def _which(voter: ReplicaKey | None, keys: Sequence[ReplicaKey]) -> Iterable[str]:
    if voter is not None and voter.directory_id is not None:
        yield (
            f"# The voter has directory.id={voter.directory_id} in its meta.properties: the other process is the copy; "
            "if both have it, the one that was started last"
        )
    elif keys:
        yield f"# Compare directory.id in their meta.properties: {and_join(key.directory_id for key in keys)}"


def _resolved(facts: Facts, subject: Subject) -> str:
    return f"One process has the id of {subject}: one directory of it fetches, and registrations do not alternate."


RULE = Rule(
    title="Two processes have one node.id",
    resolved=_resolved,
    hold=hold(30.0),
    further_thresholds=(WINDOW,),
    needs=(Need.FRESH_POLL,),
    # Both processes are one node for Kafka: what else is found of it has the same cause.
    grouped_with=("node-records-conflict", "node-restarting", "stale-voter-endpoint", "version-drift", "epoch-churn"),
    without_leader=True,
)
