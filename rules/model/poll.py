"""DescribeQuorum answers (KIP-595, KIP-836), and each replica's progress over several of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey

OBSERVER_SESSION_MS = 300_000
"""How long a leader lists an observer after its last fetch (LeaderState.OBSERVER_SESSION_TIMEOUT_MS)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A voter's or observer's row in DescribeQuorum, as the leader reports it. Times are of the leader's clock."""

    key: ReplicaKey
    log_end_offset: Offset | None
    last_fetch_ms: Millis | None
    last_caught_up_ms: Millis | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """One DescribeQuorum answer. `voters` is the leader's latest set: it may contain an uncommitted change."""

    observed_at_ms: Millis
    leader_id: NodeId
    leader_epoch: Epoch
    high_watermark: Offset | None
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    nodes: Mapping[NodeId, tuple[Endpoint, ...]] = field(default_factory=dict)

    @property
    def leader(self) -> Replica | None:
        """The leader's own row: the only row whose times the other rows may be compared with."""
        rows = (*self.voters, *self.observers)
        return next((row for row in rows if row.key.id == self.leader_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """One replica's progress at one poll. `lag_ms` is 0 if it had caught up with the leader's log end then."""

    observed_at_ms: Millis
    lag: int | None
    """Records behind the leader's log end offset."""
    lag_ms: Millis | None
    """The leader's last_caught_up (the current time of its clock) minus this replica's last_caught_up."""
    fetch_age_ms: Millis | None
    """The leader's last_fetch (the current time of its clock) minus this replica's last_fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaHistory:
    """One replica's progress over the newest polls: a bounded window, newest last (as Burrow evaluates lag)."""

    key: ReplicaKey
    first_seen_at_ms: Millis
    last_seen_at_ms: Millis
    last_log_end_offset: Offset | None
    last_leader_epoch: Epoch
    """The leader epoch of the first poll with `last_log_end_offset`.

    Replay sets both together, and only when a poll contains a log end offset (not None) that differs from the stored
    one. So a voter that stopped fetching keeps the epoch in which its log ends, however many elections follow.
    """
    samples: tuple[LagSample, ...]
