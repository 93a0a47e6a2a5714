"""The controllers log in to each other with SCRAM: if all of them stop, none accepts another one's login again.

What it means
    Nothing has failed yet. SCRAM credentials are in the metadata log itself (KIP-900), and a controller reads them only
    once there is a leader. After a power failure, or any other stop of a majority, each controller that starts rejects
    the logins of the others: no leader is elected, for ever.

    It is known where the monitor may read the configuration of controllers (`DESCRIBE_CONFIGS` on CLUSTER).

What to do
    Let the controllers log in to each other with PLAIN, GSSAPI or mutual TLS, whose credentials are outside the log.
    Clients and brokers may go on with SCRAM.

    1. Add the other mechanism to `sasl.enabled.mechanisms` of the controllers, with its `sasl.jaas.config`, and restart
       them one by one.
    2. Set `sasl.mechanism.controller.protocol` to it on controllers and brokers, and restart them one by one.

What not to do
    Do not stop all controllers at the same time before that, nor a majority of them.
"""

from collections.abc import Iterable

from rules.answers.now import over
from rules.claims.words import NO_LEADER_ELECTED
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join, numbered, plural
from rules.model.identifiers import NodeId
from rules.model.membership import majority
from rules.model.monitoring import ConnectionResult, ProbeAnswer
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.rule import Rule

_LOGINS = Subject("logins")


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding if so many voters log in with SCRAM that the others are no majority."""
    voters = _voters(facts)
    if not facts.quorum.access.protocol.startswith("SASL_") or not voters:
        return
    logins, scram, spare = _logins(facts, voters), _with_scram(facts, voters), len(voters) - majority(len(voters))
    not_reached = [node for node in voters if not _is_reached(facts, node)]
    if len(scram) > spare:
        yield _finding(facts, scram, logins, len(voters))
    elif len(scram) + len(not_reached) > spare:
        yield UnknownResult(subject=_LOGINS, why=f"no current probe has reached {numbered('controller', not_reached)}")


def _logins(facts: Facts, voters: Iterable[NodeId]) -> dict[NodeId, str]:
    """Returns how these log in to the others, as far as it is known.

    One that answers the monitor at the listener of the controllers uses the monitor's protocol there.
    """
    probes = {node: facts.nodes[node].probe for node in voters}
    return {
        node: probe.controller_login
        for node, probe in probes.items()
        if probe is not None and probe.answer is ProbeAnswer.THIS_CLUSTER and probe.controller_login
    }


def _with_scram(facts: Facts, voters: Iterable[NodeId]) -> list[NodeId]:
    return [node for node, mechanism in _logins(facts, voters).items() if mechanism.startswith("SCRAM-")]


def _is_reached(facts: Facts, node: NodeId) -> bool:
    probe = facts.nodes[node].probe
    return probe is not None and probe.connection is ConnectionResult.ACCEPTED


def _voters(facts: Facts) -> list[NodeId]:
    quorum = facts.quorum
    if quorum.committed is not None:
        return sorted(quorum.voter_ids)
    poll = facts.nodes.poll
    return sorted(poll.voter_ids) if poll else []


def _finding(facts: Facts, scram: list[NodeId], logins: dict[NodeId, str], voters: int) -> Finding:
    mechanisms = and_join(sorted({logins[node] for node in scram}))
    return Finding(
        subject=_LOGINS,
        severity=Severity.WARNING,
        summary=f"After a stop of all controllers {NO_LEADER_ELECTED}: {len(scram)} of "
        f"{plural(voters, 'voter')} log in to the others with {mechanisms}, whose credentials are in the metadata log. "
        "Without a leader each controller rejects the others.",
        evidence={
            "sasl.mechanism.controller.protocol": {str(node): mechanism for node, mechanism in sorted(logins.items())},
            "voters": voters,
            "majority": majority(voters),
        },
        remedy=(
            "# Do not stop all controllers, or a majority of them, at the same time: restart them one by one",
            "# Add PLAIN or GSSAPI with its sasl.jaas.config to the controllers' sasl.enabled.mechanisms, and restart "
            "them one by one; or move them to a listener with mutual TLS",
            "# Then set sasl.mechanism.controller.protocol to it on every controller and broker, and restart them one "
            "by one",
            describe_status(facts),
        ),
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    voters = _voters(facts)
    if not _logins(facts, voters) or len(_with_scram(facts, voters)) > len(voters) - majority(len(voters)):
        return over(subject)
    return "Enough controllers log in to the others without SCRAM to elect a leader after a stop of all."


RULE = Rule(
    title="Controllers could not log in to each other after all have stopped",
    resolved=_resolved,
    hold=hold(3_600.0, "a rolling restart to another mechanism takes a while, and nothing has failed yet"),
    needs=(Need.VOTER_ENDPOINTS,),
)
