"""The steps that end an outage of the quorum: nobody leads, or who leads commits nothing."""

from collections.abc import Collection, Iterable, Mapping

from rules.claims.claim import Question, claim
from rules.claims.statement import statement
from rules.claims.words import clause
from rules.facts.contact import recorded_endpoints
from rules.facts.doubts import About
from rules.facts.endpoint import EndpointFault
from rules.facts.following import Following
from rules.facts.leadership import Leaderless
from rules.facts.node import NodeFacts, Process
from rules.facts.quorum import Facts
from rules.facts.reported_leaders import epochs_in_vain
from rules.formatting import and_join, numbered
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.membership import majority
from rules.model.monitoring import ConnectionResult, Resolution
from rules.model.quorum import Quorum
from rules.remedies.access_steps import access_steps
from rules.remedies.endpoint_steps import certificate_steps
from rules.remedies.reach_steps import hosts_of, reach_steps
from rules.remedies.remedy_commands import (
    SCRAM_NEEDS_A_LEADER,
    bring_back,
    bring_in_sync,
    compare_log_ends,
    describe_status,
    find_host,
    find_what_is_slow,
    rescue_if_moved,
    restart_hung,
)
from rules.remedies.start_conditions import before_a_start
from rules.remedies.step import Act, does, may_restart, starts, waits
from rules.rescue.disk_count import DiskCount

SILENT = frozenset({Process.DOWN, Process.HUNG, Process.NOT_REACHED})
"""The states of a process in which its voter takes part in no election."""
_NOT_COUNTED = frozenset({*EndpointFault} - {EndpointFault.REGISTRATION_DIFFERS})
"""The faults with which a voter is not reached: one that moved dials the others, and may win with their votes."""


def reached_voters(facts: Facts, voters: tuple[NodeFacts, ...]) -> int:
    """Returns how many voters run with their recorded disk, and can be reached where the others dial them."""
    return running_voters(
        facts, tuple(voter for voter in voters if EndpointFault.REGISTRATION_DIFFERS not in voter.faults)
    )


def running_voters(facts: Facts, voters: tuple[NodeFacts, ...]) -> int:
    """Returns how many voters run with their recorded disk, as far as is known, and may win an election."""
    replaced = facts.replaced_disks
    return sum(
        _NOT_COUNTED.isdisjoint(voter.faults)
        and voter.id not in replaced
        and voter.id not in facts.witnesses.cut_off
        and voter.process not in SILENT
        and not voter.refuses_elsewhere
        for voter in voters
    )


def all_accept(voters: tuple[NodeFacts, ...]) -> bool:
    """Returns whether each voter accepts connections at an endpoint that reaches it."""
    probes = [voter.probe for voter in voters if voter.reachable]
    accepted = [probe for probe in probes if probe is not None and probe.connection is ConnectionResult.ACCEPTED]
    return len(accepted) == len(voters)


def does_not_answer(voter: NodeFacts) -> bool:
    """Returns whether it hangs, is not reached, or refuses connections elsewhere: it may have to be restarted."""
    return voter.process in (Process.HUNG, Process.NOT_REACHED) or bool(voter.refuses_elsewhere)


def late_voters(voters: tuple[NodeFacts, ...]) -> list[NodeId]:
    """Returns the voters that run and answer late: an election ends before they do."""
    return [voter.id for voter in voters if voter.process is Process.SLOW and voter.reachable]


def down_voters(voters: tuple[NodeFacts, ...]) -> list[NodeFacts]:
    """Returns the voters at whose recorded endpoint the newest probe was refused: those that the summary calls down."""
    return [voter for voter in voters if voter.process is Process.DOWN]


def election_steps(facts: Facts, state: Leaderless, voters: tuple[NodeFacts, ...]) -> tuple[str, ...]:
    """Returns the steps after which a leader is elected."""
    quorum = facts.quorum
    steps = [step for voter in voters for step in _step(quorum, voter)]
    steps += find_what_is_slow(late) if (late := late_voters(voters)) else ()
    if state.rejecting:
        steps += [
            "# Read in the controllers' logs whether they reject each other (failed authentication, "
            "ClusterAuthorizationException, SSLHandshakeException)",
            "# If they do, give all of them, one after the other, credentials and certificates that the others accept, "
            "and add their principals to super.users",
            SCRAM_NEEDS_A_LEADER,
        ]
        return (*steps, "# Check which controller is the leader", describe_status(facts))
    if not voters:
        steps += access_steps(facts, facts.who_leads.silent, None)
    if not voters and state.refused:
        # The voters' endpoints are not known: the quorum is static, or its log was never read.
        controllers = "controller" if len(state.refused) == 1 else "controllers"
        steps += [
            *before_a_start(facts, ()),
            does(
                f"# Start the {controllers} at {and_join(state.refused)}: connections are refused there",
                (Act.START, (None,)),
            ),
        ]
        if state.never_answered:
            steps.append(f"# If they run elsewhere, correct bootstrap of cluster {quorum.cluster} in the configuration")
    steps = [*_permission_steps(facts), *steps, *_reach_steps(facts)]
    where_to_look = tuple(_where_to_look(facts, state, voters, explained=bool(steps)))
    majority_steps = tuple(_majority_steps(facts, voters)) if voters else ()
    steps += [*majority_steps, *where_to_look] if steps else [*where_to_look, *majority_steps]
    refused = next((voter.id for voter in voters if not voter.can_lead), None)
    return (*steps, "# Check which controller is the leader", describe_status(facts, excluding=refused))


def commit_steps(facts: Facts, leader: NodeId, missing: Collection[NodeFacts]) -> tuple[str, ...]:
    """Returns the steps after which a leader that commits nothing is followed by a majority; `missing`: who is not."""
    number = len(facts.nodes.polled_voters)
    steps = [*_permission_steps(facts), *_reach_steps(facts)]
    # What keeps these from following is known.
    missing = [voter for voter in missing if leader not in facts.witnesses.unreached.get(voter.id, {})]
    for voter in missing:
        lags = voter.following is Following.LAGGING
        steps += [*_step(facts.quorum, voter)] or (bring_in_sync(facts, voter) if lags else bring_back(facts, voter.id))
    steps += _unlike_steps(facts)
    running = [
        voter.id for voter in missing if voter.process is Process.RUNNING and voter.following is not Following.LAGGING
    ]
    if running and leader in facts.nodes:
        yours = facts.nodes[leader]
        steps += certificate_steps(yours) if not yours.can_lead else []
        at = f" at {yours.endpoint}" if yours.endpoint else ""
        steps.append(
            f"# Connect from {hosts_of(running, facts.witnesses.named)} to controller {leader}{at}: nothing shows "
            "that they reach it and accept it (firewall, resolver, trust store), or that it accepts them (login, "
            "super.users)"
        )
    if missing:
        in_sync = f"# Wait until {majority(number)} of {number} voters are in sync: the leader then commits"
        steps.append(waits(in_sync, Act.LEAD))
    else:
        elected = "another voter is elected" if number > 1 else "it is elected again"
        steps.append(
            may_restart(
                f"# Restart the leader, controller {leader}, so that {elected}: every voter fetches, but nothing is "
                "committed",
                leader,
            )
        )
        steps.append(waits("# Wait until a leader is elected and commits", Act.LEAD))
    return (*steps, *compare_log_ends(facts))


def _permission_steps(facts: Facts) -> Iterable[str]:
    if found := {*facts.denied_before_outage, *facts.witnesses.denied}:
        yield (
            f"# Before you start a controller, add the principals of all controllers to super.users of "
            f"{numbered('controller', sorted(found))} (authorizer.class.name): controllers that are denied end with "
            "ClusterAuthorizationException"
        )


def _reach_steps(facts: Facts) -> Iterable[str]:
    for voter in facts.nodes.voters:
        if not voter.is_down:
            seen = facts.witnesses
            yield from reach_steps(voter.id, seen.unreached_by(voter.id), seen.named)


def _unlike_steps(facts: Facts) -> Iterable[str]:
    for node, doubt in facts.doubts_about({About.UNLIKE_OTHERS}).items():
        yield may_restart(
            f"# Controller {node} {doubt.detail}: if the others reject it, or it them, give it what they have, and "
            "restart it",
            node,
        )


def _where_to_look(facts: Facts, state: Leaderless, voters: tuple[NodeFacts, ...], *, explained: bool) -> Iterable[str]:
    """Yields where to look while so many voters run that one of them should win an election.

    `explained`: a step before names the fault of a voter.
    """
    number = facts.who_leads.number_of_voters
    running, needed = running_voters(facts, voters) if voters else _answering(facts.quorum, state), majority(number)
    if not explained:
        because = ": the voters' endpoints accept connections" if voters and all_accept(voters) else ""
        what = (
            "nobody fetches from the controllers that are elected"
            if epochs_in_vain(facts.quorum)
            else "no election is won"
        )
        yield f"# Check in the controllers' logs why {what}{because}"
    elif running - len(late_voters(voters)) >= needed:
        yield statement(
            "# If no leader is elected then, check in the controllers' logs why: ",
            clause(claim(Question.RUNNING, running, of=number)),
            f" already, and {needed} are enough",
        )
    else:
        return
    if running >= needed and number > 1:
        yield (
            "# Connect from the host of each controller to the others (firewall, route, resolver), or run `kraftwatch "
            "witness FILE` there with the controller's properties file: that the monitor reaches them does not show "
            "that they reach each other"
        )
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
        yield from _unlike_steps(facts)
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
        what = "the only voter runs: it then elects itself within seconds"
    elif epochs_in_vain(facts.quorum):
        what = f"{needed} of the {len(voters)} voters, the leader included, have the records of one leader"
    elif all(voter.reachable and not does_not_answer(voter) for voter in voters):
        what = f"an election is won: one of the voters needs {needed} of the {len(voters)} votes"
    else:
        what = (
            f"{needed} of the {len(voters)} voters run: they elect a leader within seconds if they reach each other at "
            "their recorded endpoints"
        )
    yield waits(f"# Wait until {what}", Act.LEAD)
    if any(not voter.reachable and voter.faults != (EndpointFault.CERTIFICATE,) for voter in voters):
        yield from rescue_if_moved(facts.quorum)
    if len(voters) - len(down_voters(voters)) < needed:
        yield (
            "# If a host is lost and its disk is not, start its controller from that disk at the same endpoint: no "
            "other copy of its log counts as its vote"
        )
        yield _lost_majority(len(voters), "disks are left")


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
    yield _lost_majority(len(voters), "logs are left, whatever their directory ids")


def _lost_majority(voters: int, left: str) -> str:
    """Returns what is possible, and what it costs, when too few of the voters' disks are left to elect a leader."""
    count = DiskCount(voters=voters, disks=0)
    if voters == 1:
        return "# If the disk of the voter is lost, there is no safe recovery: committed metadata may be lost"
    lost = "what only the lost disks had is lost"
    cost = lost if count.needed == count.majority else f"with {count.needed} of them nothing, with fewer {lost}"
    return (
        f"# If fewer than {count.majority} of the voters' {left}, and the others are gone for good, `kraftwatch rescue "
        f"plan --lost` with the ids of those plans a quorum of the voters that are left: {cost}"
    )


def _step(quorum: Quorum, voter: NodeFacts) -> Iterable[str]:
    node, endpoint = voter.id, voter.endpoint
    if endpoint is None:
        return
    if elsewhere := voter.refuses_elsewhere:
        refused = f"connections are refused at {and_join(elsewhere)}, where it answered before"
        yield starts(f"# Start controller {node}: {refused}", node)
    if voter.probe and voter.probe.resolution is Resolution.NAME_NOT_FOUND:
        was = quorum.addresses.get(endpoint.host)
        yield (
            f"# Make {endpoint.host} resolve again{f' (it was {and_join(was)})' if was else ''}: it is the "
            f"recorded endpoint of controller {node}"
        )
    elif voter.refused:
        yield starts(
            f"# Start controller {node} at {endpoint}; if it runs elsewhere, make that address reach it again", node
        )
    elif not voter.can_lead:
        yield from certificate_steps(voter)
    elif voter.faults:
        yield f"# Make {endpoint} reach controller {node} again"
    elif voter.process is Process.HUNG:
        yield from restart_hung(node, f" at {endpoint}")
    elif voter.process is Process.NOT_REACHED:
        yield from find_host(node, f" at {endpoint}")
