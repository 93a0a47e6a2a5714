"""Which voters count for a majority now: in sync, with a vote, and served where the others dial them."""

from collections.abc import Mapping

from rules.analysis.endpoint_status import CURED_BY_RESTART, endpoint_statuses, with_dialled_voters
from rules.analysis.freshness import fresh_poll
from rules.analysis.leadership import disagreeing_views, leaderless
from rules.analysis.missing_voter import replaced_disks
from rules.analysis.roles import ALONE_MS
from rules.analysis.silent_controllers import silent_controllers
from rules.analysis.static_voters import WITHOUT_LIST, with_doubtful_list, without_list
from rules.model.following import Following
from rules.model.identifiers import NodeId
from rules.model.membership import Voter
from rules.model.monitoring import Connection, Reason
from rules.model.quorum import Quorum

_REJECTING = frozenset({Reason.DENIED, Reason.NOT_AUTHENTICATED})
"""A controller that rejects the monitor, while others do not, may reject the other controllers too."""


def without_vote(quorum: Quorum) -> Mapping[NodeId, str]:
    """Returns the voters that grant no vote, however they follow, and why."""
    replaced = {node: f"runs with another disk, {key}" for node, key in quorum.derived(replaced_disks).items()}
    # Below metadata.version 3.7 no controller registers.
    voters = (with_dialled_voters(quorum) or quorum).voters if quorum.controllers else ()
    brokers = {voter.key.id: "runs no controller" for voter in voters if runs_no_controller(quorum, voter)}
    return {**replaced, **brokers, **dict.fromkeys(quorum.derived(without_list), WITHOUT_LIST)}


def in_doubt(quorum: Quorum) -> Mapping[NodeId, str]:
    """Returns the voters of which it is unknown whether they take part: they report otherwise, or reject requests."""
    views = {
        view.node: f"reports {'no leader' if view.leader_id is None else f'leader {view.leader_id}'}"
        if view.this_cluster
        else f"is not the node that answers at {view.endpoint}: that is one of another cluster"
        for view in disagreeing_views(quorum)
        if view.node is not None
    }
    rejecting = {
        one.key.id: f"rejects the monitor, and maybe the other controllers ({one.reason} at {one.endpoint})"
        for one in silent_controllers(quorum)
        if one.answering and one.reason in _REJECTING
    }
    return {**views, **quorum.derived(with_doubtful_list), **rejecting}


def runs_no_controller(quorum: Quorum, voter: Voter) -> bool:
    """Returns whether a node runs without the controller that has this vote: registered otherwise, or fetching."""
    node = voter.key.id
    controller, broker = quorum.controllers.get(node), quorum.brokers.get(node)
    if controller is None:
        return broker is not None or quorum.nodes[node].following.fetches
    probe = quorum.probe(node, voter.endpoint)
    listens = probe is not None and probe.connection is Connection.ACCEPTED
    return broker is not None and not listens and broker.at.timestamp_ms - controller.at.timestamp_ms > ALONE_MS


def voters_that_count(quorum: Quorum) -> frozenset[NodeId] | None:
    """Returns the voters of the leader's latest set that may acknowledge, vote and lead now.

    None while nothing current shows it: without a leader, without a current poll, or without its own row in it.
    """
    poll = fresh_poll(quorum)
    if poll is None or poll.leader is None or quorum.derived(leaderless) is not None:
        return None
    dialled = with_dialled_voters(quorum) or quorum
    faulty = {
        one.voter.key.id for one in endpoint_statuses(dialled, poll) if not CURED_BY_RESTART.isdisjoint(one.faults)
    }
    lost = {*quorum.derived(without_vote), *quorum.derived(in_doubt), *faulty}
    in_sync = {row.key.id for row in poll.voters if quorum.nodes[row.key.id].following is Following.IN_SYNC}
    return frozenset(in_sync - lost)
