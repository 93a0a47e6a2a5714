"""Changes of the voter set that are not complete: pending ones (KIP-853), and a disk that was replaced (KIP-856).

The leader's latest voter set differs from the committed one while a change is pending. DescribeQuorum reports the
latest one, with an uncommitted VotersRecord: its keys, and the listeners of each voter (`Nodes`, from version 2 on). A
voter that moved changes its listeners only, by UpdateRaftVoter.

After a controller's disk was replaced, one node id is a voter with an old directory id and an observer with a new one.
After the removal of the old key and before the addition of the new one, the old key is in `Quorum.removals`.
"""

from rules.analysis.replica_lag import same_replica
from rules.finding import Threshold, Thresholds
from rules.model.identifiers import Endpoint, NodeId, ReplicaKey
from rules.model.membership import VoterRemoval, VoterSet
from rules.model.quorum import Poll, Quorum

HALF_DONE = Threshold(
    name="half_done",
    default=86_400.0,
    unit="s",
    meaning="for how long after a voter's removal the same node id with another directory id counts as its "
    "replacement that is not added yet; later it is an observer like any other. A day covers a repair that waited "
    "until the next morning",
)


def moving_voters(poll: Poll, committed: VoterSet) -> dict[NodeId, tuple[Endpoint, ...]]:
    """Returns the pending endpoints of each voter that is in both sets with different endpoints, by node id."""
    return {
        voter.key.id: pending
        for voter in committed.voters
        if voter.key in poll.voter_keys
        and (pending := poll.nodes.get(voter.key.id))
        and _addresses(pending) != _addresses(voter.endpoints)
    }


def _addresses(endpoints: tuple[Endpoint, ...]) -> set[tuple[str, str, int]]:
    return {(one.listener.upper(), one.host, one.port) for one in endpoints}


def half_done(quorum: Quorum, key: ReplicaKey, thresholds: Thresholds) -> VoterRemoval | None:
    """Returns the removal that adding this replica would complete: same id, other directory id, within `half_done`."""
    removals = [
        removal
        for removal in quorum.removals
        if removal.key.id == key.id
        and not same_replica(removal.key, key)
        and quorum.now_ms - removal.removed_at_ms <= thresholds.ms(HALF_DONE.name)
    ]
    return removals[-1] if removals else None
