"""Which voters could win an election if every controller restarted now.

A candidate wins with floor(n/2)+1 votes. Its own vote is one. It gets another voter's vote only if that voter is alive
with the directory id that the committed VotersRecord names, if the endpoint recorded there still reaches that voter
(the candidate dials this endpoint and no other), and if that voter's log is not ahead of the candidate's (epoch first,
then offset: a voter rejects a candidate with a shorter log). So, for candidate x,

    reach(x) = {x} + every voter v that is alive, whose recorded endpoint reaches v,
                     and whose log is not ahead of x's

and the quorum is electable iff some reach(x) holds a majority. The text of KIP-1347 has another rule ("fewer than a
majority changed recovers, a majority does not"), which differs: a *changed* candidate can still dial the unchanged
voters and win. This was tested on Kafka 4.3.1 with n = 3, 4 and 5. Counting changed voters is also wrong for dead
voters and for logs of different length. A voter that does not fetch now counts as down. A candidate whose certificate
no other controller accepts may collect votes over its own connections, but they cannot fetch from it: it resigns.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from rules.analysis.endpoint_status import EndpointStatus
from rules.analysis.replica_lag import Liveness, lag_ms, replica_row
from rules.model.identifiers import Epoch, Millis, Offset, ReplicaKey
from rules.model.membership import majority
from rules.model.quorum import Quorum

Position: TypeAlias = tuple[Epoch, Offset]
"""Where a log ends, compared as an election compares logs: epoch first."""

CANNOT_FOLLOW = "it does not accept the candidate's certificate"
"""Why the vote of a voter does not count: it could not fetch from the candidate."""
CAUGHT_UP_MS = Millis(5_000)
"""A replica that had caught up this recently counts as level with the leader. An idle follower is half a second
behind; records in flight must not decide whether a restart is safe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterStanding:
    """What an election now would depend on for one voter."""

    key: ReplicaKey
    alive: bool
    """It would come back after a restart, with this directory."""
    reachable: bool
    """Its recorded endpoint reaches it."""
    position: Position | None = None
    """Where its log ends; None if unknown, which costs no candidate a vote."""
    can_lead: bool = True
    """Other replicas could fetch from it, if it were elected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The votes that one voter would get. Whose votes they are is computed on demand, by a pass over all voters."""

    standing: VoterStanding
    votes: int
    """How many votes it would get, its own included."""
    voters: tuple[VoterStanding, ...] = field(repr=False)
    """All voters, in the order of their keys."""

    @property
    def key(self) -> ReplicaKey:
        """The candidate's own key."""
        return self.standing.key

    @property
    def reached(self) -> tuple[ReplicaKey, ...]:
        """The voters whose votes it would get, itself included."""
        return tuple(voter.key for voter in self.voters if self._barred(voter) is None)

    @property
    def barred(self) -> Mapping[ReplicaKey, str]:
        """The voters whose votes it would not get, and why."""
        return {voter.key: why for voter in self.voters if (why := self._barred(voter)) is not None}

    def _barred(self, voter: VoterStanding) -> str | None:
        if voter is self.standing:
            return None
        if not self.standing.can_lead:
            return CANNOT_FOLLOW
        if not voter.alive:
            return "down"
        if not voter.reachable:
            return "its recorded endpoint does not reach it"
        own = self.standing.position
        if own is not None and voter.position is not None and voter.position > own:
            return "its log is ahead"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Electability:
    """Whether a leader could be elected, with each candidate's votes."""

    majority: int
    candidates: tuple[Candidate, ...]
    """Every voter that is alive, by node id."""
    best: Candidate | None
    """The candidate with the most votes (the lowest id among equals), or None if no voter is alive."""

    @property
    def electable(self) -> bool:
        """Whether some candidate could win."""
        return self.best is not None and self.best.votes >= self.majority

    @property
    def indispensable(self) -> tuple[ReplicaKey, ...]:
        """The voters without any one of which no leader could be elected; none if there is none with all of them.

        Takes a few steps for each voter. A winner with exactly a majority cannot lose a vote: it survives the loss of
        a voter whose log is ahead of its own, or which its endpoint does not reach.
        """
        winners = [one for one in self.candidates if one.votes >= self.majority]
        spare = [one for one in winners if one.votes > self.majority]
        exact = [one for one in winners if one.votes == self.majority]
        shortest = min((end for one in exact if (end := one.standing.position) is not None), default=None)

        def survives(lost: Candidate) -> bool:
            others = any(one is not lost for one in (spare[:2] if lost.standing.reachable else winners[:2]))
            end = lost.standing.position
            return others or (end is not None and shortest is not None and shortest < end)

        return tuple(one.key for one in self.candidates if winners and not survives(one))


def electability(standings: Iterable[VoterStanding]) -> Electability:
    """Evaluates an election among these voters: all of the committed set, once each. Takes n log n steps."""
    voters = tuple(sorted(standings, key=lambda voter: voter.key))
    votes = _votes(voters)
    candidates = tuple(Candidate(standing=each, votes=votes(each), voters=voters) for each in voters if each.alive)
    return Electability(
        majority=majority(len(voters)),
        candidates=candidates,
        best=max(candidates, key=lambda each: (each.votes, -each.key.id), default=None),
    )


def _votes(voters: Iterable[VoterStanding]) -> Callable[[VoterStanding], int]:
    """Returns the function that counts a candidate's votes: by the position of its log among the sorted ones."""
    giving = [voter for voter in voters if voter.alive and voter.reachable]
    ends = sorted(voter.position for voter in giving if voter.position is not None)

    def count(candidate: VoterStanding) -> int:
        if not candidate.can_lead:
            return 1
        ahead = 0 if candidate.position is None else len(ends) - bisect_right(ends, candidate.position)
        # A reachable candidate is among those that give their vote.
        return len(giving) - ahead + (not candidate.reachable)

    return count


def voter_standings(
    quorum: Quorum, statuses: Iterable[EndpointStatus], *, use_probes: bool = True
) -> tuple[VoterStanding, ...]:
    """Returns the voters as an election would find them.

    Args:
        quorum: gives where the logs ended when they were last reported.
        statuses: give which voters are alive and reachable; unknown liveness counts as alive.
        use_probes: whether faults that a probe found count against an endpoint, or only those that the log shows.
    """
    return tuple(
        VoterStanding(
            key=status.voter.key,
            alive=status.liveness is not Liveness.NOT_FETCHING,
            reachable=status.reachable if use_probes else all(fault.found_by_probe for fault in status.faults),
            position=_position(quorum, status.voter.key),
            can_lead=status.can_lead or not use_probes,
        )
        for status in statuses
    )


def without_refusing_voters(
    standings: Iterable[VoterStanding], statuses: Iterable[EndpointStatus]
) -> tuple[VoterStanding, ...]:
    """Returns the same voters, with those whose endpoint refuses as down: the pessimistic reading of a refusal."""
    refusing = {status.voter.key for status in statuses if status.refused}
    return tuple(replace(voter, alive=voter.alive and voter.key not in refusing) for voter in standings)


def without_unverified_voters(
    standings: Iterable[VoterStanding], statuses: Iterable[EndpointStatus]
) -> tuple[VoterStanding, ...]:
    """Returns the same voters, as if no controller accepted the certificates that the monitor does not accept."""
    unverified = {status.voter.key for status in statuses if status.unverified}
    return tuple(
        replace(voter, reachable=False, can_lead=False) if voter.key in unverified else voter for voter in standings
    )


def _position(quorum: Quorum, key: ReplicaKey) -> Position | None:
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
