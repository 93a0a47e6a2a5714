"""Who could win an election from here, if every controller restarted now.

A candidate wins with floor(n/2)+1 votes. Its own is one. Another voter's it gets only if that voter is alive
with the directory id the committed VotersRecord names, if the endpoint recorded there still leads to it
(the candidate dials that one and no other), and if its log is not ahead of the candidate's (epoch,
then offset: a voter refuses a shorter log). So, for candidate x,

    reach(x) = {x} + every voter v that is alive, whose persisted endpoint leads to v,
                     and whose log is not ahead of x's

and the quorum is electable iff some reach(x) holds a majority. That is not the rule of KIP-1347's text
("fewer than a majority changed heals, a majority does not"): a *changed* candidate can still dial the unchanged
ones and win. Run on Kafka 4.3.1 with n = 3, 4 and 5; counting changed voters gets dead ones and logs of
different length wrong as well. A voter that does not fetch now counts as gone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from rules.analysis.endpoint_status import Look
from rules.analysis.replica_lag import Liveness, lag_ms, row_of
from rules.model.identifiers import Epoch, Millis, Offset, ReplicaKey
from rules.model.quorum import Quorum

Position: TypeAlias = tuple[Epoch, Offset]
"""Where a log ends: compared as an election compares logs, epoch first."""

_CAUGHT_UP_MS = Millis(5_000)
"""Who had caught up this recently counts as level with the leader: records in flight decide no restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """One voter's part in an election held now."""

    key: ReplicaKey
    alive: bool
    """It would come back, with this directory."""
    leads: bool
    """Its persisted endpoint leads to it."""
    position: Position | None = None
    """Where its log ends; None = not known, which bars nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """How far one voter would come."""

    key: ReplicaKey
    reached: tuple[ReplicaKey, ...]
    """Whose votes it would get, its own included."""
    barred: Mapping[ReplicaKey, str]
    """Whose it would not, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Electability:
    """The verdict, with the reasoning."""

    majority: int
    candidates: tuple[Candidate, ...]
    """Every voter that is alive, by node id."""

    @property
    def electable(self) -> bool:
        """Whether some candidate could win."""
        return self.best is not None and len(self.best.reached) >= self.majority

    @property
    def best(self) -> Candidate | None:
        """The candidate that would get most votes (the lowest id among equals), or None when all are gone."""
        return max(self.candidates, key=lambda each: (len(each.reached), -each.key.id), default=None)


def electability(stands: Iterable[Stand]) -> Electability:
    """Judge an election among these voters: all of the committed set, once each."""
    voters = sorted(stands, key=lambda stand: stand.key)
    candidates = tuple(_candidate(stand, voters) for stand in voters if stand.alive)
    return Electability(majority=len(voters) // 2 + 1, candidates=candidates)


def _candidate(candidate: Stand, voters: Iterable[Stand]) -> Candidate:
    reached, barred = [], {}
    for voter in voters:
        why = None if voter is candidate else _barred(candidate, voter)
        if why is None:
            reached.append(voter.key)
        else:
            barred[voter.key] = why
    return Candidate(key=candidate.key, reached=tuple(reached), barred=barred)


def _barred(candidate: Stand, voter: Stand) -> str | None:
    if not voter.alive:
        return "gone"
    if not voter.leads:
        return "its recorded endpoint does not lead to it"
    if candidate.position is not None and voter.position is not None and voter.position > candidate.position:
        return "its log is ahead"
    return None


def stands(quorum: Quorum, looks: Iterable[Look], *, by_probes: bool = True) -> tuple[Stand, ...]:
    """What is known of the voters, as an election would find it.

    Args:
        quorum: gives where the logs ended when they were last seen.
        looks: who is alive and whose endpoint leads to it; of unknown liveness counts as alive.
        by_probes: whether what was seen by probing counts against an endpoint, or the log's word alone.
    """
    return tuple(
        Stand(
            key=look.voter.key,
            alive=look.liveness is not Liveness.SILENT,
            leads=look.leads if by_probes else all(flaw.by_probe for flaw in look.flaws),
            position=_position(quorum, look.voter.key),
        )
        for look in looks
    )


def without_the_refusing(stands: Iterable[Stand], looks: Iterable[Look]) -> tuple[Stand, ...]:
    """The same voters, with those whose endpoint refuses taken for dead: the darker reading of a refusal."""
    refusing = {look.voter.key for look in looks if look.refused}
    return tuple(replace(stand, alive=stand.alive and stand.key not in refusing) for stand in stands)


def _position(quorum: Quorum, key: ReplicaKey) -> Position | None:
    poll = quorum.poll
    row = row_of(poll, key) if poll else None
    if poll and row:
        lag, leader = lag_ms(poll, row), poll.leader
        if lag is not None and lag <= _CAUGHT_UP_MS and leader and leader.log_end_offset is not None:
            return (poll.leader_epoch, leader.log_end_offset)
    history = quorum.histories.get(key)
    if history is None or history.last_log_end_offset is None:
        return None
    return (history.last_leader_epoch, history.last_log_end_offset)
