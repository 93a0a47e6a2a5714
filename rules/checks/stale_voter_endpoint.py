"""The endpoint that the metadata log records for a voter no longer reaches that voter.

What it means
    In an election the controllers reach each other only at the endpoints in the committed VotersRecord, or, in a static
    quorum, in controller.quorum.voters (kraftwatch reads the leader's list, from Kafka 3.9 on). One of these endpoints
    is stale: its name does not resolve (NXDOMAIN), another process answers there, the controller registered
    another endpoint, it refuses or does not serve new connections although the voter fetches, or it presents a
    certificate that no client accepts: expired, not yet valid, for another host name, or not of a trusted certificate
    authority. Established connections do not use DNS or check dates again, and a voter fetches over its own
    connections, so the quorum may work for days and then fail at the next restart or election.

    - Warning: if all controllers restarted now, at least one of them could still win an election.
    - Critical: if all controllers restarted now, none could win an election. From outside the cluster's network a
      result that rests on probes alone is at most a warning.

    A voter that does not fetch and whose name does not resolve is reported by `failure-tolerance` or `voter-lagging`:
    a pod that is down often has no DNS name. This rule reports it only if no leader could be elected.
    Without a leader, `no-leader` reports the endpoints and inhibits this rule.

    A voter that accepts connections and does not answer them may have no file descriptor or thread left. This rule
    reports it while another voter's endpoint answers; if none does, the path from the monitor's host may be the cause,
    and `controller-not-observed` reports it.

    A certificate counts against the voter if kraftwatch accepts that of another voter, or if its dates are wrong by the
    leader's clock too. If kraftwatch accepts no certificate at all, its own truststore or clock may be wrong: this rule
    is then unknown. So it is for a certificate of an authority that kraftwatch's ssl_cafile lacks, while its voter
    fetches: authorities are replaced one controller after the other.

What to do
    1. Do not restart anything yet.
    2. If names do not resolve: make them resolve again on every controller and broker.
    3. Restart these controllers one by one under their new names, the leader last. After each restart wait until the
       new endpoint is recorded. In a static quorum, first write the new names into controller.quorum.voters on every
       controller and broker. Remove the old names only then.
    4. If a certificate is wrong: replace the certificate of that controller, and restart this controller alone. While
       it is wrong the other voters cannot reach the controller: it gives no vote, and they cannot fetch from it.
    5. If it serves no new connections: free its file descriptors or threads, or restart this controller alone.

    A single changed endpoint needs no action if the controller can reach the leader's recorded endpoint: the controller
    then updates its record within seconds.

    `kraftwatch what-if` answers this for other changes: `--restart 2`, `--lose 3`, `--move 2=HOST:PORT`. If no leader
    is left and the old names cannot come back, `kraftwatch rescue plan` prints the way out.

What not to do
    Do not restart a controller while the old names do not resolve: it could not rejoin the quorum.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from rules.answers.election import electable, electable_claim
from rules.answers.forecast import ElectionForecast, forecast_election
from rules.answers.part import electors
from rules.claims.statement import Statement, statement
from rules.claims.words import clause, not_a_voter, predicate, sentence, take_no_part, without
from rules.facts.endpoint import CURED_BY_RESTART, EndpointFault
from rules.facts.endpoint_text import doubt_text, endpoint_kind, evidence_of, faults_text, probe_outcome
from rules.facts.following import Following
from rules.facts.needs import Need
from rules.facts.node import NodeFacts
from rules.facts.node_claims import answers_claim, reached_claim
from rules.facts.quorum import Facts
from rules.facts.reported_leaders import last_leader
from rules.finding import Finding, FindingFacts, Plain, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join
from rules.model.identifiers import NodeId
from rules.model.monitoring import ConnectionResult, ProbeAnswer, ServerCertificate, Vantage
from rules.model.subject import Subject
from rules.remedies.endpoint_steps import certificate_steps, reach_step
from rules.remedies.remedy_commands import describe_status
from rules.remedies.start_conditions import keep_others_running, resolve_names_first
from rules.remedies.step import may_restart, restart_if_safe
from rules.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedEndpoints:
    """The recorded endpoints of all voters: each finding depends on the others."""

    facts: Facts
    severity: Severity
    verdict: Statement
    """Whether a leader could be elected now, in sentences."""
    evidence: Mapping[str, Plain]
    """What is the same in each voter's finding."""
    leader: NodeFacts | None
    """The leader; None if it is not a voter."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each voter whose recorded endpoint is stale, all with the severity of an election now."""
    election = cache(lambda: forecast_election(electors(facts)))
    endpoints = cache(lambda: _voter_endpoints(facts, election()))
    for voter in facts.nodes.voters:
        if not voter.faults:
            unknown = doubt_text(voter)
        elif _is_down_with_its_name(voter) and election().electable:
            unknown = "it does not fetch: failure-tolerance or voter-lagging reports it, with its endpoint"
        else:
            yield _finding(endpoints(), voter)
            continue
        if unknown is not None:
            yield UnknownResult(subject=_subject(voter), why=unknown)


def _voter_endpoints(facts: Facts, election: ElectionForecast) -> _RecordedEndpoints:
    voters, leader = facts.nodes.voters, last_leader(facts.quorum)
    return _RecordedEndpoints(
        facts=facts,
        severity=_severity(facts, election),
        verdict=_verdict(facts, election),
        evidence=_shared_evidence(facts, election),
        leader=next((voter for voter in voters if voter.id == leader), None),
    )


def _subject(voter: NodeFacts) -> Subject:
    """Returns the subject of findings about this voter: it stays the same when the directory id changes."""
    return Subject("voter", voter.id)


def _is_down_with_its_name(voter: NodeFacts) -> bool:
    """Returns whether the name may be missing only because the voter is down, as that of a deleted pod is."""
    return voter.following is Following.NOT_FETCHING and voter.faults == (EndpointFault.NAME_NOT_FOUND,)


def _shared_evidence(facts: Facts, election: ElectionForecast) -> dict[str, Plain]:
    best = election.best
    return {
        "leader": last_leader(facts.quorum),
        "electable_if_all_restarted": electable(facts).value,
        "majority": facts.nodes.dialled.majority if facts.nodes.dialled else None,
        "indispensable_voters": [str(key) for key in election.indispensable],
        "best_candidate": str(best.key) if best else None,
        "votes_for_best_candidate": [str(key) for key in best.reached] if best else [],
        "votes_it_cannot_get": {str(key): why for key, why in best.barred.items()} if best else {},
        "endpoints": {str(voter.key): f"{voter.endpoint}: {probe_outcome(voter)}" for voter in facts.nodes.voters},
    }


def _severity(facts: Facts, election: ElectionForecast) -> Severity:
    if election.electable:
        return Severity.WARNING
    if facts.quorum.vantage is Vantage.INSIDE:
        return Severity.CRITICAL
    # From outside the cluster's network, only the metadata log itself can make the finding critical.
    by_log = forecast_election(electors(facts, by_probes=False))
    return Severity.WARNING if by_log.electable else Severity.CRITICAL


def _finding(endpoints: _RecordedEndpoints, voter: NodeFacts) -> Finding:
    return Finding(
        subject=_subject(voter),
        severity=endpoints.severity,
        summary=_summary(endpoints, voter),
        evidence=_evidence(endpoints, voter),
        facts=FindingFacts(failed_nodes=(voter.id,) if EndpointFault.OTHER_RESPONDER in voter.faults else ()),
        remedy=tuple(_remedy(endpoints, voter)),
        starts=tuple(
            controller.id
            for controller in endpoints.facts.nodes.voters
            if controller is voter or not voter.only_its_restart_helps
        ),
        keep_running=frozenset(
            controller.id
            for controller in endpoints.facts.nodes.voters
            if controller is not voter and EndpointFault.NOT_SERVING in voter.faults
        ),
    )


def _summary(endpoints: _RecordedEndpoints, voter: NodeFacts) -> Statement:
    vantage = " Probed from outside the cluster's network." if endpoints.facts.quorum.vantage is Vantage.OUTSIDE else ""
    endpoint = f"{endpoint_kind(endpoints.facts.quorum)} endpoint {voter.endpoint}"
    return statement(f"Voter {voter.id}'s {endpoint} ", faults_text(voter), ". ", endpoints.verdict, vantage)


def _verdict(facts: Facts, election: ElectionForecast) -> Statement:
    """Returns what `kraftwatch what-if` answers for a restart of all controllers, as sentences."""
    answer = electable(facts)
    voters = facts.nodes.voters
    work = sum(_works(voter) for voter in voters)
    unchecked = sum(voter.reachable and not _works(voter) for voter in voters)
    counted = f"{work} of {len(voters)} {endpoint_kind(facts.quorum)} endpoints {'works' if work == 1 else 'work'}"
    more = f", {unchecked} could not be checked" if unchecked else ""
    could = sentence(clause(electable_claim(answer)), f": {counted}{more}.")
    last = [key.id for key in election.indispensable]
    if not last:
        return could
    return statement(could, " ", sentence(without(last)), ".")


def _works(voter: NodeFacts) -> bool:
    probe = voter.probe
    unanswered = probe is None or probe.answer in (ProbeAnswer.NO_ANSWER, ProbeAnswer.LATE)
    accepted = probe is not None and probe.connection is ConnectionResult.ACCEPTED and not unanswered
    return voter.reachable and accepted


def _evidence(endpoints: _RecordedEndpoints, voter: NodeFacts) -> dict[str, Plain]:
    quorum, probe = endpoints.facts.quorum, voter.probe
    registration = quorum.controllers.get(voter.id)
    return {
        **evidence_of(voter),
        "listener": voter.endpoint.listener if voter.endpoint else None,
        **({"voters_record_offset": quorum.committed.offset} if quorum.committed and not quorum.is_static else {}),
        "stale_because": [fault.value for fault in voter.faults],
        "registered_at_offset": registration.at.offset if registration else None,
        "vantage": quorum.vantage.value,
        "resolved_to": list(probe.addresses) if probe else [],
        **(_certificate(probe.certificate) if probe and probe.certificate else {}),
        **endpoints.evidence,
    }


def _certificate(certificate: ServerCertificate) -> dict[str, Plain]:
    return {
        "certificate_fault": certificate.fault.value if certificate.fault else None,
        "certificate_begins_at_ms": certificate.valid_from_ms,
        "certificate_expires_at_ms": certificate.expires_at_ms,
    }


def _remedy(endpoints: _RecordedEndpoints, voter: NodeFacts) -> Iterable[str]:
    unresolved = [
        controller for controller in endpoints.facts.nodes.voters if EndpointFault.NAME_NOT_FOUND in controller.faults
    ]
    if unresolved:
        yield from _restore_names(endpoints, unresolved)
    for fault in voter.faults:
        if not unresolved or fault in CURED_BY_RESTART:
            yield from _fix(endpoints, voter, fault)
    if voter.only_its_restart_helps:
        return
    kind = endpoint_kind(endpoints.facts.quorum)
    yield f"# Check the {kind} endpoints: CurrentVoters must show each controller's real endpoint"
    yield describe_status(endpoints.facts, excluding=voter.id)


def _restore_names(endpoints: _RecordedEndpoints, unresolved: Sequence[NodeFacts]) -> Iterable[str]:
    """Yields the steps that were proven on a real quorum: with the old names back, each restart updates one record."""
    yield from resolve_names_first(endpoints.facts)
    known = endpoints.facts.quorum.addresses
    hosts = sorted({voter.endpoint.host for voter in unresolved if voter.endpoint})
    names = [f"{host} (it was {and_join(known[host])})" if known.get(host) else host for host in hosts]
    yield from (f"# Make {name} resolve again on every controller and broker" for name in names)
    leader = endpoints.leader
    last = f", the leader (controller {leader.id}) last" if leader else ", the leader last"
    if endpoints.facts.quorum.is_static:
        yield may_restart(
            "# If a name changed for good, write the new one into controller.quorum.voters on every controller and "
            f"broker, and restart the controllers one by one{last}",
            *_all(endpoints.facts),
        )
        yield "# Remove the old names only when every controller and broker has the new ones"
        return
    nodes = [voter.id for voter in unresolved]
    if len(nodes) == len(endpoints.facts.nodes.voters):
        renamed = f"the controllers one by one under their new names{last}"
    elif len(nodes) > 1:
        renamed = f"controllers {and_join(nodes)} one by one under their new names" + (
            last if leader and leader.id in nodes else ""
        )
    else:
        renamed = f"controller {nodes[0]} under its new name"
    each_time = "" if len(nodes) == 1 else "each time "
    yield may_restart(
        f"# Then restart {renamed}, and wait {each_time}until the new endpoint is recorded (about ten seconds)", *nodes
    )
    yield "# Remove the old names only when all new endpoints are recorded"


def _fix(endpoints: _RecordedEndpoints, voter: NodeFacts, fault: EndpointFault) -> Iterable[str]:
    node, endpoint = voter.id, voter.endpoint
    match fault:
        case EndpointFault.NAME_NOT_FOUND:
            return
        case EndpointFault.OTHER_RESPONDER:
            yield reach_step(endpoints.facts, voter)
        case EndpointFault.REFUSED_WHILE_FETCHING:
            yield f"# Check on controller {node}'s host where it listens: it runs, but nothing listens at {endpoint}"
            yield f"# Make {endpoint} reach it again, by port mapping or listener"
            yield _moved_step(endpoints.facts, node)
        case EndpointFault.REGISTRATION_DIFFERS:
            yield from _update_record(endpoints, node)
        case EndpointFault.CERTIFICATE:
            yield from certificate_steps(voter)
        case EndpointFault.NOT_SERVING:
            yield keep_others_running(endpoints.facts, voter)
            yield (
                f"# Count the open files of controller {node}'s process, and compare them with its limit (ulimit -n); "
                "take a thread dump; check max.connections, and what is between the controllers"
            )
            yield restart_if_safe(
                f"# Then restart controller {node} alone, if `kraftwatch safe-to-restart {node}` permits it", node
            )


def _moved_step(facts: Facts, node: NodeId) -> str:
    if facts.quorum.is_static:
        return may_restart(
            f"# If it moved permanently, write controller {node}'s new endpoint into controller.quorum.voters on every "
            "controller and broker, and restart the controllers one by one, the leader last",
            *_all(facts),
        )
    return may_restart(
        f"# If it moved permanently, restart controller {node} with its new endpoint in advertised.listeners: it then "
        "updates its record",
        node,
    )


def _all(facts: Facts) -> Iterable[NodeId]:
    return (voter.id for voter in facts.nodes.voters)


def _update_record(endpoints: _RecordedEndpoints, node: NodeId) -> Iterable[str]:
    leader = endpoints.leader
    if leader is not None and leader.id != node:
        yield (
            f"# Make {leader.endpoint} reachable from controller {node}'s host: it is the leader's recorded endpoint, "
            f"and controller {node} sends its new endpoint there every few seconds"
        )
    yield may_restart(f"# If its record has not changed after one minute, restart controller {node}", node)


def _resolved(facts: Facts, subject: Subject) -> str:
    node = subject.node
    voter = next((controller for controller in facts.nodes.voters if controller.id == node), None)
    if voter is None:
        return not_a_voter(node)
    endpoint = f"{endpoint_kind(facts.quorum)} endpoint {voter.endpoint}"
    if (voter.refused and not voter.faults and not voter.following.fetches) or _is_down_with_its_name(voter):
        answers = [predicate(one) for one in answers_claim(voter)]
        found = (f" Its {endpoint} ", *answers, ", and is not known to be wrong.") if answers else ()
        return statement(f"Controller {node} is down: it ", take_no_part((node,)), ".", *found)
    reached = reached_claim(voter)
    if not _works(voter) or not reached:
        return f"Voter {node}'s {endpoint} is not known to be wrong ({probe_outcome(voter)})."
    return statement(f"Voter {node} ", predicate(reached[0]), f" at its {endpoint}.")


RULE = Rule(
    title="A voter's recorded endpoint is stale",
    resolved=_resolved,
    hold=hold(30.0, "a controller that restarts with a new endpoint updates the record within seconds"),
    needs=(Need.VOTER_ENDPOINTS,),
)
