"""`kraftwatch what-if`: could a leader be elected after controllers were moved, lost or restarted?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich.text import Text

from connectors.errors import UsageError
from rules.answers.electability import (
    CandidateForecast,
    ElectionForecast,
    LastElection,
    RestartedController,
    forecast_election,
    voters_now,
    without_doubtful,
)
from rules.facts.quorum import Facts
from rules.finding import Plain
from rules.formatting import and_join, numbered, plural, visible
from rules.model.identifiers import Endpoint, Epoch, NodeId
from rules.model.membership import VoterSet
from rules.remedies.access_steps import COMPARE
from streaming.status.log_dir_status import LogDirContents, cluster_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What would happen to the controllers."""

    moved: Mapping[NodeId, tuple[str, int]]
    """The new host and port of each controller that is moved; it is restarted with it."""
    lost: frozenset[NodeId]
    """Controllers that do not come back."""
    restarted: frozenset[NodeId] | None
    """Controllers that are restarted; None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controllers:
    """The controllers of one cluster as they are."""

    cluster: str
    members: tuple[RestartedController, ...]
    """The voters; empty if no voter set is known."""
    voters: VoterSet | None
    """The newest voter set."""
    leader: NodeId | None
    """The leader that runs; None if none does, or if disks were read."""
    assumed: tuple[str, ...] = ()
    """What is not known and was assumed, as sentences."""
    unobserved: str | None = None
    """Why nothing can be predicted, as a sentence; None if something can."""
    doubtful: Mapping[NodeId, str] = field(default_factory=dict)
    """The controllers of which it is unknown whether the others reach them, or they take part, and why."""
    denying: frozenset[NodeId] = frozenset()
    """The controllers that may deny what others send: Kafka ends those that ask them."""
    advice: str = ""
    """How to find that out; empty if it is not known either."""
    elsewhere: frozenset[NodeId] = frozenset()
    """The controllers that report another leader, or none: that they fetch is older than their report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The answer."""

    controllers: Controllers
    """Before the change."""
    electable: bool | None
    """Whether the quorum has or elects a leader after the change; None if unknown."""
    leader_stays: NodeId | None
    """The leader that is neither restarted nor lost and keeps a majority; None if there has to be an election."""
    forecast: ElectionForecast
    unknown: str | None = None
    """Why the outcome is not certain, as a sentence; None if it is, or if the quorum has no voter set."""

    @property
    def majority(self) -> int | None:
        """Votes needed in the newest voter set; None if no voter set is known."""
        return None if self.controllers.voters is None else self.controllers.voters.majority


def controllers_of_disks(disks: Sequence[LogDirContents]) -> Controllers:
    """Returns the controllers whose disks were read, and the voters without a disk as assumed to be there.

    Raises:
        UsageError: the disks are of several clusters, or two are of one node.
    """
    cluster = cluster_of(disks) or "unknown"
    found: dict[NodeId, RestartedController] = {}
    newest: VoterSet | None = None
    registered: Mapping[NodeId, tuple[Endpoint, ...]] = {}
    best = (-1, -1)
    for disk in disks:
        quorum = disk.machine.quorum()
        key = disk.key
        if key.id in found:
            raise UsageError(f"two of the disks are of node {key.id}: give each node once")
        if quorum.committed is None:
            continue
        position = (disk.epoch or Epoch(0), disk.end_offset)
        if position > best:
            best, newest = position, quorum.committed
            registered = {node: registration.endpoints for node, registration in quorum.controllers.items()}
        read = disk.election
        last = None if isinstance(read, str) else LastElection(epoch=read.leader_epoch, leader=read.leader_id)
        found[key.id] = RestartedController(
            key=key,
            alive=True,
            endpoint=None,
            position=position,
            voters=quorum.committed,
            last_election=last,
        )
    if newest is None:
        return Controllers(cluster=cluster, members=(), voters=None, leader=None)
    unread = [f"{disk.key.id} ({one.file}: {one.reason})" for disk in disks for one in disk.damaged if one.undamaged]
    ends = f"where the log ends is unknown of {and_join(unread)}" if unread else None
    return replace(_with_missing(cluster, found, newest, registered), unobserved=ends)


def controllers_of_quorum(facts: Facts) -> Controllers:
    """Returns the controllers as a query or a journal shows them: a voter that does not fetch counts as down.

    Those of a static quorum dial the endpoints that DescribeQuorum has from Kafka 3.9 on.
    """
    voters = facts.nodes.dialled
    if voters is None:
        return Controllers(cluster=facts.quorum.cluster, members=(), voters=None, leader=facts.current_leader)
    now = voters_now(facts)
    return Controllers(
        cluster=facts.quorum.cluster,
        members=now.members,
        voters=voters,
        leader=facts.current_leader,
        unobserved=now.unobserved,
        assumed=tuple(_assumed(now.members)),
        doubtful=now.doubtful,
        denying=now.denying,
        advice=COMPARE if facts.unproved else "",
        elsewhere=frozenset(view.node for view in facts.disagreeing_views if view.node is not None),
    )


def what_if(controllers: Controllers, change: Change) -> WhatIf:
    """Evaluates the change; UsageError if it names a node that is no voter."""
    known = {member.key.id for member in controllers.members}
    if controllers.members:
        for node in sorted({*change.moved, *change.lost, *(change.restarted or ())} - known):
            raise UsageError(
                f"controller {node} is no voter of {controllers.cluster}: its voters are {and_join(sorted(known))}"
            )
    after = [_changed(member, change) for member in controllers.members]
    forecast = forecast_election(after)
    stays = _staying_leader(controllers, change, after)
    unknown = controllers.unobserved
    if unknown is None and stays is None:
        unknown = _unknown(forecast, after) or _undecided(forecast, controllers, after)
    return WhatIf(
        controllers=controllers,
        electable=(stays is not None or forecast.electable) if controllers.members and unknown is None else None,
        leader_stays=stays,
        forecast=forecast,
        unknown=unknown,
    )


def _unknown(forecast: ElectionForecast, controllers: Sequence[RestartedController]) -> str | None:
    """Returns the sentence about the first candidate that may win by chance; None if none may."""
    if not forecast.uncertain:
        return None
    candidate = forecast.uncertain[0]
    found = next(controller for controller in controllers if controller.key == candidate.may_reach[0])
    assert found.last_election is not None
    return (
        f"controller {found.key.id} led epoch {found.last_election.epoch} when it stopped, and controller "
        f"{candidate.key.id} does not know it: for a second or two after its start, {found.key.id} tells its new "
        f"endpoint, and only if {candidate.key.id} asks in that time can it be elected"
    )


def _undecided(
    forecast: ElectionForecast, controllers: Controllers, after: Sequence[RestartedController]
) -> str | None:
    """Returns the sentence about what is unknown and decides the outcome; None if nothing does."""
    without = without_doubtful(after, controllers.doubtful.keys(), controllers.denying)
    if not forecast.electable or forecast_election(without).electable:
        return None
    nodes: dict[str, list[NodeId]] = {}
    for node, why in sorted(controllers.doubtful.items()):
        nodes.setdefault(why, []).append(node)
    reasons = (f"{why} ({numbered('controller', those)})" for why, those in nodes.items())
    advice = f": {controllers.advice}" if controllers.advice else ""
    return f"whether all take part is unknown: {'; '.join(reasons)}{advice}"


def _changed(one: RestartedController, change: Change) -> RestartedController:
    if one.key.id in change.lost:
        return replace(one, alive=False)
    if one.key.id not in change.moved:
        return one
    endpoints = one.voters.voters[0].endpoints
    host, port = change.moved[one.key.id]
    endpoint = Endpoint(listener=endpoints[0].listener if endpoints else "CONTROLLER", host=host, port=port)
    # A controller that is moved listens at the new endpoint, whatever was wrong with the old one, but its certificate.
    return replace(one, alive=True, unreachable=not one.can_lead, announced_in_vain=False, endpoint=endpoint)


def _staying_leader(controllers: Controllers, change: Change, after: Sequence[RestartedController]) -> NodeId | None:
    """Returns the leader if it runs on and a majority can fetch from it: restarted voters find it (KIP-853)."""
    leader = controllers.leader
    if leader is None or controllers.voters is None or change.restarted is None:
        return None
    if leader in change.restarted or leader in change.lost or leader in change.moved:
        return None
    # Open connections outlast a certificate: a voter that is restarted cannot connect to such a leader again, nor to
    # one that serves no new connection.
    can_lead = {controller.key.id for controller in after if controller.can_lead} - controllers.doubtful.keys()
    if any(controller.can_lead and controller.announced_in_vain for controller in after if controller.key.id == leader):
        # Whether the others were connected to it before its endpoint ceased to reach it is not known.
        return None
    following = [
        controller.key.id for controller in after if controller.alive and controller.key.id not in controllers.elsewhere
    ]
    alive = [node for node in following if leader in can_lead or node not in change.restarted]
    return leader if leader in alive and len(alive) >= controllers.voters.majority else None


def _with_missing(
    cluster: str,
    found: Mapping[NodeId, RestartedController],
    newest: VoterSet,
    registered: Mapping[NodeId, tuple[Endpoint, ...]],
) -> Controllers:
    """Adds where each controller listens by its registration, and the voters whose disks were not given."""
    members, absent = [], []
    for voter in newest.voters:
        recorded = voter.endpoints[0] if voter.endpoints else None
        own = registered.get(voter.key.id, ())
        endpoint = next((one for one in own if recorded and one.listener.upper() == recorded.listener.upper()), None)
        one = found.get(voter.key.id)
        if one is None:
            absent.append(voter.key.id)
            one = RestartedController(key=voter.key, alive=True, endpoint=None, position=None, voters=newest)
        members.append(replace(one, endpoint=endpoint))
    sentence = f"the disks of {and_join(absent)} were not given: assumed to be there, with logs that are not ahead"
    assumed = (sentence,) if absent else ()
    return Controllers(cluster=cluster, members=tuple(members), voters=newest, leader=None, assumed=assumed)


def _assumed(members: Iterable[RestartedController]) -> Iterator[str]:
    unknown = [member.key.id for member in members if member.position is None]
    if unknown:
        yield f"where the logs of {and_join(unknown)} end is unknown: assumed not to be ahead"


def what_if_text(result: WhatIf) -> Text:
    """Returns the answer, each candidate with its votes, and what was assumed."""
    out, cluster = Text(), visible(result.controllers.cluster)
    match result.electable:
        case None:
            out.append(" UNKNOWN ", "bold black on yellow")
            if result.unknown is None:
                out.append(f" {cluster}: no VotersRecord is known. A static quorum has none.")
                return out
        case True:
            out.append(" ELECTABLE ", "bold black on green")
        case False:
            out.append(" NOT ELECTABLE ", "bold white on red")
    out.append(f" {cluster}: {_conclusion(result)}\n", "bold")
    for candidate in result.forecast.candidates:
        out.append(f"  {visible(_candidate(candidate))}\n", "" if candidate.wins else "dim")
    for sentence in result.controllers.assumed:
        out.append(f"  assumption: {visible(sentence)}\n", "yellow")
    out.rstrip()
    return out


def what_if_json(result: WhatIf) -> dict[str, Plain]:
    """Returns the fields of `what-if --json`."""
    return {
        "cluster": result.controllers.cluster,
        "electable": result.electable,
        "majority": result.majority,
        "unknown": result.unknown,
        "leader_stays": result.leader_stays,
        "candidates": [
            {
                "node_id": candidate.key.id,
                "directory_id": candidate.key.directory_id,
                "votes": len(candidate.reached),
                "needed": candidate.needed,
                "wins": candidate.wins,
                "reached": [key.id for key in candidate.reached],
                "may_reach": [key.id for key in candidate.may_reach],
                "barred": {str(key.id): reason for key, reason in candidate.barred.items()},
            }
            for candidate in result.forecast.candidates
        ],
        "assumed": [*result.controllers.assumed],
    }


def _conclusion(result: WhatIf) -> str:
    if result.leader_stays is not None:
        return f"controller {result.leader_stays} stays the leader"
    if result.unknown is not None:
        return result.unknown
    winners = [candidate.key.id for candidate in result.forecast.candidates if candidate.wins]
    if winners:
        return f"{and_join(winners)} can be elected"
    return f"no controller gets {plural(result.majority or 0, 'vote')}: there would be no leader"


def _candidate(one: CandidateForecast) -> str:
    votes = f"controller {one.key.id}: {plural(len(one.reached), 'vote')} of {one.needed} needed"
    reasons = "; ".join(f"not of {key.id}: {reason}" for key, reason in one.barred.items())
    return f"{votes} ({reasons})" if reasons else votes
