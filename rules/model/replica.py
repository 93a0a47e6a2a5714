"""Replicas as DescribeQuorum reports them, and their progress over the newest polls.

`last_fetch_ms` and `last_caught_up_ms` are of the leader's clock and comparable only with the leader's own row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rules.model.identifiers import START, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A voter's or observer's row in DescribeQuorum, as the leader reports it. Times are of the leader's clock."""

    key: ReplicaKey
    log_end_offset: Offset | None
    last_fetch_ms: Millis | None
    last_caught_up_ms: Millis | None


@dataclass(frozen=True, kw_only=True)
class Poll:
    """One DescribeQuorum answer. `voters` is the leader's latest set: it may contain an uncommitted change.

    Without slots: what is derived from the rows is kept, because each rule looks up each replica.
    """

    observed_at_ms: Millis = START
    cluster_id: str | None = None
    endpoint: str = ""
    """HOST:PORT of the node that answered."""
    leader_id: NodeId
    leader_epoch: Epoch
    high_watermark: Offset | None
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    nodes: Mapping[NodeId, tuple[Endpoint, ...]] = field(default_factory=dict)
    clock_ahead_ms: int = 0
    """By how much `observed_at_ms` is ahead of the clock of kraftwatch's host, which was set back."""
    answer_ms: int | None = None
    """How long the leader took to answer; None if that was not measured."""

    @cached_property
    def leader(self) -> Replica | None:
        """The leader's own row: the only row whose times the other rows may be compared with."""
        return next(iter(self.rows_by_id.get(self.leader_id, ())), None)

    @cached_property
    def rows_by_id(self) -> Mapping[NodeId, tuple[Replica, ...]]:
        """Every row by its node id: a replaced disk has two. Voters come before observers."""
        return _by_id((*self.voters, *self.observers))

    @cached_property
    def observers_by_id(self) -> Mapping[NodeId, tuple[Replica, ...]]:
        """Every observer's row by its node id."""
        return _by_id(self.observers)

    @cached_property
    def voter_keys(self) -> frozenset[ReplicaKey]:
        """The keys of the leader's latest voter set."""
        return frozenset(row.key for row in self.voters)

    @cached_property
    def voter_ids(self) -> frozenset[NodeId]:
        """The node ids of the leader's latest voter set."""
        return frozenset(row.key.id for row in self.voters)


def _by_id(rows: Iterable[Replica]) -> Mapping[NodeId, tuple[Replica, ...]]:
    found: dict[NodeId, list[Replica]] = {}
    for row in rows:
        found.setdefault(row.key.id, []).append(row)
    return {node: tuple(of_node) for node, of_node in found.items()}


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
class CommitWait:
    """How long records wait until a majority has them: averages over about half a minute of polls, rounded down."""

    average_ms: Millis
    """How long the voter that completes the majority lags."""
    answer_ms: Millis | None
    """How long the leader takes to answer a poll: the thread that answers also appends to its disk. None: no poll
    shows it."""
    lags_ms: Mapping[str, Millis]
    """How long each voter lags, by its key as text; at most 10 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRegression:
    """A voter's log ended below committed records that this voter had: Raft never truncates those (KIP-595)."""

    acknowledged_offset: Offset
    """All records below it are committed and were in the voter's log."""
    log_end_offset: Offset
    """Where the log ended in the first poll that shows the regression."""
    leader_epoch: Epoch
    observed_at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A time in which polls showed that a voter was not in sync: from when it had last caught up."""

    since_ms: Millis
    until_ms: Millis | None = None
    """None while it lasts."""


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
    outages: tuple[Outage, ...] = ()
    """Of a voter, oldest first. Bounded by replay. A time without polls is no part of one."""
    log_regression: LogRegression | None = None
    """The newest regression of this voter's log, also after it caught up."""

    @property
    def lacks_records(self) -> bool:
        """Whether the replica's log went back, and lacks committed records that it had."""
        end, regression = self.last_log_end_offset, self.log_regression
        return regression is not None and (end is None or end < regression.acknowledged_offset)
