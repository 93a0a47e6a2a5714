"""A controller does not reach another one, as its own host sees it.

What it means
    Nothing has failed yet, if a leader is followed over connections that are older. Seen from the host of one
    controller, with its own resolver, certificates, cipher suites and login, another voter is not reached: it gets no
    vote of that one, and cannot follow it. If the voter that is not reached is elected, those that do not reach it
    fetch nothing from it; without a majority that does, nothing is committed for as long as the others are away.

    It is known only where `kraftwatch witness` runs on the hosts of controllers: no request of Kafka makes one
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

from rules.answers.election import failures_claim, failures_left
from rules.answers.now import over
from rules.claims.claim import NO, Question, claim, of_each
from rules.claims.statement import Statement, statement
from rules.facts.following_text import further_failures_text
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join, numbered, utc_text
from rules.model.identifiers import NodeId
from rules.model.membership import majority
from rules.model.subject import Subject
from rules.model.witness import DialStep, PeerDial
from rules.rule import Rule

_STEPS: Mapping[DialStep, str] = {
    DialStep.NAME: "On {hosts}, make the name in {endpoint} resolve to controller {of}: compare /etc/hosts and "
    "/etc/resolv.conf with those of the other hosts",
    DialStep.CONNECTION: "Let connections from {hosts} to {endpoint} pass: compare firewalls and routes with those of "
    "the other hosts",
    DialStep.TLS: "Compare ssl.keystore.* (with its intermediate certificates), ssl.truststore.*, "
    "ssl.enabled.protocols and ssl.cipher.suites of controller {of} with those of {by}, and correct what differs",
    DialStep.LOGIN: "Let controller {of} accept the login of {by}: compare the sasl.jaas.config of its controller "
    "listener with theirs",
    DialStep.PERMISSION: "Add the principal of {by} to super.users of controller {of}",
    DialStep.NODE: "Find out on {hosts} where {endpoint} leads: another node answers there",
    DialStep.ANSWER: "Read the log of controller {of}: it accepts connections from {hosts} and does not answer them",
}
"""What is to be corrected, by the step that fails."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each voter that a controller is shown not to reach."""
    down = {node for node in facts.nodes if facts.nodes[node].is_down}
    for voter in facts.nodes.voters:
        dials = {by: of[voter.id] for by, of in sorted(facts.witnesses.unreached.items()) if voter.id in of}
        if dials and voter.id in down:
            yield UnknownResult(subject=_subject(voter.id), why=f"controller {voter.id} is down")
        elif dials:
            yield _finding(facts, voter.id, dials)
        elif voter.id in facts.witnesses.outdated:
            yield UnknownResult(subject=_subject(voter.id), why=facts.witnesses.outdated[voter.id])


def _subject(node: NodeId) -> Subject:
    return Subject("voter", node)


def _finding(facts: Facts, of: NodeId, dials: Mapping[NodeId, PeerDial]) -> Finding:
    left, voters = failures_left(facts), len(facts.nodes.voters)
    spare = "" if left.value is None else f" The quorum tolerates {further_failures_text(left.value)}."
    if_it_leads = f" If it leads, {and_join(dials)} cannot fetch from it"
    no_majority = voters - len(dials) < majority(voters)
    if_it_leads += ": without a majority that does, nothing is committed." if no_majority else "."
    # Whom it votes for and is followed by depends on who is lost.
    takes_part = (
        claim(Question.VOTES, *((NO,) if no_majority else ()), node=of),
        *of_each(Question.VOTES, dials),
    )
    verb, hosts = ("does", "its own host") if len(dials) == 1 else ("do", "their own hosts")
    seen_ms = min(facts.witnesses.rows[by].at_ms for by in dials)
    return Finding(
        subject=_subject(of),
        severity=Severity.CRITICAL if left.value is not None and left.value <= 0 else Severity.WARNING,
        summary=statement(
            Statement(
                f"{numbered('Controller', dials)} {verb} not reach controller {of}: {_why(dials)}. Seen from {hosts} "
                f"at {utc_text(seen_ms)}.{if_it_leads}",
                *takes_part,
            ),
            Statement(spare, failures_claim(left)) if spare else "",
        ),
        evidence={
            "voter": of,
            "endpoint": next(iter(dials.values())).endpoint,
            "not_reached_by": {str(by): f"{dial.step}: {dial.why}" for by, dial in dials.items()},
            "reached_by": [by for by in facts.witnesses.rows if by != of and by not in dials],
            "voters": voters,
            "majority": majority(voters),
        },
        remedy=(
            *_remedy(of, dials),
            f"# Run `kraftwatch witness` with the controller's properties file on {_hosts(dials)} again: the exit code "
            "must be 0",
        ),
    )


def _why(dials: Mapping[NodeId, PeerDial]) -> str:
    """Returns why, once where it is the same for all."""
    whys = {f"{dial.step}, {dial.why}" for dial in dials.values()}
    if len(whys) == 1:
        return whys.pop()
    return "; ".join(f"from {by} {dial.step}, {dial.why}" for by, dial in dials.items())


def _remedy(of: NodeId, dials: Mapping[NodeId, PeerDial]) -> Iterable[str]:
    for step in DialStep:
        by = {node: dial for node, dial in dials.items() if dial.step is step}
        if by:
            endpoint = next(iter(by.values())).endpoint
            text = _STEPS[step].format(of=of, by=numbered("controller", by), hosts=_hosts(by), endpoint=endpoint)
            yield f"# {text}"


def _hosts(by: Iterable[NodeId]) -> str:
    nodes = list(by)
    return f"the host{'' if len(nodes) == 1 else 's'} of {numbered('controller', nodes)}"


def _resolved(facts: Facts, subject: Subject) -> str:
    node = subject.node
    if node in facts.witnesses.reached_by_all:
        return f"Each other controller reaches controller {node}, as seen from their own hosts."
    if facts.witnesses.newest:
        return over(subject)
    return f"No row of a controller's host shows any more whether controller {node} is reached."


RULE = Rule(
    title="A controller does not reach another one, seen from its own host",
    resolved=_resolved,
    hold=hold(60.0, "a row is one attempt: the next one, a minute later, may succeed"),
    # The outage that it explains goes on while it is true.
    without_leader=True,
    grouped_with=("no-leader", "failure-tolerance"),
)
