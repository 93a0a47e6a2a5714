"""No controller leads the metadata quorum.

What it means
    At least one controller answers that it knows no leader, or every voter refuses connections where the log records
    it, or answers that it does not lead. No metadata change is possible: no topic is created, no broker joins, no
    partition gets a new leader. Produce and fetch continue where a partition's leader is alive, until the next broker
    fails.

    An election takes one or two seconds and does not fire this alert. If kraftwatch only cannot observe the quorum
    (timeouts, names, permissions), `monitor-blind` fires instead. So it does while a voter that may lead was not
    reached: a controller that answers that another one leads reports no missing leader, and refused connections at
    addresses that are configured and not recorded show only that the configuration is out of date. The same holds if
    a majority of the controllers reject kraftwatch's login. If a majority of the voters follow a leader, the quorum has
    one, even if that leader does not answer kraftwatch: this alert does not fire, or it resolves.

    Where no leader has answered yet, because kraftwatch was started during the outage, only `bootstrap` is known. The
    alert fires if three controllers or more are configured and all of them refuse connections, but for fewer names that
    do not resolve (not with `vantage: outside`); if those that answer name a leader that refuses connections; or if
    they do not lead, and so many of the others refuse that no majority is left. With fewer addresses `monitor-blind`
    fires: there may be other controllers.

    A controller that answered at an address that is not recorded, such as another name of its host, counts as itself
    there: several of its addresses are one voter, and it is down if all of them refuse connections and its recorded
    endpoint cannot be observed. kraftwatch recognizes it if it leads, or with DESCRIBE_CONFIGS on CLUSTER.

    A leader whose endpoint refuses connections is down: its followers remember it, and name it. So this alert also
    fires if a firewall refuses kraftwatch's connections to the leader alone; one that drops them does not look like it.

    A controller whose authorizer denied what the others send, when it last answered, is named although it is down: each
    controller that it denied has ended.

    If a majority of the voters started after a leader last answered, and reject kraftwatch's login since, they may
    reject each other too: the alert fires, or goes on, and says so.

    If connections to a majority of the voters time out, where they were accepted before, this alert may fire although
    one of them leads.

What to do
    A leader is elected within seconds once a majority of the voters run and reach each other at the endpoints recorded
    in the log.

    1. Start the controllers that are down.
    2. A controller that accepts connections and does not answer is hung: take a thread dump of it, then restart it.
       If connections to it time out, check its host first.
    3. Restore names and ports that were removed: the endpoints in the log count, not those in the configuration.
    4. Replace a certificate that the other controllers do not accept: expired, for another host name, or not of a
       trusted certificate authority.
    5. If a majority runs and there is still no leader, check the network between the controllers, and read in their
       logs which voter rejects which vote request. A controller whose log directory was formatted again is no longer
       the recorded voter, and has no vote: give it the former directory back. If it was formatted over the same log,
       write the former `directory.id` back: `kraftwatch rescue plan` compares the logs. In a static quorum each
       controller counts votes by its own `controller.quorum.voters`: all need the same list, with names that they can
       resolve.
    6. "failed authentication" or "SSL handshake failed" in their logs: correct the logins and certificates. SCRAM works
       between them only while there is a leader: its credentials are in the metadata log, and a restarted controller
       reads them when it has found one. Give their listener PLAIN, GSSAPI or mutual TLS.
    7. AuthorizerNotReadyException or ClusterAuthorizationException: add the principals of all controllers to
       `super.users` of each controller. ACLs are in the metadata log too.
    8. If controllers run at other endpoints for good, stop them all and write the new endpoints into each:
       `kraftwatch rescue plan` reads a copy of every metadata.log.dir and prints the procedure; the alert holds the
       list of this cluster. `kraftwatch what-if` predicts from the copies who can be elected.

    If a host is lost and its disk is not, start the controller from that disk at the same endpoint. If so many voters
    are gone for good, with their disks, that no majority can run, there is no safe recovery: committed metadata
    may be on the lost disks alone. An override of the voters' endpoints (KIP-1347, `kraftwatch rescue`) does not
    help: it needs a majority of the disks. `kraftwatch rescue plan` then prints which log is the most complete.

What not to do
    Do not format or wipe a controller to "start afresh": a majority of the logs is the cluster's metadata.
    Do not restart the controllers that still answer.
"""

from collections.abc import Iterable, Mapping

from rules.answers.forecast import forecast_election
from rules.answers.leader import LeaderUnknown, Leads, leader
from rules.answers.now import in_sync_text, leads
from rules.answers.part import electors
from rules.claims.claim import NO, NOBODY, At, Question, claim, of_each
from rules.claims.statement import Statement, joined, statement
from rules.facts.contact import recorded_endpoints
from rules.facts.doubts import About
from rules.facts.endpoint import EndpointFault
from rules.facts.endpoint_text import certificate_text, endpoint_kind, evidence_of, faults_text
from rules.facts.leadership import Leaderless
from rules.facts.node import NodeFacts, Process
from rules.facts.node_claims import answers_claim
from rules.facts.quorum import Facts
from rules.facts.reported_leaders import last_leader, last_leader_answer_ms
from rules.finding import HOLD, Finding, Plain, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import and_join, needed_text, numbered, plural, utc_text
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.membership import majority
from rules.model.monitoring import Connection, Resolution
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.endpoint_steps import certificate_steps
from rules.remedies.remedy_commands import (
    SCRAM_NEEDS_A_LEADER,
    describe_status,
    find_host,
    rescue_if_moved,
    restart_hung,
)
from rules.rule import Rule

_START = Threshold(
    name="start_hold",
    default=30.0,
    meaning="the same while every configured controller refuses connections and none has answered yet: kraftwatch may "
    "be started together with them",
)
_MISSING = {
    Process.DOWN: "down (connections are refused)",
    Process.HUNG: "hung (accepting connections, not answering)",
    Process.NOT_REACHED: "not reached (connections time out or have no route)",
}
"""The states of a process in which its voter takes part in no election."""
_AT = {Process.DOWN: At.REFUSES, Process.HUNG: At.HANGS, Process.NOT_REACHED: At.UNREACHED}
"""What answers at the endpoint of such a voter."""
_NOT_COUNTED = frozenset({*EndpointFault} - {EndpointFault.REGISTRATION_DIFFERS})
"""The faults with which a voter is not reached: one that moved dials the others, and may win with their votes."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the quorum while the newest observations report no leader."""
    match leader(facts):
        case LeaderUnknown(why=why):
            yield UnknownResult(why=why)
        case Leaderless() as state:
            yield _finding(facts, state, thresholds)
        case Leads():
            return


def _finding(facts: Facts, state: Leaderless, thresholds: Thresholds) -> Finding:
    voters = tuple(facts.nodes[node] for node in sorted(facts.quorum.voter_ids))
    return Finding(
        subject=Subject("quorum"),
        severity=Severity.CRITICAL,
        summary=_summary(facts, state, voters),
        evidence=_evidence(facts, state, voters),
        remedy=_remedy(facts, state, voters),
        starts=tuple(voter.id for voter in voters if not voter.reachable or _does_not_answer(voter)),
        hold_ms=max(thresholds.ms(HOLD), thresholds.ms(_START.name)) if state.never_answered else None,
    )


def _summary(facts: Facts, state: Leaderless, voters: tuple[NodeFacts, ...]) -> Statement:
    quorum = facts.quorum
    at = last_leader_answer_ms(quorum)
    since = "" if at is None else f" since {utc_text(at)}"
    first_ms = min((failure.first_at_ms for failure in state.failures), default=quorum.watched_since_ms)
    if at is not None and at < quorum.watched_since_ms <= first_ms:
        # Nobody knows how long the quorum still had a leader while the monitor did not observe it.
        since = f" at least since {utc_text(quorum.watched_since_ms)}"
    led = last_leader(quorum)
    last = "" if led is None else f" The last leader was controller {led}."
    if state.rejecting:
        reasons = and_join(sorted({failure.reason for failure in state.failures}))
        return Statement(
            f"No leader is known{since}: the controllers at {and_join(state.rejecting, 4)} were down, run again, and "
            f"reject the monitor ({reasons}). If they reject each other as well, none of them is elected.{last}",
            claim(Question.LEADER, NOBODY),
        )
    if state.never_answered:
        return Statement(
            f"No leader is known: the configured controllers at {and_join(state.refused, 4)} refuse connections, and "
            "none has answered yet. If there are no others, no metadata change is possible.",
            claim(Question.LEADER, NOBODY),
        )
    return statement(
        Statement(
            f"No leader{since}: no metadata change is possible. ",
            claim(Question.LEADER, NOBODY),
            claim(Question.COMMITS, NO),
        ),
        _voters(facts, state, voters),
        _uncommitted_voters(quorum),
        _denials(facts),
        last,
    )


def _denials(facts: Facts) -> str:
    """Returns which controllers deny what a candidate sends; it begins with a space, and is empty without any."""
    found = facts.denied_before_outage
    if len(found) > 1:
        nodes = numbered("controller", sorted(found)).capitalize()
        return (
            f" {nodes} deny the monitor, or did when they last answered, and maybe the other controllers (their "
            "authorizers deny CLUSTER_ACTION): a controller that they deny ends."
        )
    return "".join(f" Controller {node} {why}: a controller that it denies ends." for node, why in found.items())


def _uncommitted_voters(quorum: Quorum) -> str:
    """Returns which votes are needed by the newest voter set of the last leader: replicas use it before it commits."""
    poll, committed = quorum.poll, quorum.committed
    if poll is None or committed is None or poll.voter_keys == committed.keys:
        return ""
    if poll.high_watermark is None or poll.high_watermark <= committed.offset:
        # The newest poll is from before the committed change.
        return ""
    nodes = sorted(key.id for key in poll.voter_keys)
    return (
        f" The last leader's change of the voters to {and_join(nodes)} may not be committed: with it "
        f"{majority(len(nodes))} of these {len(nodes)} votes are needed."
    )


def _voters(facts: Facts, state: Leaderless, voters: tuple[NodeFacts, ...]) -> str:
    if not voters:
        if not state.answered:
            return "Every configured controller refuses connections."
        return f"Reported by {and_join(state.answered, 3)}."
    processes = {voter.id: voter.process for voter in voters}
    missing = [node for node, process in processes.items() if process in _MISSING]
    lost = [voter.id for voter in voters if EndpointFault.NAME_NOT_FOUND in voter.faults]
    refused = [voter for voter in voters if not voter.can_lead]
    replaced = facts.replaced_disks
    sentences = [
        *_without_vote(facts, len(voters)),
        *(
            Statement(
                f"{_controllers(nodes)} {what}.",
                *of_each(Question.ENDPOINT, nodes, _AT[state]),
                *of_each(Question.VOTES, nodes, NO),
            )
            for state, what in _MISSING.items()
            if (nodes := [node for node in missing if processes[node] is state])
        ),
        *_refusing_elsewhere(voters),
        *([_lost_names(lost)] if lost else []),
        *(
            Statement(
                f"The certificate of controller {controller.id} {certificate_text(controller.probe)}.",
                claim(Question.VOTES, NO, node=controller.id),
            )
            for controller in refused
            if controller.probe
        ),
        *(
            statement(
                f"Voter {voter.id}'s {endpoint_kind(facts.quorum)} endpoint {voter.endpoint} ", faults_text(voter), "."
            )
            for voter in voters
            if EndpointFault.OTHER_RESPONDER in voter.faults and voter.id not in missing
        ),
    ]
    running, needed = _reached(facts, voters), majority(len(voters))
    if not sentences:
        accepting = [one for voter in voters for one in answers_claim(voter)] if _all_accept(voters) else []
        claims = (claim(Question.WON, NO), *accepting)
        if len(voters) == 1:
            return Statement(
                f"The only voter {'accepts connections and ' if accepting else ''}wins no election.", *claims
            )
        if accepting:
            return Statement(
                f"All {len(voters)} voters accept connections, and none of them wins an election.", *claims
            )
        return Statement(f"None of the {len(voters)} voters wins an election.", *claims)
    reached = "run with their recorded directory id at most" if replaced else "can be reached"
    return statement(
        joined(sentences),
        Statement(
            f" {running} of {plural(len(voters), 'voter')} {reached}; {needed_text(needed)}.",
            claim(Question.REACHED, running),
        ),
    )


def _refusing_elsewhere(voters: tuple[NodeFacts, ...]) -> Iterable[str]:
    """Yields which voters are down by what is at other addresses of theirs: the recorded ones are out of sight."""
    addresses = {voter.id: voter.refuses_elsewhere for voter in voters}
    if nodes := [node for node, refusing in addresses.items() if refusing]:
        where = and_join([address for node in nodes for address in addresses[node]], 4)
        refuse, they = ("refuses", "it") if len(nodes) == 1 else ("refuse", "they")
        controllers = numbered("controller", nodes).capitalize()
        yield f"{controllers} {refuse} connections at {where}, where {they} answered before."


def _lost_names(nodes: list[NodeId]) -> Statement:
    names, do = ("name", "does") if len(nodes) == 1 else ("names", "do")
    return Statement(
        f"The recorded {names} of {numbered('controller', nodes)} {do} not resolve.",
        *of_each(Question.REACHES, nodes, NO),
        *of_each(Question.ENDPOINT, nodes, At.UNRESOLVED),
    )


def _reached(facts: Facts, voters: tuple[NodeFacts, ...]) -> int:
    """Returns how many voters run with their recorded disk, and can be reached where the others dial them."""
    return _running(facts, tuple(voter for voter in voters if EndpointFault.REGISTRATION_DIFFERS not in voter.faults))


def _running(facts: Facts, voters: tuple[NodeFacts, ...]) -> int:
    """Returns how many voters run with their recorded disk, as far as is known, and may win an election."""
    replaced = facts.replaced_disks
    return sum(
        _NOT_COUNTED.isdisjoint(voter.faults)
        and voter.id not in replaced
        and voter.process not in _MISSING
        and not voter.refuses_elsewhere
        for voter in voters
    )


def _without_vote(facts: Facts, voters: int) -> Iterable[str]:
    replaced = facts.replaced_disks
    if replaced:
        ids = "another directory id" if len(replaced) == 1 else "other directory ids"
        yield Statement(
            f"{_controllers(sorted(replaced))} running with {ids}, "
            f"{and_join([str(key) for key in replaced.values()])}, without a vote.",
            *of_each(Question.VOTES, replaced, NO),
        )


def _all_accept(voters: tuple[NodeFacts, ...]) -> bool:
    probes = [voter.probe for voter in voters if voter.reachable]
    accepted = [probe for probe in probes if probe is not None and probe.connection is Connection.ACCEPTED]
    return len(accepted) == len(voters)


def _does_not_answer(voter: NodeFacts) -> bool:
    return voter.process in (Process.HUNG, Process.NOT_REACHED) or bool(voter.refuses_elsewhere)


def _controllers(nodes: list[NodeId]) -> str:
    return f"Controller {nodes[0]} is" if len(nodes) == 1 else f"Controllers {and_join(nodes)} are"


def _evidence(facts: Facts, state: Leaderless, voters: tuple[NodeFacts, ...]) -> dict[str, Plain]:
    quorum = facts.quorum
    at = last_leader_answer_ms(quorum)
    moved = forecast_election(electors(facts))
    down = forecast_election(electors(facts, refusing_are_down=True))
    return {
        "no_leader_reported_by": list(state.answered),
        "polls_refused_by": list(state.refused),
        "connections_refused_by": [
            *sorted({*state.refused, *(str(controller.endpoint) for controller in _down(quorum, voters))})
        ],
        **({"started_and_rejecting": [*state.rejecting]} if state.rejecting else {}),
        "last_leader": last_leader(quorum),
        "last_leader_epoch": quorum.leader_epoch,
        "last_leader_answer_at_ms": at,
        "last_committed_offset": quorum.last_offset,
        "voters_record_offset": quorum.committed.offset if quorum.committed else None,
        "majority": quorum.committed.majority if quorum.committed else None,
        "electable_if_refusing_voters_moved": moved.electable if voters else None,
        "electable_if_refusing_voters_are_down": down.electable if voters else None,
        "voters": {str(voter.key): _voter(quorum, voter) for voter in voters},
    }


def _down(quorum: Quorum, voters: tuple[NodeFacts, ...]) -> list[NodeFacts]:
    """Returns the voters at whose recorded endpoint the newest probe was refused: those that the summary calls down."""
    return [voter for voter in voters if voter.process is Process.DOWN]


def _voter(quorum: Quorum, voter: NodeFacts) -> dict[str, Plain]:
    history = quorum.histories.get(voter.key)
    return {
        **evidence_of(voter),
        "log_end_offset": history.last_log_end_offset if history else None,
        "log_end_epoch": history.last_leader_epoch if history else None,
    }


def _remedy(facts: Facts, state: Leaderless, voters: tuple[NodeFacts, ...]) -> tuple[str, ...]:
    quorum = facts.quorum
    steps = [step for voter in voters for step in _step(quorum, voter)]
    if state.rejecting:
        steps += [
            "# Read in the controllers' logs whether they reject each other (failed authentication, "
            "ClusterAuthorizationException, SSLHandshakeException)",
            "# If they do, give all of them, one after the other, credentials and certificates that the others accept, "
            "and add their principals to super.users",
            SCRAM_NEEDS_A_LEADER,
        ]
        return (*steps, "# Check which controller is the leader", describe_status(facts))
    if not voters and state.refused:
        # The voters' endpoints are not known: the quorum is static, or its log was never read.
        controllers = "controller" if len(state.refused) == 1 else "controllers"
        steps = [f"# Start the {controllers} at {and_join(state.refused)}: connections are refused there"]
        if state.never_answered:
            steps.append(f"# If they run elsewhere, correct bootstrap of cluster {quorum.cluster} in the configuration")
    steps = [*_permission_steps(facts), *steps]
    where_to_look = tuple(_election_steps(facts, state, voters, explained=bool(steps)))
    majority_steps = tuple(_majority_steps(facts, voters)) if voters else ()
    steps += [*majority_steps, *where_to_look] if steps else [*where_to_look, *majority_steps]
    refused = next((voter.id for voter in voters if not voter.can_lead), None)
    return (*steps, "# Check which controller is the leader", describe_status(facts, excluding=refused))


def _permission_steps(facts: Facts) -> Iterable[str]:
    if found := facts.denied_before_outage:
        yield (
            f"# Before you start a controller, add the principals of all controllers to super.users of "
            f"{numbered('controller', sorted(found))} (authorizer.class.name): controllers that are denied end with "
            "ClusterAuthorizationException"
        )


def _election_steps(
    facts: Facts, state: Leaderless, voters: tuple[NodeFacts, ...], *, explained: bool
) -> Iterable[str]:
    """Yields where to look while so many voters run that one of them should win an election.

    `explained`: a step before names the fault of a voter.
    """
    number = facts.who_leads.number_of_voters
    running, needed = _running(facts, voters) if voters else _answering(facts.quorum, state), majority(number)
    if not explained:
        because = ": the voters' endpoints accept connections" if voters and _all_accept(voters) else ""
        yield f"# Check in the controllers' logs why no election is won{because}"
    elif running >= needed:
        yield Statement(
            f"# If no leader is elected then, check in the controllers' logs why: {running} of the {number} voters run "
            f"already, and {needed} are enough",
            claim(Question.RUNNING, running),
        )
    else:
        return
    if voters:
        keys = and_join([str(voter.key) for voter in voters])
        yield (
            f"# Compare directory.id in each controller's meta.properties with the voters {keys}: a controller whose "
            "directory was formatted again has no vote until it has the former one, or the former id over the same log"
        )
    else:
        yield (
            "# Compare controller.quorum.voters of all controllers: each needs the same list, and names that it can "
            "resolve"
        )
    if running >= needed:
        for node, doubt in facts.doubts_about({About.UNLIKE_OTHERS}).items():
            yield (
                f"# Controller {node} {doubt.detail}: if the others reject it, or it them, give it what they have, and "
                "restart it"
            )
        yield (
            '# If their logs say "failed authentication" or "SSL handshake failed", correct the logins and the '
            "certificates of the controllers to each other"
        )
        yield SCRAM_NEEDS_A_LEADER
        yield (
            "# If their logs say AuthorizerNotReadyException or ClusterAuthorizationException, add the principals of "
            "all controllers to super.users of each controller"
        )


def _answering(quorum: Quorum, state: Leaderless) -> int:
    """Returns how many voters of a static quorum answer: an address that is asked may be that of another node."""
    if not state.refused:
        return len(state.answered)
    recorded = recorded_endpoints(quorum)
    return sum(any(str(endpoint) in state.answered for endpoint in endpoints) for endpoints in recorded.values())


def _majority_steps(facts: Facts, voters: tuple[NodeFacts, ...]) -> Iterable[str]:
    needed = majority(len(voters))
    if replaced := facts.replaced_disks:
        yield from _steps_without_disks(replaced, voters, needed)
        return
    if len(voters) == 1:
        yield "# Wait until the only voter runs: it then elects itself within seconds"
    elif all(voter.reachable and not _does_not_answer(voter) for voter in voters):
        yield f"# Wait until one of the voters wins an election: it needs {needed} of the {len(voters)} votes"
    else:
        yield (
            f"# Wait until {needed} of the {len(voters)} voters run: they elect a leader within seconds if they "
            "reach each other at their recorded endpoints"
        )
    if any(not voter.reachable and voter.faults != (EndpointFault.CERTIFICATE,) for voter in voters):
        yield from rescue_if_moved(facts.quorum)
    if len(voters) - len(_down(facts.quorum, voters)) < needed:
        yield (
            "# If a host is lost and its disk is not, start its controller from that disk at the same endpoint: no "
            "other copy of its log counts as its vote"
        )
        lost = f"fewer than {needed} of the voters' disks are left" if needed > 1 else "the disk of the voter is lost"
        yield (
            f"# If {lost}, there is no safe recovery: committed metadata may be lost, and an override of the voters "
            "does not help"
        )


def _steps_without_disks(
    replaced: Mapping[NodeId, ReplicaKey], voters: tuple[NodeFacts, ...], needed: int
) -> Iterable[str]:
    """Yields what is true where voters run with other directory ids: these have no vote, however many of them run.

    DescribeQuorum does not tell whether the log is the voter's: one that was fetched again is as long.
    """
    former = [voter.key for voter in voters if voter.id in replaced]
    left = [voter.key for voter in voters if voter.id not in replaced]
    yield (
        "# Copy every metadata.log.dir before anything is formatted, and run `kraftwatch rescue plan` with the copies: "
        f"if meta.properties of {numbered('controller', sorted(replaced))} was formatted again over the log, or had no "
        "directory.id, nothing is lost, and the plan has the commands that write the id back"
    )
    yield (
        f"# If the former disk of {and_join([str(key) for key in former])} still exists, start the controller with it: "
        "only a disk with this directory.id in meta.properties has the vote"
    )
    if len(left) >= needed:
        which = "All" if len(left) == needed else f"{needed}"
        yield (
            f"# {which} of {and_join([str(key) for key in left])} are needed, each with the disk of this directory.id: "
            "then a leader is elected; check it in meta.properties before you start a controller"
        )
    yield (
        f"# If fewer than {needed} of the voters' logs are left, whatever their directory ids, no leader can be "
        "elected, and there is no safe recovery: committed metadata may be lost"
    )


def _step(quorum: Quorum, voter: NodeFacts) -> Iterable[str]:
    node, endpoint = voter.id, voter.endpoint
    if endpoint is None:
        return
    if elsewhere := voter.refuses_elsewhere:
        yield f"# Start controller {node}: connections are refused at {and_join(elsewhere)}, where it answered before"
    if voter.probe and voter.probe.resolution is Resolution.NAME_NOT_FOUND:
        was = quorum.addresses.get(endpoint.host)
        yield (
            f"# Make {endpoint.host} resolve again{f' (it was {and_join(was)})' if was else ''}: it is the "
            f"recorded endpoint of controller {node}"
        )
    elif voter.refused:
        yield f"# Start controller {node} at {endpoint}; if it runs elsewhere, make that address reach it again"
    elif not voter.can_lead:
        yield from certificate_steps(voter)
    elif voter.faults:
        yield f"# Make {endpoint} reach controller {node} again"
    elif voter.process is Process.HUNG:
        yield from restart_hung(node, f" at {endpoint}")
    elif voter.process is Process.NOT_REACHED:
        yield from find_host(node, f" at {endpoint}")


def _resolved(facts: Facts, _subject: Subject) -> str:
    leader = "A controller leads the metadata quorum" if facts.quorum.leader_id is None else leads(facts.quorum)
    counted = in_sync_text(facts)
    return statement(leader, ". ", counted) if counted else statement(leader, ".")


RULE = Rule(
    title="No controller leads the metadata quorum",
    resolved=_resolved,
    hold=hold(5.0, "longer than an election"),
    further_thresholds=(_START,),
    without_leader=True,
)
