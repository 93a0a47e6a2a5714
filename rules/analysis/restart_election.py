"""Who could win an election after controllers are moved, lost or restarted, each with the voter set of its own log.

`electability` answers this for one voter set that all nodes hold. After a rescue of some nodes only, or a change of the
voters that not all have read, nodes hold different sets, and a candidate uses its own: it dials the endpoints that its
set records, and needs a majority of its set (KIP-853). A voter grants its vote to a candidate that its own set lacks.
The other conditions are the same: the voter is alive with the directory id that the candidate's set names, the endpoint
leads to it, and its log is not ahead of the candidate's.

One thing depends on chance. A controller that led the last epoch that it knows answers fetches as that epoch's leader
after its start, until its first election timeout (Kafka's ResignedState), and names its own endpoint. A voter that does
not know of that leader, and fetches from controller.quorum.bootstrap.servers in this second or two, connects to it
there. Its vote requests then go over that connection: Kafka's NetworkClient finds a connection by node id, whatever
endpoint the voter set names. Seen on Kafka 3.9.2, where all controllers were stopped at once and one did not hear of
the last leader (2 of 3 such starts elected a leader, with every endpoint moved); the code of 4.0 to 4.3 is the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rules.analysis.electability import CANNOT_FOLLOW, Position
from rules.model.identifiers import Endpoint, Epoch, NodeId, ReplicaKey
from rules.model.membership import Voter, VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class LastElection:
    """What a stopped controller knows of the last election: its quorum-state."""

    epoch: Epoch
    leader: NodeId | None
    """Of that epoch; None if it does not know it."""


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
    last_election: LastElection | None = None
    """None if unknown: assumed to be the same for all controllers."""
    can_lead: bool = True
    """Other controllers accept its certificate: they can fetch from it if it is elected."""


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
    may_reach: tuple[ReplicaKey, ...] = ()
    """Those of them whose votes it gets if it learns their endpoints in time: they led an epoch unknown to it."""

    @property
    def wins(self) -> bool:
        """Whether it would get enough votes."""
        return len(self.reached) >= self.needed

    @property
    def may_win(self) -> bool:
        """Whether it would get enough votes if it learned endpoints in time."""
        return len(self.reached) + len(self.may_reach) >= self.needed


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionForecast:
    """The result for all controllers."""

    candidates: tuple[CandidateForecast, ...]
    """Every controller that is alive and a voter of the set in its own log, by key."""

    @property
    def electable(self) -> bool:
        """Whether some candidate would win."""
        return any(one.wins for one in self.candidates)

    @property
    def uncertain(self) -> tuple[CandidateForecast, ...]:
        """The candidates one of which may win by chance; empty if some candidate would win anyway."""
        return () if self.electable else tuple(one for one in self.candidates if one.may_win)


def forecast_election(controllers: Iterable[RestartedController]) -> ElectionForecast:
    """Evaluates an election among these controllers, each once. Takes n * n steps."""
    ordered = sorted(controllers, key=lambda one: one.key)
    by_id = {one.key.id: one for one in ordered}
    return ElectionForecast(
        candidates=tuple(_forecast(one, by_id) for one in ordered if one.alive and one.key in one.voters.keys)
    )


def _forecast(candidate: RestartedController, by_id: Mapping[NodeId, RestartedController]) -> CandidateForecast:
    reached: list[ReplicaKey] = []
    may_reach: list[ReplicaKey] = []
    barred: dict[ReplicaKey, str] = {}
    for voter in sorted(candidate.voters.voters, key=lambda one: one.key):
        now = by_id.get(voter.key.id)
        reason = None if voter.key == candidate.key else _barred(candidate, voter, now)
        if reason is None:
            reached.append(voter.key)
            continue
        barred[voter.key] = reason
        if (
            now is not None
            and candidate.can_lead
            and _refusal(candidate, voter, now) is None
            and _may_learn_endpoint(candidate, now)
        ):
            may_reach.append(voter.key)
    return CandidateForecast(
        key=candidate.key,
        needed=candidate.voters.majority,
        reached=tuple(reached),
        barred=barred,
        may_reach=tuple(may_reach),
    )


def _barred(candidate: RestartedController, voter: Voter, now: RestartedController | None) -> str | None:
    """Returns why the candidate would not get this voter's vote; None if it would."""
    if now is None or not now.alive:
        return "down"
    if not candidate.can_lead:
        return CANNOT_FOLLOW
    refusal = _refusal(candidate, voter, now)
    if now.key != voter.key:
        return refusal
    if now.unreachable or not voter.endpoints:
        return "its recorded endpoint does not reach it"
    dialled = voter.endpoints[0]
    if now.endpoint is not None and (now.endpoint.host, now.endpoint.port) != (dialled.host, dialled.port):
        return f"its recorded endpoint {dialled} does not reach it"
    return refusal


def _refusal(candidate: RestartedController, voter: Voter, now: RestartedController) -> str | None:
    """Returns why this controller would not vote for the candidate even if it were asked; None if it would."""
    if not now.alive:
        return "down"
    if now.key != voter.key:
        return "its disk was replaced"
    if candidate.position is not None and now.position is not None and now.position > candidate.position:
        return "its log is ahead"
    return None


def _may_learn_endpoint(candidate: RestartedController, now: RestartedController) -> bool:
    """Whether `now` starts as the leader of an epoch whose leader the candidate does not know."""
    claimed, known = now.last_election, candidate.last_election
    if claimed is None or known is None or now.unreachable or claimed.leader != now.key.id:
        return False
    claimed_epoch, _ = _starts_in(claimed, now.position)
    if claimed_epoch != claimed.epoch:
        return False
    epoch, leader = _starts_in(known, candidate.position)
    return epoch < claimed_epoch or (epoch == claimed_epoch and leader is None)


def _starts_in(known: LastElection, position: Position | None) -> tuple[Epoch, NodeId | None]:
    """Returns the epoch and the leader with which a controller starts: those of its log if its log is newer (Kafka's
    QuorumState.initialize)."""
    if position is not None and position[0] > known.epoch:
        return position[0], None
    return known.epoch, known.leader
