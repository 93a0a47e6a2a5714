"""The voters of the leader's latest voter set (in sync, lagging, not fetching), and its changes that are not complete.

The leader's latest voter set differs from the committed one while a change is pending (KIP-853). DescribeQuorum reports
the latest one, with an uncommitted VotersRecord: its keys, and the listeners of each voter (`Nodes`, from version 2
on). A voter that moved changes its listeners only, by UpdateRaftVoter.

After a controller's disk was replaced (KIP-856), one node id is a voter with an old directory id and an observer with a
new one. After the removal of the old key and before the addition of the new one, the old key is in `Quorum.removals`.
"""

from collections.abc import Mapping
from typing import Final

from rules.facts.following import (
    Following,
    fetching_replacement,
    following,
    same_replica,
)
from rules.facts.freshness import fresh_views
from rules.facts.node import Nodes
from rules.model.identifiers import Endpoint, Millis, NodeId, ReplicaKey
from rules.model.membership import VoterRemoval, VoterSet
from rules.model.quorum import Quorum
from rules.model.replica import Poll

_HALF_DONE_MS: Final = Millis(86_400_000)
"""For how long after a voter's removal its node id with another directory id counts as its replacement that is not
added yet: a repair may wait until the next morning."""


def moving_voters(poll: Poll, committed: VoterSet) -> dict[NodeId, tuple[Endpoint, ...]]:
    """Returns the pending endpoints of each voter that is in both sets with different endpoints, by node id."""
    return {
        voter.key.id: pending
        for voter in committed.voters
        if voter.key in poll.voter_keys
        and (pending := poll.nodes.get(voter.key.id))
        and _addresses(pending) != _addresses(voter.endpoints)
    }


def change_is_pending(quorum: Quorum) -> bool:
    """Returns whether the leader has a voter set that is not committed: it rejects a second change (KIP-853)."""
    committed, poll = quorum.committed, quorum.poll
    if committed is None or poll is None:
        return False
    known = None not in {key.directory_id for key in poll.voter_keys}
    return (known and poll.voter_keys != committed.keys) or bool(moving_voters(poll, committed))


def _addresses(endpoints: tuple[Endpoint, ...]) -> set[tuple[str, str, int]]:
    return {(endpoint.listener.upper(), endpoint.host, endpoint.port) for endpoint in endpoints}


def half_done(quorum: Quorum, key: ReplicaKey) -> VoterRemoval | None:
    """Returns the removal that adding this replica would complete: same id, other directory id, within a day."""
    removals = [
        removal
        for removal in quorum.removals
        if removal.key.id == key.id
        and not same_replica(removal.key, key)
        and quorum.now_ms - removal.removed_at_ms <= _HALF_DONE_MS
    ]
    return removals[-1] if removals else None


def former_voters(quorum: Quorum) -> frozenset[NodeId]:
    """Returns the voters that a forced change removed: each still has the former voter set on its disk."""
    removed = {
        key.id
        for reconfiguration in quorum.history.reconfigurations
        for key in reconfiguration.before
        if key not in reconfiguration.after
    }
    return frozenset(removed - quorum.voter_ids)


def replaced_disks(nodes: Nodes) -> Mapping[NodeId, ReplicaKey]:
    """Returns the voters that run with another directory id, by node id: the one that the newest poll listed instead,
    or with which it leads another quorum.

    Such a controller has no vote: a vote is that of a node id and a directory id (KIP-853). Its log may be the voter's.
    """
    quorum = nodes.quorum
    if nodes.dialled is None:
        return {}
    voters = {voter.key.id: voter.key for voter in nodes.dialled.voters}
    poll = quorum.poll
    missing = [key for key in voters.values() if following(quorum, poll, key) is Following.NOT_FETCHING]
    found = {key.id: fetching_replacement(quorum, poll, key) for key in missing}
    found |= {
        key.id: key
        for view in fresh_views(quorum)
        for key in view.other_voters
        if key.id == view.node and key.id in voters and not same_replica(key, voters[key.id])
    }
    return {node: key for node, key in found.items() if key is not None}
