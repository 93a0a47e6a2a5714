"""The voters of the leader's latest voter set (in sync, lagging, not fetching), and its changes that are not complete.

The leader's latest voter set differs from the committed one while a change is pending (KIP-853). DescribeQuorum reports
the latest one, with an uncommitted VotersRecord: its keys, and the listeners of each voter (`Nodes`, from version 2
on). A voter that moved changes its listeners only, by UpdateRaftVoter.

After a controller's disk was replaced (KIP-856), one node id is a voter with an old directory id and an observer with a
new one. After the removal of the old key and before the addition of the new one, the old key is in `Quorum.removals`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rules.facts.following import (
    Following,
    fetching_replacement,
    following,
    records_behind,
    replica_row,
    same_replica,
    since_caught_up_ms,
    since_last_fetch_ms,
)
from rules.facts.freshness import fresh_views
from rules.facts.node import Nodes
from rules.finding import Threshold, Thresholds
from rules.formatting import plural, utc_text
from rules.model.identifiers import Endpoint, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import VoterRemoval, VoterSet
from rules.model.quorum import Quorum
from rules.model.replica import Poll

HALF_DONE = Threshold(
    name="half_done",
    default=86_400.0,
    meaning="for how long after a voter's removal its node id with another directory id counts as its replacement "
    "that is not added yet. A day covers a repair that waits until the next morning",
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


def change_is_pending(quorum: Quorum) -> bool:
    """Returns whether the leader has a voter set that is not committed: it rejects a second change (KIP-853)."""
    committed, poll = quorum.committed, quorum.poll
    if committed is None or poll is None:
        return False
    known = None not in {key.directory_id for key in poll.voter_keys}
    return (known and poll.voter_keys != committed.keys) or bool(moving_voters(poll, committed))


def _addresses(endpoints: tuple[Endpoint, ...]) -> set[tuple[str, str, int]]:
    return {(endpoint.listener.upper(), endpoint.host, endpoint.port) for endpoint in endpoints}


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


@dataclass(frozen=True, kw_only=True)
class VoterStatus:
    """One voter by the newest poll. Durations are differences of times on the leader's clock.

    Without slots: what is derived is kept.
    """

    nodes: Nodes = field(repr=False, compare=False)
    poll: Poll = field(repr=False)
    key: ReplicaKey

    @cached_property
    def following(self) -> Following:
        """How the voter follows the leader."""
        node = self.nodes[self.key.id]
        return node.following if node.key == self.key else following(self.nodes.quorum, self.poll, self.key)

    @property
    def since_last_fetch_ms(self) -> Millis | None:
        """How long before the poll it last fetched."""
        return since_last_fetch_ms(self.nodes.quorum, self.poll, self.key)

    @property
    def lag_ms(self) -> Millis | None:
        """How long before the poll it had last caught up."""
        return since_caught_up_ms(self.nodes.quorum, self.poll, self.key)

    @property
    def log_end_offset(self) -> Offset | None:
        """Where its log ends, as the leader knows it."""
        row = replica_row(self.poll, self.key)
        return row.log_end_offset if row else None

    @property
    def lag(self) -> int | None:
        """Records behind the leader's log end; None if one of both ends is unknown."""
        return records_behind(self.poll, replica_row(self.poll, self.key))

    @property
    def replaced_by(self) -> ReplicaKey | None:
        """Another directory of the same node id that fetches without a vote: the voter's disk was replaced.

        None if no VotersRecord is known: `voter-disk-replaced` is not applicable then, so other rules report the voter.
        """
        if self.following.fetches or self.nodes.quorum.committed is None:
            return None
        return fetching_replacement(self.nodes.quorum, self.poll, self.key)

    def __str__(self) -> str:
        """Returns how it follows, with the time since which the voter lags or does not fetch if it is known."""
        match self.following:
            case Following.IN_SYNC:
                return "in sync"
            case Following.LAGGING:
                return f"lagging{self._since}"
            case Following.NOT_FETCHING | Following.UNKNOWN:
                return f"not fetching{self._since}"

    @property
    def sentence(self) -> str:
        """Returns what the voter does, as a sentence."""
        match self.following:
            case Following.IN_SYNC:
                return f"Voter {self.key.id} is in sync."
            case Following.LAGGING:
                by = "" if self.lag is None else f", by {plural(self.lag, 'record')}"
                lags = "has lagged" if self._since else "lags"
                return (
                    f"Voter {self.key.id} fetches, but {lags} behind leader {self.poll.leader_id}{self._since}{by}. "
                    f"The path {self.path} or the voter itself is slow."
                )
            case Following.NOT_FETCHING | Following.UNKNOWN:
                return f"Voter {self.key.id} has not fetched{self._since}."

    @property
    def path(self) -> str:
        """Returns the path over which the voter fetches."""
        return f"voter {self.key.id} -> leader {self.poll.leader_id}"

    @property
    def _since(self) -> str:
        """Since when the voter has lagged or not fetched, after a space; empty if a lag is of unknown age."""
        lags, leader = self.following is Following.LAGGING, self.poll.leader_id
        age = self.lag_ms if lags else self.since_last_fetch_ms
        if age is not None:
            return f" since {utc_text(self.poll.observed_at_ms - age)}"
        elected_ms = self._leader_since_ms
        if elected_ms is None:
            return "" if lags else f" from leader {leader} yet"
        return f" since controller {leader} took over at {utc_text(elected_ms)}"

    @property
    def _leader_since_ms(self) -> Millis | None:
        """The timestamp of the leader's election; None if the log no longer contains it, or its clock was set back."""
        row = replica_row(self.poll, self.key)
        if row is not None and row.last_caught_up_ms is not None and self.lag_ms is None:
            return None
        elections = reversed(self.nodes.quorum.history.elections)
        return next(
            (election.timestamp_ms for election in elections if election.leader_epoch == self.poll.leader_epoch), None
        )


def voter_statuses(nodes: Nodes) -> tuple[VoterStatus, ...]:
    """Returns the status of each voter of the poll: the majority of the leader's latest set commits and elects.

    None without a current poll in which the leader has a row. The quorum's histories bridge elections.
    """
    poll = nodes.poll
    if poll is None or poll.leader is None:
        return ()
    return tuple(VoterStatus(nodes=nodes, poll=poll, key=key) for key in sorted(poll.voter_keys))


def in_sync_count(statuses: Iterable[VoterStatus]) -> int:
    """Returns how many of the voters are in sync."""
    return sum(status.following is Following.IN_SYNC for status in statuses)


def further_failures_text(spare: int) -> str:
    """Returns how many further failures a quorum tolerates that has so many voters more than a majority, as text."""
    return plural(spare, "further failure") if spare > 0 else "no further failure"


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
    """Returns the voters that run with another disk, by node id: the one that the newest poll listed instead, or with
    which it leads another quorum.

    Such a controller has no vote: a vote is that of a node id and a directory id (KIP-853).
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
