"""A voter grants no vote: it runs no controller, or does not know that it is a voter.

What it means
    The leader counts a node as a voter that takes no part in an election: the quorum tolerates one failure less than it
    seems to.

    - It is a broker only, or no controller is registered under its id. Nothing in Kafka prevents it (KAFKA-19021):
      add-controller accepts any node that fetches, and a voter may be started again with `process.roles=broker`.
    - In a static quorum (kraft.version 0), its own controller.quorum.voters is empty: it was started with
      controller.quorum.bootstrap.servers alone. It fetches as an observer, is no candidate, and refuses the pre-votes
      of the others. It may also end at its start ("Expected to be Follower"). kraftwatch reads the list with
      DESCRIBE_CONFIGS on CLUSTER. Without that, a sign of it is that the controller has not registered since its start.

    A broker that is a voter of a dynamic quorum (seen with Kafka 4.3 and 4.4) ends when it first sends its endpoints to
    the leader, within seconds, and again after each start. Its log says "Received unexpected invalid request error".

What to do
    1. If the node should be a controller, add `controller` to its process.roles and a controller listener, and start
       it.
    2. Otherwise remove it from the voters, then start the broker: the remedy holds the command.
    3. If its list is empty, give it the controller.quorum.voters of the others and restart it. To make the quorum
       dynamic, upgrade kraft.version first; the lists are removed after that.

What not to do
    Do not stop another voter before: the voter without a vote cannot take its place.
"""

from collections.abc import Iterable

from rules.answers.election import failures_claim, failures_left
from rules.claims.statement import Statement, statement
from rules.claims.words import clause, not_a_voter, not_counted, sentence, take_no_part
from rules.facts.damaged_log import HIDDEN
from rules.facts.doubts import runs_no_controller
from rules.facts.endpoint_text import evidence_of
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.node import Process
from rules.facts.quorum import Facts
from rules.facts.static_voters import WITHOUT_LIST, unregistered_since
from rules.finding import Finding, Plain, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import utc_text
from rules.model.identifiers import NodeId
from rules.model.membership import Voter, majority
from rules.model.subject import Subject
from rules.remedies.remedy_commands import allow, before_a_change, describe_status, remove_controller
from rules.remedies.step import may_restart, starts
from rules.rule import Rule


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each voter that grants no vote."""
    quorum = facts.quorum
    voters = needed(facts.nodes.dialled).voters
    empty, doubtful = facts.without_list, facts.with_doubtful_list
    for voter in sorted(voters, key=lambda voter: voter.key):
        node = voter.key.id
        if node in empty:
            yield _without_list(facts, voter, len(voters), f"{WITHOUT_LIST}: it follows the leader as an observer")
        elif node in doubtful and unregistered_since(facts.nodes, node) is not None:
            yield _without_list(facts, voter, len(voters), doubtful[node])
        elif quorum.is_static and facts.nodes.process(node) is not Process.RUNNING:
            yield UnknownResult(subject=Subject("voter", node), why=f"voter {node} does not answer")
        elif not quorum.controllers:
            # Below metadata.version 3.7 no controller registers.
            continue
        elif runs_no_controller(facts.nodes, voter, hides_records=facts.hides_records):
            yield _without_controller(facts, voter, len(voters))
        elif node not in quorum.controllers:
            # It may be a controller that was never started.
            why = HIDDEN if facts.hides_records else "is not fetching"
            yield UnknownResult(subject=Subject("voter", node), why=f"voter {voter.key} {why}")


def _without_controller(facts: Facts, voter: Voter, voters: int) -> Finding:
    node = voter.key.id
    controller, broker = facts.quorum.controllers.get(node), facts.quorum.brokers.get(node)
    if broker is None:
        cause = "no controller is registered under its id"
    elif controller is None:
        cause = "it is registered as a broker only"
    else:
        cause = f"it was started as a broker only at {utc_text(broker.at.timestamp_ms)}"
    remedy = (
        starts(
            f"# If node {node} should be a controller, add controller to its process.roles and a controller listener, "
            "and start it",
            node,
        ),
        *_removal(facts, voter),
        *(() if broker is None else (starts(f"# Start broker {node} again, if it has ended", node),)),
    )
    what = statement(f"runs no controller: {cause}. It ", take_no_part((node,)))
    return _finding(facts, voter, voters, what, remedy)


def _removal(facts: Facts, voter: Voter) -> tuple[str, ...]:
    if facts.quorum.is_static:
        what = "# Otherwise remove it from controller.quorum.voters of every node, and restart them one at a time"
        return (may_restart(what, voter.key.id),)
    remove = remove_controller(facts, voter.key, for_good=True)
    return (f"# Otherwise remove voter {voter.key.id}", *before_a_change(facts, voter.key.id), remove)


def _without_list(facts: Facts, voter: Voter, voters: int, why: str) -> Finding:
    node = voter.key.id
    known = node in facts.without_list
    consequence = statement("It ", take_no_part((node,))) if known else sentence(not_counted(node))
    remedy = (
        f"# Compare controller.quorum.voters in the configuration of controller {node} with that of the others",
        *(() if known else allow(facts, ("DescribeConfigs",))),
        may_restart(
            f"# {'Give' if known else 'If it differs, give'} controller {node} the list of the others, and restart it",
            node,
        ),
        describe_status(facts, excluding=node),
    )
    return _finding(facts, voter, voters, statement(f"{why}. ", consequence), remedy)


def _finding(facts: Facts, voter: Voter, voters: int, what: Statement, remedy: tuple[str, ...]) -> Finding:
    quorum = facts.quorum
    node = voter.key.id
    controller, broker = quorum.controllers.get(node), quorum.brokers.get(node)
    return Finding(
        subject=Subject("voter", node),
        severity=Severity.WARNING,
        summary=statement(f"Voter {node} ", what, ". ", sentence(clause(failures_claim(failures_left(facts)))), "."),
        evidence={
            **evidence_of(facts.nodes[node]),
            "controller_registered_at_offset": None if controller is None else controller.at.offset,
            "broker_registered_at_offset": None if broker is None else broker.at.offset,
            **_started(facts, node),
            "voters": voters,
            "majority": majority(voters),
        },
        remedy=remedy,
    )


def _started(facts: Facts, node: NodeId) -> dict[str, Plain]:
    at_ms = unregistered_since(facts.nodes, node)
    return {} if at_ms is None else {"started_and_not_registered_since": utc_text(at_ms)}


def _resolved(facts: Facts, subject: Subject) -> str:
    node = subject.node
    if facts.nodes.dialled is None or node not in facts.nodes.dialled.ids:
        return not_a_voter(node)
    if not facts.quorum.is_static:
        return f"Voter {node} runs a controller."
    probe = facts.nodes[node].probe
    known = probe is not None and bool(probe.quorum_voters)
    return f"Voter {node} {'has a list of the voters' if known else 'has registered since its last known start'}."


RULE = Rule(
    title="A voter grants no vote",
    hold=hold(60.0, "a controller registers within seconds of its start, once there is a leader"),
    resolved=_resolved,
    needs=(Need.VOTER_ENDPOINTS, Need.CURRENT_LOG, Need.FRESH_POLL),
    grouped_with=("stale-voter-endpoint",),
)
