"""Who could win an election after controllers are moved, lost or restarted, each with the voter set of its own log.

`electability` answers this for one voter set that all nodes hold. After a rescue of some nodes only, or a change of the
voters that not all have read, nodes hold different sets, and a candidate uses its own: it dials the endpoints that its
set records, and needs a majority of its set (KIP-853). A voter grants its vote to a candidate that its own set lacks.
The other conditions are the same: the voter is alive with the directory id that the candidate's set names, the endpoint
leads to it, and its log is not ahead of the candidate's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rules.analysis.electability import Position
from rules.model.identifiers import Endpoint, NodeId, ReplicaKey
from rules.model.voter_set import Voter, VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartedController:
    """One controller as it would be after the change."""

    key: ReplicaKey
    alive: bool
    endpoint: Endpoint | None
    """Where it listens for the other controllers; None if unknown: assumed to be where they dial."""
    position: Position | None
    """Where its log ends; None if unknown: assumed not to be ahead of any candidate."""
    voters: VoterSet
    """The newest voter set in its log."""
    unreachable: bool = False
    """A fault is known for which no other controller reaches it, wherever it listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateForecast:
    """What one controller would get in an election."""

    key: ReplicaKey
    needed: int
    """A majority of the voter set in its own log."""
    reached: tuple[ReplicaKey, ...]
    """The voters whose votes it would get, itself included."""
    barred: Mapping[ReplicaKey, str]
    """The other voters of its set, and why it would not get their votes."""

    @property
    def wins(self) -> bool:
        """Whether it would get enough votes."""
        return len(self.reached) >= self.needed


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionForecast:
    """The result for all controllers."""

    candidates: tuple[CandidateForecast, ...]
    """Every controller that is alive and a voter of the set in its own log, by key."""

    @property
    def electable(self) -> bool:
        """Whether some candidate would win."""
        return any(one.wins for one in self.candidates)


def forecast_election(controllers: Iterable[RestartedController]) -> ElectionForecast:
    """Evaluates an election among these controllers, each once. Takes n * n steps."""
    ordered = sorted(controllers, key=lambda one: one.key)
    by_id = {one.key.id: one for one in ordered}
    return ElectionForecast(
        candidates=tuple(_forecast(one, by_id) for one in ordered if one.alive and one.key in one.voters.keys)
    )


def _forecast(candidate: RestartedController, by_id: Mapping[NodeId, RestartedController]) -> CandidateForecast:
    reached: list[ReplicaKey] = []
    barred: dict[ReplicaKey, str] = {}
    for voter in sorted(candidate.voters.voters, key=lambda one: one.key):
        reason = None if voter.key == candidate.key else _barred(candidate, voter, by_id.get(voter.key.id))
        if reason is None:
            reached.append(voter.key)
        else:
            barred[voter.key] = reason
    return CandidateForecast(key=candidate.key, needed=candidate.voters.majority, reached=tuple(reached), barred=barred)


def _barred(candidate: RestartedController, voter: Voter, now: RestartedController | None) -> str | None:
    """Returns why the candidate would not get this voter's vote; None if it would."""
    if now is None or not now.alive:
        return "down"
    if now.key != voter.key:
        return "its disk was replaced"
    if now.unreachable or not voter.endpoints:
        return "its recorded endpoint does not reach it"
    dialled = voter.endpoints[0]
    if now.endpoint is not None and (now.endpoint.host, now.endpoint.port) != (dialled.host, dialled.port):
        return f"its recorded endpoint {dialled} does not reach it"
    if candidate.position is not None and now.position is not None and now.position > candidate.position:
        return "its log is ahead"
    return None
