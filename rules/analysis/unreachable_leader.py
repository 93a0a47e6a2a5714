"""A hidden leader: one whom the others follow, and whom only we do not reach."""

from collections.abc import Collection
from dataclasses import dataclass

from rules.analysis.leader_views import VIEW_AGE, views_within
from rules.model.identifiers import Epoch, Millis, NodeId
from rules.model.monitoring import Connection, FailedObservation, LeaderView, Reason, probe_key
from rules.model.quorum import Quorum
from rules.model.voter_set import Voter

_UNREACHED_MS = 60_000
"""How old a failed attempt to reach the leader may be: they are made ever more rarely."""
_UNREACHED = frozenset(
    {
        *(Reason.UNRESOLVABLE, Reason.RESOLVER_FAILED, Reason.TIMED_OUT, Reason.UNREACHABLE, Reason.CLOSED),
        *(Reason.DENIED, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED),
    }
)
"""What may lie between us and a node that is well. Where connections are refused nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenLeader:
    """It leads, by the word of those that would have elected another were it gone."""

    id: NodeId
    epoch: Epoch
    followers: tuple[str, ...]
    """HOST:PORT of the controllers that name it."""


def hidden_leader(quorum: Quorum, answered: Collection[str]) -> HiddenLeader | None:
    """The leader that others name and that does not answer us, if they would have replaced it were it gone.

    Followers that hear nothing of their leader for controller.quorum.fetch.timeout.ms elect another, within seconds, if
    a majority of the voters reach one another (KIP-595); if not, each goes on naming the old one. So their word counts
    if they are a majority without it, and as far as what is recorded as their endpoints accepts connections.

    Args:
        quorum: with what each controller said, and what failed.
        answered: HOST:PORT of the nodes that answer that they are no leader.
    """
    said = views_within(quorum, Millis(round(VIEW_AGE.default * 1000)))
    epoch = max((view.leader_epoch for view in said if view.leader_epoch is not None), default=None)
    named = {view.leader_id for view in said if view.leader_epoch == epoch}
    leader = named.pop() if epoch is not None and len(named) == 1 else None
    if epoch is None or leader is None or any(view.node == leader for view in said if view.endpoint in answered):
        return None
    following = [
        view
        for view in said
        if view.endpoint in answered and (view.leader_epoch, view.leader_id) == (epoch, leader) and view.this_cluster
    ]
    if not _unreached(quorum, leader, answered) or len(_voting(quorum, following)) < _majority(quorum):
        return None
    return HiddenLeader(id=leader, epoch=epoch, followers=tuple(sorted(view.endpoint for view in following)))


def _unreached(quorum: Quorum, leader: NodeId, answered: Collection[str]) -> bool:
    """Something lies between us and it, as far as its endpoints are known; nobody refuses there."""
    recent = [each for each in quorum.failures if quorum.now_ms - each.last_at_ms <= _UNREACHED_MS]
    places = _places(recent, _UNREACHED) - {*answered}
    refusing = _places(recent, {Reason.REFUSED})
    recorded = {str(endpoint) for voter in _voters(quorum) if voter.key.id == leader for endpoint in voter.endpoints}
    if recorded:
        return bool(recorded & places) and not recorded & (refusing | {*answered})
    return bool(places) and not refusing


def _voting(quorum: Quorum, following: list[LeaderView]) -> set[NodeId | str]:
    """Who of them has a vote and is where the others look for it; all of them where the voters are not known."""
    voters = {voter.key.id: voter for voter in _voters(quorum)}
    if not voters:
        return {view.endpoint for view in following}
    return {view.node for view in following if view.node in voters and _accepts(quorum, voters[view.node])}


def _accepts(quorum: Quorum, voter: Voter) -> bool:
    looked = [quorum.probes.get(probe_key(voter.key.id, endpoint)) for endpoint in voter.endpoints[:1]]
    return all(probe is None or probe.connection is Connection.ACCEPTED for probe in looked)


def _majority(quorum: Quorum) -> int:
    polled = len(quorum.poll.voters) if quorum.poll else 0
    return (len(_voters(quorum)) or polled or len(quorum.bootstrap)) // 2 + 1


def _voters(quorum: Quorum) -> tuple[Voter, ...]:
    return quorum.committed.voters if quorum.committed else ()


def _places(failures: Collection[FailedObservation], reasons: Collection[Reason]) -> set[str]:
    return {each.endpoint for each in failures if each.reason in reasons}
