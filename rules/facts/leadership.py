"""Which controller leads the quorum, by polls, the log, failed observations and leader views.

`Quorum.leader_id` is the leader of the newest evidence (`streaming.replay.leadership_state`). This module adds what a
rule must know about it: whether the quorum has no leader now, whether only the monitor cannot reach the leader, when a
leader last answered, and which leaders the controllers report.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rules.facts.contact import recorded_endpoints, recorded_nodes
from rules.facts.following import following, same_replica
from rules.facts.freshness import fresh_poll, fresh_views
from rules.facts.node import Nodes, Process
from rules.model.ages import LATER_BY_MS
from rules.model.identifiers import Epoch, Millis, NodeId, ReplicaKey
from rules.model.membership import Voter, majority
from rules.model.monitoring import (
    NO_LEADER_REASONS,
    Connection,
    FailedObservation,
    LeaderView,
    ObservationSource,
    Reason,
    Vantage,
)
from rules.model.quorum import Quorum
from rules.model.replica import Poll

_FIRST_ROUNDS_MS = 2_000
"""So long after a gap in the observations, reports of no leader count only if every controller has answered. In the
first rounds of requests a leader on a busy host may answer too late, and a healthy follower answers that it does not
lead. It ends with the first answers, not with an age."""
_REJECTED_REASONS = frozenset({Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.DENIED})
"""What a controller that runs answers to a login, a certificate or a principal that it does not accept."""
_SILENT_REASONS = frozenset({Reason.TIMED_OUT, Reason.UNREACHABLE})
_KNOWN_AT_START = 3
"""So many controllers must be configured and observed if no leader has answered yet: nothing shows that there are no
others, and so many are a majority of up to five voters."""
_UNREACHABLE_REASONS = frozenset(
    {
        *(Reason.UNRESOLVABLE, Reason.RESOLVER_FAILED, Reason.TIMED_OUT, Reason.UNREACHABLE, Reason.CLOSED),
        *(Reason.DENIED, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.WRONG_PROTOCOL),
        *(Reason.WRONG_CLUSTER, Reason.UNSUPPORTED, Reason.UNDECODABLE, Reason.INVALID_RESPONSE),
        Reason.TOO_FEW_DESCRIPTORS,
    }
)
"""Failures with which a controller may still lead. One that refuses connections is down: its followers remember it, and
name it until they hear of a newer epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderless:
    """By the newest evidence the quorum has no leader."""

    answered: tuple[str, ...]
    """HOST:PORT of the nodes that answered that they know no leader; empty if all controllers refuse connections."""
    refused: tuple[str, ...]
    """HOST:PORT of the controllers that refuse connections."""
    rejecting: tuple[str, ...] = ()
    """HOST:PORT of the voters that started after the last answer of a leader, and reject the monitor's login or TLS."""
    failures: tuple[FailedObservation, ...]
    """The failed observations that are the evidence."""
    never_answered: bool = False
    """Whether all configured controllers refuse connections, and nothing has ever answered there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableLeader:
    """A leader that does not answer the monitor, and that other controllers report."""

    id: NodeId
    followers: tuple[str, ...]
    """HOST:PORT of the controllers that report this leader."""
    followed_by_majority: bool
    """Whether a majority of the voters follow it: it leads. Otherwise it may lead, because the voters that it reaches
    may fail to fetch from it."""


def last_leader_answer_ms(quorum: Quorum) -> Millis | None:
    """Returns when a leader last answered the monitor anything: a fetch or a DescribeQuorum."""
    return max(_leader_answers_ms(quorum), default=None)


def leader_answered_within(quorum: Quorum, age_ms: Millis) -> bool:
    """Returns whether a leader answered the monitor anything within this time, and since the newest gap."""
    return any(quorum.is_current(at, age_ms) for at in _leader_answers_ms(quorum))


def _leader_answers_ms(quorum: Quorum) -> list[Millis]:
    times = [quorum.log_fetched_at_ms, quorum.poll.observed_at_ms if quorum.poll else None]
    return [at for at in times if at is not None]


def last_leader(quorum: Quorum) -> NodeId | None:
    """Returns the leader of the newest known epoch, also if the quorum has no leader now; None if it is not known.

    The newest poll may be of an older epoch: where only the log is read, or if that leader failed before it was polled.
    """
    epoch, poll = quorum.leader_epoch, quorum.poll
    if quorum.leader_id is not None:
        return quorum.leader_id
    if poll is not None and poll.leader_epoch == epoch:
        return poll.leader_id
    elections = reversed(quorum.history.elections)
    return next((election.leader_id for election in elections if election.leader_epoch == epoch), None)


def leaders_of_newest_epoch(views: Iterable[LeaderView], poll: Poll | None) -> tuple[Epoch, tuple[NodeId, ...]] | None:
    """Returns the newest epoch that a view or the poll reports with a leader, and the leaders reported for it, sorted.

    Raft allows one leader in an epoch. None if no leader is reported.
    """
    reported = {(view.leader_epoch, view.leader_id) for view in views if view.leader_id is not None}
    reported |= {(poll.leader_epoch, poll.leader_id)} if poll is not None else set()
    epochs = [epoch for epoch, _ in reported if epoch is not None]
    if not epochs:
        return None
    newest = max(epochs)
    return newest, tuple(sorted(leader for epoch, leader in reported if epoch == newest and leader is not None))


def reported_leaders(quorum: Quorum) -> tuple[Epoch, tuple[NodeId, ...]] | str:
    """Returns the epoch with which every controller should agree, and its leaders; why it is not known, as text.

    That is the newest one that is reported: see `leaders_of_newest_epoch`. If it is newer than that of the known
    leader, who still answers, only a minority reports it: the known leader is compared with. If it is older, by the
    log, only an epoch with two leaders counts.
    """
    poll = fresh_poll(quorum)
    newest = leaders_of_newest_epoch(fresh_views(quorum), poll)
    if newest is None:
        return "no controller knows a leader"
    if quorum.leader_epoch is not None and newest[0] < quorum.leader_epoch and len(newest[1]) == 1:
        return f"no controller has reported the leader of epoch {quorum.leader_epoch} yet"
    if quorum.leader_epoch is None or quorum.leader_id is None or newest[0] <= quorum.leader_epoch:
        return newest
    if poll is None or poll.leader_id != quorum.leader_id:
        return f"the leader of epoch {newest[0]} has not answered yet"
    return quorum.leader_epoch, (quorum.leader_id,)


def disagreeing_views(quorum: Quorum) -> tuple[LeaderView, ...]:
    """Returns what controllers reported that do not follow the only leader of the epoch of `reported_leaders`.

    One report of each controller, which may have several addresses. None while an epoch has two leaders. A report from
    before a controller knew this epoch is not a disagreement.
    """
    views, poll = fresh_views(quorum), fresh_poll(quorum)
    newest = reported_leaders(quorum)
    if isinstance(newest, str) or len(newest[1]) > 1:
        return ()
    agreeing = [view.since_ms for view in views if _follows(view, newest[0])]
    since = min(agreeing, default=quorum.now_ms if poll is None else poll.observed_at_ms)
    found = [view for view in views if not _follows(view, newest[0]) and view.observed_at_ms >= since]
    return tuple({view.endpoint if view.node is None else view.node: view for view in reversed(found)}.values())[::-1]


def _follows(view: LeaderView, epoch: Epoch) -> bool:
    return view.this_cluster and view.leader_epoch == epoch and view.leader_id is not None


def is_same_quorum(one: frozenset[ReplicaKey], other: frozenset[ReplicaKey]) -> bool:
    """Returns whether two voter sets can be of one quorum, earlier and later, in either order.

    Voters are added and removed one at a time (KIP-853), and a forced change keeps one of them: they have a voter in
    common. Without directory ids (kraft.version 0) a node id says less: most of them must be in both.
    """
    if all(key.directory_id is not None for key in (*one, *other)):
        return not one.isdisjoint(other)
    ids, others = ({key.id for key in keys} for keys in (one, other))
    return len(ids & others) >= majority(max(len(ids), len(others)))


def leaderless(nodes: Nodes) -> Leaderless | None:
    """Returns the evidence that the quorum has no leader: a node reports so, or all controllers refuse connections.

    The addresses that are asked are not the cluster. A node that answers that another one leads reports no missing
    leader: that, like a refused connection, counts only for its own voter. There is no leader if no voter is left that
    may lead (`_may_lead`), where it is recorded.

    An address at which a node has answered is that node's, whatever is recorded: see `Nodes.at`.

    So there is if a majority of the voters started after a leader last answered, and reject the monitor since: nothing
    shows that they accept each other.

    None means: a leader has answered since, or the monitor cannot observe the quorum (time-outs, name resolution,
    permissions), or a majority of the voters reject the monitor's login, or only the leader does not answer the monitor
    (`unreachable_leader`), or a controller has not answered yet since a gap (`_FIRST_ROUNDS_MS`).
    """
    quorum = nodes.quorum
    reporting = _failures_since_leader(quorum, NO_LEADER_REASONS)
    refusing = _failures_since_leader(quorum, {Reason.REFUSED})
    if rejecting := _started_and_rejecting(nodes):
        endpoints = tuple(sorted({failure.endpoint for failure in rejecting}))
        return Leaderless(answered=(), refused=(), rejecting=endpoints, failures=rejecting)
    if not reporting and not refusing:
        return None
    answered = _one_each(nodes, {failure.endpoint for failure in reporting})
    refused = tuple(sorted({failure.endpoint for failure in refusing}))
    if not answered:
        never = not _leader_answers_ms(quorum) and not recorded_endpoints(quorum)
        found = Leaderless(answered=(), refused=refused, failures=tuple(refusing), never_answered=never)
        return found if _all_refuse(nodes) else None
    if _followed_leader(nodes, reporting) is not None or len(_rejecting(nodes, answered)) >= _majority(nodes):
        return None
    if not _knows_none(reporting) and _may_lead(nodes, answered):
        return None
    first_rounds = quorum.now_ms - quorum.watched_since_ms < _FIRST_ROUNDS_MS
    recorded = {str(voter.endpoint) for voter in quorum.voters if voter.endpoint}
    asked = _distinct(nodes, _asked_controllers(quorum) | recorded)
    if first_rounds and not asked <= _distinct(nodes, {*answered, *refused}):
        return None
    return Leaderless(answered=answered, refused=refused, failures=(*reporting, *refusing))


def _distinct(nodes: Nodes, addresses: Iterable[str]) -> set[NodeId | str]:
    """Returns the nodes at these addresses; an address whose node is not known counts as a node of its own."""
    known = nodes.at
    return {known.get(address, address) for address in addresses}


def _one_each(nodes: Nodes, addresses: Iterable[str]) -> tuple[str, ...]:
    """Returns one address of each node at these addresses, the recorded one if it is among them, sorted."""
    known, recorded = nodes.at, recorded_nodes(nodes.quorum)
    chosen = {
        known.get(address, address): address for address in sorted(addresses, key=lambda one: (one in recorded, one))
    }
    return tuple(sorted(chosen.values()))


def _asked_controllers(quorum: Quorum) -> set[str]:
    recent = _failures_since_leader(quorum, {*Reason})
    return (
        {failure.endpoint for failure in recent if failure.endpoint} | {*quorum.bootstrap}
    ) - quorum.broker_addresses


class _Running(NamedTuple):
    """The voters that may run while no leader answers the monitor."""

    number: int
    """How many, with those that answer that they do not lead."""
    may_lead: list[NodeId]
    """Those that did not answer: they were not asked, reject the monitor, or cannot be reached from its host."""


def _knows_none(reporting: Iterable[FailedObservation]) -> bool:
    """Returns whether a node answers that it knows no leader, and not only that it does not lead.

    DescribeQuorum shows only the latter. A node that has heard of a leader names it until it hears of a newer epoch.
    """
    return any(failure.source is ObservationSource.LOG and failure.leader_id is None for failure in reporting)


def _may_lead(nodes: Nodes, answered: Collection[str]) -> bool:
    """Returns whether a voter may lead that does not answer the monitor, because a majority may follow it."""
    quorum = nodes.quorum
    if recorded := recorded_endpoints(quorum):
        running = _running(nodes, answered)
        return bool(running.may_lead) and running.number >= majority(len(recorded))
    if not _leader_answers_ms(quorum) and _refusing_at_start(nodes, answered):
        return False
    names_one = any(failure.leader_id is not None for failure in quorum.failures if failure.reason in NO_LEADER_REASONS)
    if not _leader_answers_ms(quorum) and (names_one or len(_distinct(nodes, quorum.bootstrap)) == 1):
        # Nothing has shown who votes: the leader may not be configured.
        return True
    # Where the voters listen is not recorded: all of them must be configured, as far as their number is known.
    silent = (
        _failing(quorum, {Reason.REFUSED, *_SILENT_REASONS}, quorum.ages.answer_ms) if _path_worked(quorum) else set()
    )
    return len(_distinct(nodes, {*answered} | silent - quorum.broker_addresses)) < number_of_voters(nodes)


def _refusing_at_start(nodes: Nodes, answered: Collection[str]) -> bool:
    """Returns whether the leader refuses connections, where no leader has answered yet and nothing shows who votes.

    It is the one that the others name, where one of them says that it listens. Or it is one of those that are
    configured (`_KNOWN_AT_START`) and do not answer: all of them refuse, or so many that no majority is left if a name
    does not resolve.
    """
    quorum = nodes.quorum
    named = {failure.leader_id for failure in quorum.failures if failure.reason in NO_LEADER_REASONS} - {None}
    failing = [failure for failure in quorum.failures if failure.reason is Reason.REFUSED]
    recent = {
        failure.endpoint: failure.node
        for failure in failing
        if quorum.is_current(failure.last_at_ms, quorum.ages.answer_ms)
    }
    if named and named <= {*recent.values()}:
        return True
    others = {*quorum.bootstrap} - {*answered} - recent.keys()
    if not recent or not others <= _failing(quorum, {Reason.UNRESOLVABLE}, quorum.ages.answer_ms):
        return False
    known = len(_distinct(nodes, {*answered} | recent.keys()))
    few = not others or len(_distinct(nodes, {*answered} | others)) < majority(known + len(others))
    return few and known >= _KNOWN_AT_START


def _started_and_rejecting(nodes: Nodes) -> tuple[FailedObservation, ...]:
    """Returns what failed at the voters that started after a leader last answered, and reject the monitor since.

    None unless they are a majority: the quorum was without a leader when they were down.
    """
    quorum = nodes.quorum
    answered = _leader_answers_ms(quorum)
    probes = [controller.probe for controller in nodes.values() if controller.probe and controller.probe.returned_at_ms]
    if not answered or len(probes) < _majority(nodes):
        return ()
    voting, last_ms = quorum.voting_ids, max(answered)
    started = {str(probe.endpoint) for probe in probes if probe.node in voting and probe.returned_at_ms[-1] > last_ms}
    failures = [failure for failure in _failures_since_leader(quorum, _REJECTED_REASONS) if failure.endpoint in started]
    return (
        tuple(failures) if len(_distinct(nodes, (failure.endpoint for failure in failures))) >= _majority(nodes) else ()
    )


def _all_refuse(nodes: Nodes) -> bool:
    """Returns whether every voter refuses connections where it is recorded.

    A configured address is no evidence: the controllers may listen elsewhere since, or never have listened there. Only
    where no endpoint of a voter is recorded, those from which a leader has answered before count, and until one has
    answered those that are configured (`_KNOWN_AT_START`). Names that do not resolve may be out of
    date, or voters that run: they must be fewer.
    """
    quorum = nodes.quorum
    if recorded := recorded_endpoints(quorum):
        return all(nodes[node].is_down for node in recorded)
    refused = {failure.endpoint for failure in _failures_since_leader(quorum, {Reason.REFUSED})}
    others, number = _asked_controllers(quorum) - refused, len(_distinct(nodes, refused))
    if not others <= _failing(quorum, {Reason.UNRESOLVABLE}, quorum.ages.answer_ms) or len(others) >= number:
        return False
    if _leader_answers_ms(quorum):
        return number >= number_of_voters(nodes)
    return number >= _KNOWN_AT_START and quorum.vantage is Vantage.INSIDE


def _running(nodes: Nodes, answered: Collection[str]) -> _Running:
    """Returns which voters may run while no leader answers, of those for which it is recorded where they listen."""
    recorded, known = recorded_endpoints(nodes.quorum), nodes.at
    answering = _distinct(nodes, answered)
    others = [
        node
        for node, own in recorded.items()
        if node not in answering and not _takes_no_part(nodes, node, map(str, own))
    ]
    # A node that answers at an address of which none is known is one of the voters too, behind a load balancer.
    unknown = len({*answered} - known.keys())
    return _Running(number=len(recorded.keys() & answering) + len(others), may_lead=others[unknown:])


def _takes_no_part(nodes: Nodes, node: NodeId, addresses: Iterable[str]) -> bool:
    """Returns whether a voter is down or hung, or answered before and is not reached now."""
    quorum = nodes.quorum
    facts = nodes[node]
    if facts.is_down or facts.process is Process.HUNG:
        return True
    known = {*addresses}
    if facts.is_unobserved:
        known |= {address for address, one in nodes.at.items() if one == node}
    silent = _failing(quorum, _SILENT_REASONS, quorum.ages.answer_ms)
    return (facts.process is Process.NOT_REACHED or not silent.isdisjoint(known)) and _path_worked(quorum)


def _path_worked(quorum: Quorum) -> bool:
    """Returns whether a leader has answered here before: otherwise the path may be the reason for a time-out."""
    return bool(_leader_answers_ms(quorum)) and quorum.vantage is Vantage.INSIDE


def number_of_voters(nodes: Nodes) -> int:
    """Returns how many voters the newest poll lists; without any poll the number of configured controllers."""
    quorum = nodes.quorum
    return len(quorum.poll.voters) if quorum.poll else len(_distinct(nodes, quorum.bootstrap))


def unreachable_leader(nodes: Nodes) -> UnreachableLeader | None:
    """Returns the leader that the answering controllers follow and that does not answer the monitor.

    Followers that hear nothing of their leader for controller.quorum.fetch.timeout.ms elect another one within seconds
    if a majority of the voters reach each other (KIP-595); if not, each follower keeps reporting the old leader. So
    their reports count only if they are a majority without the leader, and only from voters whose recorded endpoints
    accept connections. A voter that rejects the monitor's login runs, and counts with them. One report is enough if the
    leader's process runs where it is recorded, and only rejects the monitor (`_Running.may_lead`).
    """
    return _followed_leader(nodes, _failures_since_leader(nodes.quorum, NO_LEADER_REASONS))


def _failures_since_leader(quorum: Quorum, reasons: Collection[Reason]) -> list[FailedObservation]:
    """Returns the failures for these reasons that are newer than every answer of a leader.

    Where the log may not be read, each poll is newer than the failure before it and older than the next one: a failure
    counts only if it is newer by more than that.
    """
    answers = _leader_answers_ms(quorum)
    return [
        failure
        for failure in quorum.failures
        if failure.reason in reasons
        and failure.source in (ObservationSource.LOG, ObservationSource.QUORUM)
        and quorum.is_current(failure.last_at_ms, quorum.ages.answer_ms)
        and all(failure.last_at_ms >= at + LATER_BY_MS for at in answers)
    ]


def _followed_leader(nodes: Nodes, reporting: Collection[FailedObservation]) -> UnreachableLeader | None:
    """Returns the leader that the nodes which answer that they do not lead follow."""
    quorum = nodes.quorum
    answered = {failure.endpoint for failure in reporting}
    views = fresh_views(quorum)
    # A controller that is cut off from the others knows no leader, in the same or a later epoch.
    epoch, leaders = leaders_of_newest_epoch(views, None) or (None, ())
    if len(leaders) != 1 or any(view.node == leaders[0] for view in views if view.endpoint in answered):
        return None
    leader = leaders[0]
    if leader in nodes and nodes[leader].is_down:
        return None
    current = {*answered} - _failing(quorum, {Reason.REFUSED}, quorum.ages.answer_ms)
    following = [
        view
        for view in views
        if view.endpoint in current and (view.leader_epoch, view.leader_id) == (epoch, leader) and view.this_cluster
    ]
    running = _voting(quorum, following) | (_rejecting(nodes, answered) - {leader}) if following else set()
    elected = _unreached(quorum, leader, answered) and len(running) >= _majority(nodes)
    runs = leader in _running(nodes, answered).may_lead and _may_lead(nodes, answered)
    if not elected and not (following and runs and not _knows_none(reporting)):
        return None
    followers = tuple(sorted(view.endpoint for view in following))
    return UnreachableLeader(id=leader, followers=followers, followed_by_majority=elected)


def _unreached(quorum: Quorum, leader: NodeId, answered: Collection[str]) -> bool:
    failing = _failing(quorum, _UNREACHABLE_REASONS, quorum.ages.repeated_ms) - {*answered}
    recorded = {str(endpoint) for voter in quorum.voters if voter.key.id == leader for endpoint in voter.endpoints}
    if recorded:
        return bool(recorded & failing) and not recorded & {*answered}
    return bool(failing)


def rejecting_voters(nodes: Nodes) -> tuple[str, ...]:
    """Returns HOST:PORT of the voters that reject the monitor's login or TLS, if a leader answered it before and so
    many do that no majority is left. Controllers that use the same credentials then reject each other too.
    """
    quorum = nodes.quorum
    rejecting = _failing(quorum, {Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED}, quorum.ages.answer_ms)
    recorded = recorded_endpoints(quorum)
    voters = {node: {str(endpoint) for endpoint in endpoints} for node, endpoints in recorded.items()}
    found = [node for node, addresses in voters.items() if not addresses.isdisjoint(rejecting)]
    count, of = (len(found), len(voters)) if voters else (len(_distinct(nodes, rejecting)), number_of_voters(nodes))
    enough = bool(_leader_answers_ms(quorum)) and of - count < majority(of)
    return tuple(sorted(rejecting)) if enough else ()


def _rejecting(nodes: Nodes, answered: Collection[str]) -> set[NodeId | str]:
    quorum = nodes.quorum
    rejecting = _failing(quorum, {Reason.NOT_AUTHENTICATED}, quorum.ages.answer_ms) - {*answered}
    if quorum.voters:
        return {voter.key.id for voter in quorum.voters if str(voter.endpoint) in rejecting}
    return {*_one_each(nodes, rejecting)}


def _voting(quorum: Quorum, following: list[LeaderView]) -> set[NodeId | str]:
    """Returns the followers that are voters and reachable where the others dial them; all if no voters are known."""
    voters = {voter.key.id: voter for voter in quorum.voters}
    if not voters:
        polled = {row.key.id for row in quorum.poll.voters} if quorum.poll else set()
        return {view.endpoint for view in following if not polled or view.node is None or view.node in polled}
    voting = {node for node, voter in voters.items() if _accepts(quorum, voter) and not _is_replaced(quorum, voter)}
    return {view.node for view in following if view.node in voting}


def _is_replaced(quorum: Quorum, voter: Voter) -> bool:
    """Returns whether a replica with the voter's id and another directory fetched later: its process has no vote."""
    if quorum.poll is None:
        return False
    rows = quorum.poll.rows_by_id.get(voter.key.id, ())
    newest = max(rows, key=lambda row: row.last_fetch_ms or 0, default=None)
    return newest is not None and not same_replica(newest.key, voter.key)


def _accepts(quorum: Quorum, voter: Voter) -> bool:
    probe = quorum.probe(voter.key.id, voter.endpoint)
    return probe is None or probe.connection is Connection.ACCEPTED


def _majority(nodes: Nodes) -> int:
    return majority(len(nodes.quorum.voters) or number_of_voters(nodes))


def _failing(quorum: Quorum, reasons: Collection[Reason], age_ms: int) -> set[str]:
    recent = (failure for failure in quorum.failures if quorum.now_ms - failure.last_at_ms <= age_ms)
    return {failure.endpoint for failure in recent if failure.reason in reasons}


NO_VOTERS: tuple[frozenset[NodeId], tuple[NodeId, ...]] = (frozenset(), ())


def voters_fetching(quorum: Quorum) -> tuple[frozenset[NodeId], tuple[NodeId, ...]]:
    """Returns the voters that fetched at the newest poll, and those that did not."""
    poll = quorum.poll
    if poll is None:
        return NO_VOTERS
    fetching = {row.key.id for row in poll.voters if following(quorum, poll, row.key).fetches}
    return frozenset(fetching), tuple(sorted({row.key.id for row in poll.voters} - fetching))
