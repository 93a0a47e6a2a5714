"""What two or more polls of a cluster give: rates, how long commits waited, and how long elections took."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rules.facts.following import majority_lag_ms
from streaming.status.cluster_status import ClusterStatus
from streaming.status.voters import ReplicaRole, ReplicaStatus

WINDOW_MS = 60_000
"""How far back rates and commit waits reach: twice Kafka's window of 30 s, because a poll happens once a second."""
ELECTIONS_MS = 600_000
"""How far back elections reach: they are rare."""
_RECORDS_BEFORE_ELECTION = 4
"""Records that may lie between the newest record of the last status and an election: an old leader's last NoOps, which
a follower fetches from the new leader. With more records in between, kraftwatch did not observe the election, and the
distance is meaningless."""

Node: TypeAlias = tuple[str, ...]
"""Node id and directory id, as labels."""


@dataclass(frozen=True, slots=True)
class _PolledOffsets:
    at_ms: int
    leader: Node | None
    log_ends: Mapping[Node, int]
    commit_wait_ms: int | None


@dataclass(frozen=True, slots=True)
class _TimedElection:
    at_ms: int
    took_ms: int


def node_of(row: ReplicaStatus) -> Node:
    """Returns the labels of a replica."""
    return str(row.node_id), row.directory_id or ""


class Rates:
    """Written by the thread that delivers, read by any thread: attributes are replaced, never changed."""

    def __init__(self) -> None:
        self._polls: tuple[_PolledOffsets, ...] = ()
        self._elections: tuple[_TimedElection, ...] = ()
        self._newest_record: tuple[int, int] | None = None
        """Offset and timestamp of the newest applied record."""

    def add(self, status: ClusterStatus) -> None:
        """Adds a status of the cluster, newer than those before."""
        at_ms = status.described_at_ms
        if at_ms is not None and (not self._polls or at_ms > self._polls[-1].at_ms):
            recent = (poll for poll in self._polls if at_ms - poll.at_ms <= WINDOW_MS)
            self._polls = (*recent, _poll(status, at_ms))
        if self._newest_record is not None:
            self._add_elections(status, *self._newest_record)
        offset, time_ms = status.last_offset, status.newest_timestamp_ms
        if offset is not None and time_ms is not None:
            self._newest_record = (offset, time_ms)

    def append_rate(self) -> float | None:
        """Returns records per second at the end of the leader's log; None unless one node led in the whole window."""
        leaders = {poll.leader for poll in self._polls}
        (leader,) = leaders if len(leaders) == 1 else (None,)
        return None if leader is None else self._rate(leader)

    def fetch_rates(self) -> Mapping[Node, float | None]:
        """Returns records per second at the end of every other replica's log."""
        if not self._polls:
            return {}
        newest = self._polls[-1]
        return {node: self._rate(node) for node in newest.log_ends if node != newest.leader}

    def commit_waits_s(self) -> tuple[float, float] | None:
        """Returns how long a majority lagged behind the leader's log, by the leader's clock: average and longest."""
        waits = [poll.commit_wait_ms for poll in self._polls if poll.commit_wait_ms is not None]
        return (sum(waits) / len(waits) / 1000, max(waits) / 1000) if waits else None

    def elections_s(self) -> tuple[float, float] | None:
        """Returns how long the log stood still around the observed elections: average and longest."""
        took = [election.took_ms for election in self._elections]
        return (sum(took) / len(took) / 1000, max(took) / 1000) if took else None

    def _rate(self, node: Node) -> float | None:
        known = [(poll.at_ms, poll.log_ends[node]) for poll in self._polls if node in poll.log_ends]
        if len(known) < 2:
            return None
        (first_ms, first), (last_ms, last) = known[0], known[-1]
        # A truncated log has no rate.
        return None if last < first else (last - first) * 1000 / (last_ms - first_ms)

    def _add_elections(self, status: ClusterStatus, offset: int, time_ms: int) -> None:
        fresh = [
            _TimedElection(at_ms=election.timestamp_ms, took_ms=election.timestamp_ms - time_ms)
            for election in status.elections
            if offset < election.offset <= offset + 1 + _RECORDS_BEFORE_ELECTION and election.timestamp_ms >= time_ms
        ][:1]
        now_ms = status.newest_timestamp_ms or time_ms
        self._elections = tuple(
            election for election in (*self._elections, *fresh) if now_ms - election.at_ms <= ELECTIONS_MS
        )


def _poll(status: ClusterStatus, at_ms: int) -> _PolledOffsets:
    rows = status.replicas
    leader = next((node_of(row) for row in rows if row.status is ReplicaRole.LEADER), None)
    ends: dict[Node, int] = {node_of(row): row.log_end_offset for row in rows if row.log_end_offset is not None}
    return _PolledOffsets(at_ms, leader, ends, _commit_wait_ms(status))


def _commit_wait_ms(status: ClusterStatus) -> int | None:
    """Returns how long the voter that completes the majority lags, by the leader's clock; 0 when it has every record.

    None while the lag of a voter in that majority is unknown.
    """
    voters = (row for row in status.replicas if row.status is not ReplicaRole.OBSERVER)
    return majority_lag_ms(0 if row.lag == 0 else None if row.lag is None else row.lag_time_ms for row in voters)
