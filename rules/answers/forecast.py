"""Which controllers win an election in which nothing is doubtful: a doubtful part counts.

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

A candidate needs the votes of a majority that it reaches, and a majority that reaches it follows it. Who is both is
enough. If only the two apart are majorities, those that voted without being able to follow ask for votes themselves,
and whether one is elected that is followed depends on who asks first (Kafka 4.4.0: three controllers, each of which
did not reach the next one, had a leader that committed 15 s after their start, three times of three).

One thing depends on chance. A controller that led the last epoch that it knows answers fetches as that epoch's leader
after its start, until its first election timeout (Kafka's ResignedState), and names its own endpoint. A voter that does
not know of that leader, and fetches from controller.quorum.bootstrap.servers in this second or two, connects to it
there. Its vote requests then go over that connection: Kafka's NetworkClient finds a connection by node id, whatever
endpoint the voter set names. Seen on Kafka 3.9.2, where all controllers were stopped at once and one did not hear of
the last leader (2 of 3 such starts elected a leader, with every endpoint moved); the code of 4.0 to 4.3 is the same.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rules.answers.part import Elector, LastElection, Part
from rules.model.identifiers import Epoch, LogEnd, NodeId, ReplicaKey
from rules.model.membership import Voter
from rules.model.witness import DialStep

CANNOT_FOLLOW = "it cannot connect to the candidate"
"""Why the vote of a voter does not count: it could not fetch from the candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateForecast:
    """What one controller would get in an election."""

    key: ReplicaKey
    needed: int
    """A majority of the voter set in its own log."""
    reached: tuple[ReplicaKey, ...]
    """The voters whose votes it would get, itself included."""
    followers: tuple[ReplicaKey, ...]
    """The voters that would fetch from it, itself included."""
    barred: Mapping[ReplicaKey, str]
    """The other voters of its set, and why it would not get their votes."""
    may_reach: tuple[ReplicaKey, ...] = ()
    """Those of them whose votes it gets if it learns their endpoints in time: they led an epoch unknown to it."""

    @property
    def wins(self) -> bool:
        """Whether the candidate would get enough votes, and be followed."""
        return self.spare >= 0

    @property
    def spare(self) -> int:
        """How many more votes and followers than it needs it would have."""
        return min(len(self.reached), len(self.followers)) - self.needed

    def wins_without(self, lost: Collection[NodeId]) -> bool:
        """Returns whether the candidate would win without these controllers."""
        left = (sum(key.id not in lost for key in keys) for keys in (self.reached, self.followers))
        return self.key.id not in lost and min(left) >= self.needed


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionForecast:
    """The result for all controllers."""

    candidates: tuple[CandidateForecast, ...]
    """Every controller that runs and is a voter of the set in its own log, by key."""

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
        may_win = (candidate for candidate in self.candidates if candidate.spare + len(candidate.may_reach) >= 0)
        return () if self.electable else tuple(may_win)


def forecast_election(controllers: Iterable[Elector], *, apart: bool = False) -> ElectionForecast:
    """Evaluates an election among these controllers, each once. Takes n * n steps.

    Args:
        controllers: all of them.
        apart: whether it is enough that those that vote and those that follow are majorities.
    """
    ordered = sorted(controllers, key=lambda one: one.key)
    by_id = {controller.key.id: controller for controller in ordered}
    return ElectionForecast(
        candidates=tuple(
            _forecast(controller, by_id, apart=apart)
            for controller in ordered
            if Part.LOST not in (controller.runs, controller.votes) and controller.key in controller.voters.keys
        )
    )


def _forecast(candidate: Elector, by_id: Mapping[NodeId, Elector], *, apart: bool) -> CandidateForecast:
    reached: list[ReplicaKey] = []
    followers: list[ReplicaKey] = []
    may_reach: list[ReplicaKey] = []
    barred: dict[ReplicaKey, str] = {}
    denying = _denying(candidate, by_id)
    for voter in sorted(candidate.voters.voters, key=lambda one: one.key):
        now = by_id.get(voter.key.id)
        own = voter.key == candidate.key
        reason = None if own else denying or _barred(candidate, voter, now, follows=not apart)
        if own or (denying or _barred(candidate, voter, now, votes=not apart)) is None:
            followers.append(voter.key)
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
        followers=tuple(followers),
        barred=barred,
        may_reach=tuple(may_reach),
    )


def _denying(candidate: Elector, by_id: Mapping[NodeId, Elector]) -> str | None:
    """Returns why the candidate ends when it asks for votes; None if no controller that runs is shown to deny it."""
    denied = (of for of, step in sorted(candidate.unreached.items()) if step is DialStep.PERMISSION and of in by_id)
    ends = next((of for of in denied if by_id[of].runs is not Part.LOST), None)
    return None if ends is None else f"the candidate ends: controller {ends} denies what it sends"


def _barred(
    candidate: Elector, voter: Voter, now: Elector | None, *, votes: bool = True, follows: bool = True
) -> str | None:
    """Returns why a voter does not count: what it needs to vote, to follow, or both. None if it counts."""
    if now is None or now.runs is Part.LOST:
        return (now and now.no_start) or "down"
    if now.votes is Part.LOST:
        return now.no_vote
    if now.accepts is Part.LOST:
        return "it does not accept what the others send"
    if not candidate.can_be_followed or (follows and candidate.key.id in now.unreached):
        return CANNOT_FOLLOW
    if votes and now.key.id in candidate.unreached:
        return f"the candidate's host does not reach it ({candidate.unreached[now.key.id]})"
    if now.key == voter.key:
        dialled = voter.endpoint
        if now.reached is Part.LOST or dialled is None:
            return "its recorded endpoint does not reach it"
        if now.endpoint is not None and not now.endpoint.same_address(dialled):
            return f"its recorded endpoint {dialled} does not reach it"
    return _refusal(candidate, voter, now)


def _refusal(candidate: Elector, voter: Voter, now: Elector) -> str | None:
    """Returns why this controller would not vote for the candidate even if it were asked; None if it would."""
    if now.runs is Part.LOST:
        return "down"
    if now.key != voter.key:
        return "its directory id is another one"
    if candidate.log_end is not None and now.log_end is not None and now.log_end > candidate.log_end:
        return "its log is ahead"
    return None


def _may_learn_endpoint(candidate: Elector, now: Elector) -> bool:
    """Whether `now` starts as the leader of an epoch whose leader the candidate does not know."""
    claimed, known = now.last_election, candidate.last_election
    if claimed is None or known is None or now.reached is Part.LOST or claimed.leader != now.key.id:
        return False
    claimed_epoch, _ = _starts_in(claimed, now.log_end)
    if claimed_epoch != claimed.epoch:
        return False
    epoch, leader = _starts_in(known, candidate.log_end)
    return epoch < claimed_epoch or (epoch == claimed_epoch and leader is None)


def _starts_in(known: LastElection, end: LogEnd | None) -> tuple[Epoch, NodeId | None]:
    """Returns the epoch and the leader with which a controller starts: those of its log if its log is newer (Kafka's
    QuorumState.initialize)."""
    if end is not None and end[0] > known.epoch:
        return end[0], None
    return known.epoch, known.leader
