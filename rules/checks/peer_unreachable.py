"""A node does not reach a controller, as its own host sees it.

What it means
    Nothing has failed yet, if a leader is followed over connections that are older. Seen from the host of one
    controller, with its own resolver, certificates, cipher suites and login, another voter is not reached: it gets no
    vote of that one, and cannot follow it. If the voter that is not reached is elected, those that do not reach it
    fetch nothing from it; without a majority that does, nothing is committed for as long as the others are away. A
    broker that does not reach the leader is fenced: it sends it no heartbeat.

    It is known only where `kraftwatch witness` runs on the hosts of the nodes: no request of Kafka makes one
    controller dial another one, and the monitor has a resolver, certificates and a login of its own. If such a host
    reports no more, it is unknown what it saw, and an alert fires on for an hour.

What to do
    1. Correct what the step says that fails, on the host that does not reach the other one, or on the controller that
       is not reached. The remedy has a line for each step.
    2. Run `kraftwatch witness` on those hosts again.

What not to do
    Do not restart the leader before: the next election may have no end.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from rules.answers.election import failures_claim, failures_left
from rules.answers.now import over
from rules.claims.statement import statement
from rules.claims.words import clause, parts_depend, sentence, take_no_part
from rules.facts.quorum import Facts
from rules.facts.witnesses import unreached_text
from rules.finding import HOLD, Finding, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join, numbered
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import majority
from rules.model.subject import Subject
from rules.model.witness import PeerDial, WitnessRow
from rules.remedies.reach_steps import hosts_of, reach_steps
from rules.rule import Rule

_DIALS_MS: Final = 15_000
"""So long the dials of a row may take."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each voter that a node is shown not to reach."""
    down = {node for node in facts.nodes if facts.nodes[node].is_down}
    for voter in facts.nodes.voters:
        dials = facts.witnesses.unreached_by_all(voter.id)
        if dials and voter.id in down:
            yield UnknownResult(subject=_subject(voter.id), why=f"controller {voter.id} is down")
        elif dials:
            yield _finding(facts, voter.id, dials, thresholds)
        elif voter.id in facts.witnesses.outdated:
            yield UnknownResult(subject=_subject(voter.id), why=facts.witnesses.outdated[voter.id])


def _subject(node: NodeId) -> Subject:
    return Subject("voter", node)


def _finding(facts: Facts, of: NodeId, dials: Mapping[NodeId, PeerDial], thresholds: Thresholds) -> Finding:
    left, voters = failures_left(facts), len(facts.nodes.voters)
    seen, by_voters = facts.witnesses, facts.witnesses.unreached_by(of)
    # No other voter can ask it for its vote, or fetch from it.
    by_each = len(by_voters) == voters - 1
    lost = statement(f" Controller {of} ", take_no_part((of,)), ".") if by_each else ""
    # Whom they vote for and are followed by depends on who is lost.
    depend = {*by_voters} if by_each else {of, *by_voters}
    return Finding(
        subject=_subject(of),
        # Who has no vote decides nothing.
        severity=Severity.CRITICAL if by_voters and left.value is not None and left.value <= 0 else Severity.WARNING,
        summary=statement(
            unreached_text(seen, of, dials),
            _if_it_leads(facts, of, dials),
            lost,
            *((" ", sentence(parts_depend(depend)), ".") if depend else ()),
            *(() if left.value is None else (" ", sentence(clause(failures_claim(left))), ".")),
        ),
        evidence={
            "voter": of,
            "endpoint": next(iter(dials.values())).endpoint,
            "not_reached_by": {str(by): f"{dial.step}: {dial.why}" for by, dial in dials.items()},
            "reached_by": [by for by in seen.rows if by != of and by not in dials],
            "voters": voters,
            "majority": majority(voters),
        },
        remedy=(
            *reach_steps(of, dials, seen.named),
            f"# Run `kraftwatch witness` with the node's properties file on {hosts_of(dials, seen.named)} again: the "
            "exit code must be 0",
        ),
        hold_ms=max(thresholds.ms(HOLD), *(_next_row_ms(seen.rows[by]) for by in dials)),
    )


def _if_it_leads(facts: Facts, of: NodeId, dials: Mapping[NodeId, PeerDial]) -> str:
    """Returns what happens to those that do not reach it; begins with a space."""
    brokers = [by for by in dials if by in facts.quorum.brokers and by not in facts.witnesses.unreached]
    followers = [by for by in dials if by not in brokers]
    found = [f"{and_join(followers)} cannot fetch from it"] if followers else []
    if of in facts.witnesses.cut_off:
        found[0] += ": without a majority that does, nothing is committed"
    if brokers:
        found.append(f"{numbered('broker', brokers)} {'is' if len(brokers) == 1 else 'are'} fenced")
    return "".join(f" If it leads, {each}." for each in found)


def _next_row_ms(row: WitnessRow) -> Millis:
    """Returns within which time of a row the next one has come, if there is one."""
    return Millis(0 if row.every_ms is None else row.every_ms + _DIALS_MS)


def _resolved(facts: Facts, subject: Subject) -> str:
    node = subject.node
    if node in facts.witnesses.reached_by_all:
        return f"Each other controller reaches controller {node}, as seen from their own hosts."
    if facts.witnesses.newest:
        return over(subject)
    return f"No row of a controller's host shows any more whether controller {node} is reached."


RULE = Rule(
    title="A node does not reach a controller, seen from its own host",
    resolved=_resolved,
    hold=hold(
        60.0,
        "a row is one attempt: the next one may succeed. Of a host that reports to the job, at least 15 s longer than "
        "its interval",
    ),
    # The outage that it explains goes on while it is true.
    without_leader=True,
    grouped_with=("no-leader", "failure-tolerance"),
)
