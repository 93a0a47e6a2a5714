"""DescribeQuorum answers (KIP-595, KIP-836) and what they showed of each replica over time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A voter's or observer's row in DescribeQuorum: the leader's view of it. Times are the leader's clock."""

    key: ReplicaKey
    log_end_offset: Offset | None
    last_fetch_ms: Millis | None
    last_caught_up_ms: Millis | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """One answered DescribeQuorum. `voters` is the leader's latest set: it may hold an uncommitted change."""

    observed_at_ms: Millis
    leader_id: NodeId
    leader_epoch: Epoch
    high_watermark: Offset | None
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    nodes: Mapping[NodeId, tuple[Endpoint, ...]] = field(default_factory=dict)

    @property
    def leader(self) -> Replica | None:
        """The leader's own row: the only clock the other rows may be compared with."""
        rows = (*self.voters, *self.observers)
        return next((row for row in rows if row.key.id == self.leader_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """One replica's progress at one poll. `lag_ms` is 0 when it had caught up with the leader's end then."""

    observed_at_ms: Millis
    lag: int | None
    """Records behind the leader's log end offset."""
    lag_ms: Millis | None
    """Leader's last_caught_up (its own clock, that is its now) minus this replica's last_caught_up."""
    fetch_age_ms: Millis | None
    """Leader's last_fetch (its now) minus this replica's last_fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaHistory:
    """What the polls showed of one replica: a bounded window, newest last (Burrow's way of judging lag)."""

    key: ReplicaKey
    first_seen_at_ms: Millis
    last_seen_at_ms: Millis
    last_log_end_offset: Offset | None
    last_leader_epoch: Epoch
    """The leader epoch of the first poll that showed `last_log_end_offset`.

    Filled by replay: both change together, and only when a poll shows a log end offset (not None) that
    differs from the remembered one. So a voter that fell silent keeps the epoch its log really ended in,
    however many elections the others hold since.
    """
    samples: tuple[LagSample, ...]
