"""Pace: what only two looks together tell of a cluster: rates, how long commits waited, how long elections took."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

WINDOW_MS = 60_000
"""How far back rates and waits reach: twice Kafka's own window of 30 s, because we look once a second."""
ELECTIONS_MS = 600_000
"""How far back elections are remembered: they are few."""
_HELD_BACK = 4
"""Records that may lie between the newest one we had seen and an election: an old leader's last NoOps, which a
follower learns of with the new one. With more of them we were away, and the distance tells nothing."""

Node: TypeAlias = tuple[str, ...]
"""Node id and directory id, as labels."""


@dataclass(frozen=True, slots=True)
class _Look:
    at_ms: int
    leader: Node | None
    ends: Mapping[Node, int]
    wait_ms: int | None


@dataclass(frozen=True, slots=True)
class _Election:
    at_ms: int
    took_ms: int


def node_of(row: Mapping[str, Any]) -> Node:
    """The labels of a replica: a row of `replicas`."""
    return str(row["node_id"]), row["directory_id"] or ""


class Pace:
    """Taken by the thread that delivers, read by any: what is read is replaced, never changed."""

    def __init__(self) -> None:
        self._looks: tuple[_Look, ...] = ()
        self._elections: tuple[_Election, ...] = ()
        self._end: tuple[int, int] | None = None
        """The newest applied record: offset and log time."""

    def take(self, portrait: Mapping[str, Any]) -> None:
        """One more portrait of the cluster, newer than those before."""
        at_ms = portrait["described_at_ms"]
        if at_ms is not None and (not self._looks or at_ms > self._looks[-1].at_ms):
            recent = (look for look in self._looks if at_ms - look.at_ms <= WINDOW_MS)
            self._looks = (*recent, _look(portrait, at_ms))
        offset, time_ms = portrait["last_offset"], portrait["newest_timestamp_ms"]
        if self._end is not None:
            self._take_elections(portrait, *self._end)
        if offset is not None and time_ms is not None:
            self._end = (offset, time_ms)

    def append_rate(self) -> float | None:
        """Records a second at the end of the leader's log; None unless one node led all the while."""
        leaders = {look.leader for look in self._looks}
        (leader,) = leaders if len(leaders) == 1 else (None,)
        return None if leader is None else self._rate(leader)

    def fetch_rates(self) -> dict[Node, float | None]:
        """Records a second at the end of every other replica's log."""
        if not self._looks:
            return {}
        newest = self._looks[-1]
        return {node: self._rate(node) for node in newest.ends if node != newest.leader}

    def commit_waits_s(self) -> tuple[float, float] | None:
        """How long a majority had been behind the leader's log, by the leader's clock: average and longest look."""
        waits = [look.wait_ms for look in self._looks if look.wait_ms is not None]
        return (sum(waits) / len(waits) / 1000, max(waits) / 1000) if waits else None

    def elections_s(self) -> tuple[float, float] | None:
        """How long the log stood still around the elections we watched: average and longest."""
        took = [one.took_ms for one in self._elections]
        return (sum(took) / len(took) / 1000, max(took) / 1000) if took else None

    def _rate(self, node: Node) -> float | None:
        known = [(look.at_ms, look.ends[node]) for look in self._looks if node in look.ends]
        if len(known) < 2:
            return None
        (first_ms, first), (last_ms, last) = known[0], known[-1]
        # A log that was cut back has no rate.
        return None if last < first else (last - first) * 1000 / (last_ms - first_ms)

    def _take_elections(self, portrait: Mapping[str, Any], offset: int, time_ms: int) -> None:
        fresh = [
            _Election(at_ms=one["at_ms"], took_ms=one["at_ms"] - time_ms)
            for one in portrait["elections"]
            if offset < one["offset"] <= offset + 1 + _HELD_BACK and one["at_ms"] >= time_ms
        ][:1]
        now_ms = portrait["newest_timestamp_ms"] or time_ms
        self._elections = tuple(one for one in (*self._elections, *fresh) if now_ms - one.at_ms <= ELECTIONS_MS)


def _look(portrait: Mapping[str, Any], at_ms: int) -> _Look:
    rows = portrait["replicas"]
    leader = next((node_of(row) for row in rows if row["status"] == "Leader"), None)
    ends = {node_of(row): row["log_end_offset"] for row in rows if row["log_end_offset"] is not None}
    return _Look(at_ms, leader, ends, _wait_ms(portrait))


def _wait_ms(portrait: Mapping[str, Any]) -> int | None:
    """How far behind in time, by the leader's clock, the voter is that makes the majority; 0 when it has every record.

    None while some of that majority is not known.
    """
    voters = [row for row in portrait["replicas"] if row["status"] in ("Leader", "Follower")]
    behind = sorted(
        0 if row["lag"] == 0 else row["lag_time_ms"]
        for row in voters
        if row["lag"] is not None and row["lag_time_ms"] is not None
    )
    majority = len(voters) // 2 + 1
    return behind[majority - 1] if voters and len(behind) >= majority else None
