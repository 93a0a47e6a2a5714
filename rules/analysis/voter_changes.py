"""How the leader's latest voter set differs from the committed one: a change of the voter set is pending (KIP-853).

DescribeQuorum reports the leader's latest set, with an uncommitted VotersRecord: its keys, and the listeners of each
voter (`Nodes`, from version 2 on). A voter that moved changes its listeners only, by UpdateRaftVoter.
"""

from rules.model.identifiers import Endpoint, NodeId
from rules.model.poll import Poll
from rules.model.voter_set import VoterSet


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
