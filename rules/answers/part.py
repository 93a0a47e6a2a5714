"""The parts of a voter: whether it runs, votes, is reached, can lead, and accepts what the others send.

Each part counts, is lost, or is doubtful: the facts prove neither. `worlds` resolves the doubts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from rules.facts.asked_once import asked_once
from rules.facts.doubts import IN_DOUBT, About, Doubt, of_start
from rules.facts.endpoint import EndpointFault
from rules.facts.following import Following, lag_ms, replica_row
from rules.facts.freshness import poll_problem
from rules.facts.node import NodeFacts
from rules.facts.quorum import Facts
from rules.model.identifiers import Endpoint, Epoch, LogEnd, Millis, NodeId, ReplicaKey
from rules.model.membership import VoterSet
from rules.model.quorum import Quorum
from rules.model.witness import DialStep

CAUGHT_UP_MS = Millis(5_000)
"""A replica that had caught up this recently counts as level with the leader. An idle follower is half a second
behind; records in flight must not decide whether a restart is safe. A lag by the leader's clock, and no age."""
TWO_MAJORITIES = "controllers count votes by different lists of voters: two majorities are possible"
"""Why it is unknown whether a leader can be elected."""


class Part(StrEnum):
    """Whether a voter takes part."""

    COUNTS = "counts"
    LOST = "lost"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastElection:
    """What a stopped controller knows of the last election: its quorum-state."""

    epoch: Epoch
    leader: NodeId | None
    """Of that epoch; None if it does not know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elector:
    """One voter as an election would find it."""

    key: ReplicaKey
    endpoint: Endpoint | None = None
    """Where it listens for the other controllers; None if unknown: assumed to be where they dial."""
    log_end: LogEnd | None = None
    """Where its log ends; None if unknown: assumed not to be ahead of any candidate."""
    voters: VoterSet
    """The newest voter set in its log."""
    last_election: LastElection | None = None
    """None if unknown: assumed to be the same for all controllers."""
    runs: Part = Part.COUNTS
    """It would come back after a restart, with this directory."""
    votes: Part = Part.COUNTS
    """It grants votes and can be a candidate."""
    begins_again: bool = False
    """Only its timers, which stand still, may keep it from that: a start ends this."""
    no_vote: str = ""
    """Why not, if that is known."""
    reached: Part = Part.COUNTS
    """The others reach it where they dial it; whether it listens elsewhere, `endpoint` says."""
    leads: Part = Part.COUNTS
    """Other controllers accept its certificate and it serves new connections: they can fetch from it if it leads."""
    accepts: Part = Part.COUNTS
    """It accepts what the others send."""
    no_start: str = ""
    """Why a start of it would end; empty if nothing is known against it."""
    start_doubt: Doubt | None = None
    """Why it is not known whether a start of it would end."""
    unreached: Mapping[NodeId, DialStep] = field(default_factory=dict)
    """The voters that its own host is shown not to reach, and the step that fails: it gets no vote of them, and cannot
    fetch from them."""
    announced_in_vain: bool = False
    """The endpoint that it announces if it is elected is the recorded one, which is known not to reach it."""

    @property
    def can_be_followed(self) -> bool:
        """Whether voters can fetch from it if it leads."""
        return Part.LOST not in (self.leads, self.accepts) and not self.announced_in_vain

    @property
    def restarted(self) -> "Elector":
        """The same voter after a restart."""
        if self.no_start:
            return replace(self, runs=Part.LOST)
        if self.start_doubt is not None and self.runs is Part.COUNTS:
            return replace(self, runs=Part.DOUBTFUL)
        return replace(self, votes=Part.COUNTS) if self.begins_again else self

    @property
    def is_doubtful(self) -> bool:
        """Whether one of its parts is."""
        return Part.DOUBTFUL in (self.runs, self.votes, self.reached, self.leads, self.accepts)

    def resolved(self, doubtful: Part) -> "Elector":
        """Returns the same voter with each doubtful part as this one."""
        if not self.is_doubtful:
            return self
        parts = (self.runs, self.votes, self.reached, self.leads, self.accepts)
        runs, votes, reached, leads, accepts = (doubtful if part is Part.DOUBTFUL else part for part in parts)
        return replace(self, runs=runs, votes=votes, reached=reached, leads=leads, accepts=accepts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Electorate:
    """The voters, and what is not known of them."""

    electors: tuple[Elector, ...]
    followers: Mapping[NodeId, Part] = field(default_factory=dict)
    """Whether each voter of the leader's latest set acknowledges what it appends; empty without a leader."""
    doubts: Mapping[NodeId, Doubt] = field(default_factory=dict)
    """The most important doubt about each voter, and about each other controller that may deny what others send."""
    denying: frozenset[NodeId] = frozenset()
    """The controllers that may deny what others send: Kafka ends those that ask them. Each candidate asks every voter,
    and one that starts asks any of the bootstrap controllers who leads."""
    unobserved: str | None = None
    """Why the outcome of an election is not known, whatever the doubts are; None if it is."""


def after_starts(of: Electorate, electors: Iterable[Elector]) -> Electorate:
    """Returns the electorate with these voters, of which some were restarted, and with the doubts about that."""
    voters = tuple(electors)
    starts = {one.key.id: one.start_doubt for one in voters if one.start_doubt and one.runs is Part.DOUBTFUL}
    return replace(of, electors=voters, doubts={**starts, **of.doubts})


@asked_once
def electorate(facts: Facts) -> Electorate:
    """Returns the voters as an election now would find them, if all controllers restarted.

    Without a leader nothing shows that a voter whose endpoint refuses connections lives: it counts as down.
    """
    unobserved = None
    if facts.two_majorities:
        unobserved = TWO_MAJORITIES
    elif facts.leaderless is None and facts.nodes.poll is None:
        unobserved = f"which controllers run is unknown: {poll_problem(facts.quorum)}"
    return Electorate(
        electors=electors(facts, refusing_are_down=facts.leaderless is not None),
        followers=_followers(facts),
        doubts={node: of_node[0] for node, of_node in facts.doubts.items()},
        denying=frozenset(facts.denying),
        unobserved=unobserved,
    )


def electors(facts: Facts, *, refusing_are_down: bool = False, by_probes: bool = True) -> tuple[Elector, ...]:
    """Returns the voters as an election would find them.

    Without a current poll, those that fetched at the newest one count as running, and so does a voter of which nothing
    is known.

    Args:
        facts: what is known of the quorum.
        refusing_are_down: the pessimistic reading of a refused connection.
        by_probes: whether faults that a probe found count against an endpoint, or only those that the log shows.
    """
    dialled = facts.nodes.dialled
    return tuple(
        _elector(facts, voter, dialled, refusing_are_down=refusing_are_down, by_probes=by_probes)
        for voter in facts.nodes.voters
        if dialled is not None
    )


_REACHED = frozenset({"reached", "leads"})
"""Whom the others may not reach announces the same endpoint if it is elected, with the same certificate."""
_DOUBTFUL_PARTS: Mapping[About, frozenset[str]] = {
    About.ENDPOINT: _REACHED,
    About.LISTENER: _REACHED,
    About.UNLIKE_OTHERS: _REACHED,
    About.UNTRIED: _REACHED | {"accepts"},
    About.LIST: frozenset({"votes"}),
    About.VIEW: frozenset({"votes"}),
    About.TIMERS: frozenset({"votes"}),
    About.HIDDEN: frozenset({"votes"}),
    About.ACCEPTS: frozenset({"accepts"}),
    About.ACCEPTS_LESS: frozenset({"accepts"}),
}
"""The parts of a voter that a doubt is about."""


def _elector(facts: Facts, node: NodeFacts, dialled: VoterSet, *, refusing_are_down: bool, by_probes: bool) -> Elector:
    no_vote = facts.without_vote.get(node.id, "")
    runs = node.followed is not Following.NOT_FETCHING and not (refusing_are_down and node.refused)
    reached = node.reachable if by_probes else all(fault.found_by_probe for fault in node.faults)
    known = facts.doubts.get(node.id, ())
    doubtful = {name for doubt in known for name in _DOUBTFUL_PARTS[doubt.about]}
    of_votes = [doubt.about for doubt in known if "votes" in _DOUBTFUL_PARTS[doubt.about]]

    def part(name: str, *, counts: bool) -> Part:
        return Part.LOST if not counts else Part.DOUBTFUL if name in doubtful else Part.COUNTS

    return Elector(
        key=node.key,
        endpoint=node.registered,
        log_end=_log_end(facts.quorum, node.key),
        voters=dialled,
        runs=part("runs", counts=runs),
        votes=part("votes", counts=not no_vote),
        begins_again=not no_vote and of_votes == [About.TIMERS],
        no_vote=no_vote,
        no_start=_no_start(facts),
        start_doubt=of_start(facts.replay_end, node.id),
        reached=part("reached", counts=reached),
        leads=part("leads", counts=node.can_lead or not by_probes),
        accepts=part("accepts", counts=True),
        announced_in_vain=by_probes and _announces_in_vain(node),
        unreached={of: dial.step for of, dial in facts.witnesses.unreached.get(node.id, {}).items() if dial.step},
    )


def _no_start(facts: Facts) -> str:
    end = facts.replay_end
    return f"its start ends at {end.short}, which Kafka cannot replay" if end is not None and end.lasts else ""


def _announces_in_vain(node: NodeFacts) -> bool:
    """Returns whether the voter runs, has registered no other endpoint, and is not reached at this one: no replica
    could fetch from it if it led. One that has moved announces its new endpoint.
    """
    moved = EndpointFault.REGISTRATION_DIFFERS in node.faults
    return bool(node.faults) and not moved and node.followed is not Following.NOT_FETCHING


def _followers(facts: Facts) -> Mapping[NodeId, Part]:
    """Returns which voters of the leader's latest set acknowledge records in time, vote, and serve the others."""
    poll, doubts = facts.nodes.poll, facts.doubts_about(IN_DOUBT)
    if poll is None or poll.leader is None or facts.leaderless is not None:
        return {}
    lost = {*facts.without_vote, *(voter.id for voter in facts.nodes.voters if not voter.can_lead)}
    return {
        row.key.id: Part.LOST
        if row.key.id in lost or facts.nodes[row.key.id].following is not Following.IN_SYNC
        else Part.DOUBTFUL
        if row.key.id in doubts
        else Part.COUNTS
        for row in poll.voters
    }


def _log_end(quorum: Quorum, key: ReplicaKey) -> LogEnd | None:
    poll = quorum.poll
    row = replica_row(poll, key) if poll else None
    if poll and row:
        lag, leader = lag_ms(poll, row), poll.leader
        if lag is not None and lag <= CAUGHT_UP_MS and leader and leader.log_end_offset is not None:
            return (poll.leader_epoch, leader.log_end_offset)
    history = quorum.histories.get(key)
    if history is None or history.last_log_end_offset is None:
        return None
    return (history.last_leader_epoch, history.last_log_end_offset)


def ids(electors: Iterable[Elector]) -> list[NodeId]:
    """Returns their node ids, sorted."""
    return sorted(one.key.id for one in electors)
