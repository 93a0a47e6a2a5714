"""Which controllers could win an election after they were restarted, moved or lost.

A candidate wins with floor(n/2)+1 votes of the voter set in its own log. Its own vote is one. It gets another voter's
vote only if that voter is alive with the directory id that this set names, if the endpoint recorded there still reaches
that voter (the candidate dials this endpoint and no other), and if that voter's log is not ahead of the candidate's
(epoch first, then offset: a voter rejects a candidate with a shorter log). A voter grants its vote to a candidate that
its own set lacks (KIP-853). After a rescue of some nodes only, or a change of the voters that not all have read, nodes
hold different sets; else all hold the committed one.

The text of KIP-1347 has another rule ("fewer than a majority changed recovers, a majority does not"), which differs: a
*changed* candidate can still dial the unchanged voters and win. This was tested on Kafka 4.3.1 with n = 3, 4 and 5.
Counting changed voters is also wrong for dead voters and for logs of different length. A voter that does not fetch now
counts as down. A candidate whose certificate no other controller accepts may collect votes over its own connections,
but they cannot fetch from it: it resigns. So does one whose recorded endpoint does not reach it and that has registered
no other one: it announces this endpoint when it is elected (tested on Kafka 4.3.1 with names that do not resolve).

One thing depends on chance. A controller that led the last epoch that it knows answers fetches as that epoch's leader
after its start, until its first election timeout (Kafka's ResignedState), and names its own endpoint. A voter that does
not know of that leader, and fetches from controller.quorum.bootstrap.servers in this second or two, connects to it
there. Its vote requests then go over that connection: Kafka's NetworkClient finds a connection by node id, whatever
endpoint the voter set names. Seen on Kafka 3.9.2, where all controllers were stopped at once and one did not hear of
the last leader (2 of 3 such starts elected a leader, with every endpoint moved); the code of 4.0 to 4.3 is the same.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from rules.facts.endpoint import EndpointFault, EndpointVerdict
from rules.facts.following import Following, lag_ms, replica_row
from rules.facts.freshness import fresh_poll, poll_problem
from rules.facts.node import NodeFacts
from rules.facts.quorum import Facts
from rules.model.identifiers import Endpoint, Epoch, LogEnd, Millis, NodeId, ReplicaKey
from rules.model.membership import Voter, VoterSet, majority
from rules.model.quorum import Quorum

CANNOT_FOLLOW = "it cannot connect to the candidate"
"""Why the vote of a voter does not count: it could not fetch from the candidate."""
CAUGHT_UP_MS = Millis(5_000)
"""A replica that had caught up this recently counts as level with the leader. An idle follower is half a second
behind; records in flight must not decide whether a restart is safe. A lag by the leader's clock, and no age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastElection:
    """What a stopped controller knows of the last election: its quorum-state."""

    epoch: Epoch
    leader: NodeId | None
    """Of that epoch; None if it does not know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartedController:
    """One controller as an election would find it."""

    key: ReplicaKey
    alive: bool
    """It would come back after a restart, with this directory."""
    endpoint: Endpoint | None
    """Where it listens for the other controllers; None if unknown: assumed to be where they dial."""
    position: LogEnd | None
    """Where its log ends; None if unknown: assumed not to be ahead of any candidate."""
    voters: VoterSet
    """The newest voter set in its log."""
    unreachable: bool = False
    """A fault is known for which no other controller reaches it, wherever it listens."""
    last_election: LastElection | None = None
    """None if unknown: assumed to be the same for all controllers."""
    no_vote: str | None = None
    """Why it grants no vote and cannot be a candidate, wherever it listens; None if nothing is known against it."""
    can_lead: bool = True
    """Other controllers accept its certificate and it serves new connections: they can fetch from it if it leads."""
    announced_in_vain: bool = False
    """The endpoint that it announces if it is elected is the recorded one, which is known not to reach it."""

    @property
    def can_be_followed(self) -> bool:
        """Whether voters can fetch from it if it leads."""
        return self.can_lead and not self.announced_in_vain


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
        """Whether the candidate would get enough votes."""
        return len(self.reached) >= self.needed

    def wins_without(self, lost: Collection[NodeId]) -> bool:
        """Returns whether the candidate would get enough votes without these controllers."""
        return self.key.id not in lost and sum(key.id not in lost for key in self.reached) >= self.needed


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionForecast:
    """The result for all controllers."""

    candidates: tuple[CandidateForecast, ...]
    """Every controller that is alive and a voter of the set in its own log, by key."""

    @property
    def electable(self) -> bool:
        """Whether some candidate would win."""
        return any(candidate.wins for candidate in self.candidates)

    @property
    def best(self) -> CandidateForecast | None:
        """The candidate with the most votes (the lowest id among equals), or None if there is none."""
        return max(self.candidates, key=lambda one: (len(one.reached), -one.key.id), default=None)

    @property
    def indispensable(self) -> tuple[ReplicaKey, ...]:
        """The controllers without any one of which none would win; none if there is no winner with all of them."""
        winners = [candidate for candidate in self.candidates if candidate.wins]
        keys = [candidate.key for candidate in self.candidates] if winners else []
        return tuple(key for key in keys if not any(winner.wins_without({key.id}) for winner in winners))

    @property
    def uncertain(self) -> tuple[CandidateForecast, ...]:
        """The candidates one of which may win if it learns endpoints in time; empty if some candidate wins anyway."""
        may_win = (
            candidate
            for candidate in self.candidates
            if len(candidate.reached) + len(candidate.may_reach) >= candidate.needed
        )
        return () if self.electable else tuple(may_win)


def forecast_election(controllers: Iterable[RestartedController]) -> ElectionForecast:
    """Evaluates an election among these controllers, each once. Takes n * n steps."""
    ordered = sorted(controllers, key=lambda one: one.key)
    by_id = {controller.key.id: controller for controller in ordered}
    return ElectionForecast(
        candidates=tuple(
            _forecast(controller, by_id)
            for controller in ordered
            if controller.alive and controller.no_vote is None and controller.key in controller.voters.keys
        )
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
            and candidate.can_be_followed
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
    if now is None or not now.alive:
        return "down"
    if now.no_vote is not None:
        return now.no_vote
    if not candidate.can_be_followed:
        return CANNOT_FOLLOW
    if now.key == voter.key:
        dialled = voter.endpoint
        if now.unreachable or dialled is None:
            return "its recorded endpoint does not reach it"
        if now.endpoint is not None and not now.endpoint.same_address(dialled):
            return f"its recorded endpoint {dialled} does not reach it"
    return _refusal(candidate, voter, now)


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


def _starts_in(known: LastElection, position: LogEnd | None) -> tuple[Epoch, NodeId | None]:
    """Returns the epoch and the leader with which a controller starts: those of its log if its log is newer (Kafka's
    QuorumState.initialize)."""
    if position is not None and position[0] > known.epoch:
        return position[0], None
    return known.epoch, known.leader


def restarted_voters(facts: Facts, *, use_probes: bool = True) -> tuple[RestartedController, ...]:
    """Returns the voters as an election would find them if all controllers restarted now.

    Without a current poll, those that fetched at the newest one count as alive, and so does a voter of which nothing is
    known. `use_probes`: whether faults that a probe found count against an endpoint, or only those that the log shows.
    """
    voters, no_vote = facts.nodes.dialled, facts.without_vote
    return tuple(
        RestartedController(
            key=voter.key,
            alive=voter.followed is not Following.NOT_FETCHING,
            endpoint=voter.registered,
            position=_position(facts.quorum, voter.key),
            voters=voters,
            unreachable=not voter.reachable if use_probes else any(not fault.found_by_probe for fault in voter.faults),
            no_vote=no_vote.get(voter.id),
            can_lead=voter.can_lead or not use_probes,
            announced_in_vain=use_probes and _announces_in_vain(voter),
        )
        for voter in facts.nodes.voters
        if voters is not None
    )


def _announces_in_vain(node: NodeFacts) -> bool:
    """Returns whether the voter runs, has registered no other endpoint, and is not reached at this one: no replica
    could fetch from it if it led. One that has moved announces its new endpoint.
    """
    moved = EndpointFault.REGISTRATION_DIFFERS in node.faults
    return bool(node.faults) and not moved and node.followed is not Following.NOT_FETCHING


NO_ELECTION = "no leader is elected now, although enough voters run: find out why first"
TWO_MAJORITIES = "controllers count votes by different lists of voters: two majorities are possible"
"""Why it is unknown whether a leader can be elected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersNow:
    """The voters as an election now would find them."""

    members: tuple[RestartedController, ...]
    unobserved: str | None
    """Why the outcome of an election is not known, whoever is lost; None if it is."""
    doubtful: Mapping[NodeId, str]
    """The voters of which it is unknown whether the others reach them, or they take part, and why."""
    denying: frozenset[NodeId]
    """The controllers that may deny what others send, also those without a vote (`without_doubtful`)."""


def voters_now(facts: Facts) -> VotersNow:
    """Returns the voters and what is not known of them.

    Without a leader nothing shows that a voter whose endpoint refuses connections lives: it counts as down. And if
    enough voters run then, something keeps them from electing one.
    """
    members, unobserved = restarted_voters(facts), None
    if facts.two_majorities:
        unobserved = TWO_MAJORITIES
    elif facts.leaderless is not None:
        members = without_refusing_voters(facts, members)
        unobserved = NO_ELECTION if forecast_election(members).electable else None
    elif fresh_poll(facts.quorum) is None:
        unobserved = f"which controllers run is unknown: {poll_problem(facts.quorum)}"
    return VotersNow(members=members, unobserved=unobserved, doubtful=facts.doubtful, denying=facts.denying)


def electable(facts: Facts) -> bool | None:
    """Returns whether a leader could be elected if all controllers restarted now; None if that is not known."""
    now = voters_now(facts)
    could = forecast_election(now.members).electable
    sure = forecast_election(without_doubtful(now.members, now.doubtful, now.denying)).electable
    return could if now.unobserved is None and could == sure else None


def without_refusing_voters(
    facts: Facts, controllers: Iterable[RestartedController]
) -> tuple[RestartedController, ...]:
    """Returns the same voters, with those whose endpoint refuses as down: the pessimistic reading of a refusal."""
    refusing = {voter.key for voter in facts.nodes.voters if voter.refused}
    return tuple(
        replace(controller, alive=controller.alive and controller.key not in refusing) for controller in controllers
    )


def without_doubtful(
    controllers: Iterable[RestartedController], nodes: Collection[NodeId], denying: Collection[NodeId]
) -> tuple[RestartedController, ...]:
    """Returns the same voters, as if no other controller could connect to `nodes`, or accepted their certificates.

    If one that stays is in `denying`, no candidate collects votes: Kafka ends a controller that is denied. Each
    candidate asks every voter for its vote, and one that starts asks any of the bootstrap controllers who leads.
    """
    known = tuple(controllers)
    ends_all = not {controller.key.id for controller in known if not controller.alive}.issuperset(denying)
    return tuple(
        replace(controller, unreachable=True, can_lead=False) if ends_all or controller.key.id in nodes else controller
        for controller in known
    )


def failures_left(facts: Facts) -> int | None:
    """Returns how many more of the voters may fail now, whichever they are; negative without a majority.

    So many are left that acknowledge records, and could elect another leader by the endpoints that they dial. None if
    it is not known, or depends on voters of which it is unknown whether others reach them.
    """
    quorum = facts.quorum
    counted, poll = facts.voters_that_count, fresh_poll(quorum)
    voting = facts.in_sync_with_vote
    if counted is None or voting is None or poll is None or facts.two_majorities:
        return None
    needed = majority(len(poll.voters))
    if len(voting) >= needed and (len(counted) < needed or not facts.denying.isdisjoint(voting - counted)):
        # Only voters in doubt make a majority, or one of them may end those that ask it in an election.
        return None
    left = len(counted) - needed
    if quorum.committed is not None:
        # While a change of the voter set is pending, candidates may still ask for a majority of the committed one.
        left = min(left, len(counted & quorum.committed.ids) - quorum.committed.majority)
    if left <= 0 or all(voter.endpoint_verdict is EndpointVerdict.OK for voter in facts.nodes.voters):
        return left
    voters = restarted_voters(facts)
    if not voters:
        return left
    # A leader that the others may not reach does not stay while others are lost.
    leads = {poll.leader_id} - {voter.key.id for voter in voters if not voter.can_be_followed}
    survived = _losses_survived(forecast_election(voters), leads, counted, left)
    asked = facts.denying.intersection(voter.key.id for voter in voters)
    proved = without_doubtful(voters, facts.doubtful, asked)
    sure = _losses_survived(forecast_election(proved), leads, counted, left)
    return survived if survived == sure else None


def _losses_survived(
    forecast: ElectionForecast, leads: Collection[NodeId], counted: Collection[NodeId], most: int
) -> int:
    """Returns how many voters may be lost, whichever they are, those in `leads` with them: others are elected then."""
    others = sorted({*counted} - {*leads})
    for left in range(most, 0, -1):
        losses = (frozenset({*leads, *lost}) for lost in combinations(others, left - len(leads)))
        if all(any(candidate.wins_without(lost) for candidate in forecast.candidates) for lost in losses):
            return left
    return 0


def _position(quorum: Quorum, key: ReplicaKey) -> LogEnd | None:
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
