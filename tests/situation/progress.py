"""How one replica fetches the metadata log in a situation, and its row in each DescribeQuorum answer."""

from collections.abc import Callable
from dataclasses import dataclass

from rules.model.identifiers import Millis, Offset, ReplicaKey
from rules.model.replica import Replica


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A replica that fetches and is caught up, unless a field says otherwise. Times are the monitor's."""

    stopped_ms: int | None = None
    """It has not fetched since."""
    stuck_ms: int | None = None
    """It fetches, and has appended nothing since."""
    lag_ms: int = 0
    """It is so far behind when it fetches for the last time, in the newest poll unless it stopped."""
    lag_rate: float = 0
    """How much its lag grows in a millisecond; negative: it catches up."""
    never_caught_up_since_ms: int | None = None
    """Since then the leader does not know since when it lags: it has not caught up with this leader yet."""
    appeared_ms: int | None = None
    """It fetches for the first time then."""
    ends_ms: int | None = None
    """It is listed for the last time then."""
    outages: tuple[tuple[int, int], ...] = ()
    """From when until when it was stuck."""
    log_ends: tuple[tuple[int, int], ...] = ()
    """From when on its log ends at this offset."""
    regains_ms: int | None = None
    """When its log has all records again, whatever `log_ends` says."""
    unknown_since_ms: int | None = None
    """Since then the leader does not know how it fetches."""

    def is_listed(self, at_ms: int) -> bool:
        """Returns whether it is in the answer of this time."""
        begun = self.appeared_ms is None or at_ms >= self.appeared_ms
        return begun and (self.ends_ms is None or at_ms <= self.ends_ms)

    def row(self, key: ReplicaKey, at_ms: int, *, now_ms: int, ahead_ms: int, log_end: Callable[[int], int]) -> Replica:
        """Returns its row; `log_end` returns where the leader's log ended at a time, `ahead_ms` is of its clock."""
        if self.unknown_since_ms is not None and at_ms >= self.unknown_since_ms:
            return Replica(key=key, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None)
        fetched_ms = at_ms if self.stopped_ms is None else min(at_ms, self.stopped_ms)
        last_ms = now_ms if self.stopped_ms is None else self.stopped_ms
        lag_ms = self.lag_ms and max(0, round(self.lag_ms - (last_ms - fetched_ms) * self.lag_rate))
        caught_up_ms = fetched_ms - lag_ms
        if self.stuck_ms is not None:
            caught_up_ms = min(caught_up_ms, self.stuck_ms)
        for since_ms, until_ms in self.outages:
            if since_ms < at_ms < until_ms:
                caught_up_ms = since_ms
        end = log_end(caught_up_ms)
        for since_ms, offset in self.log_ends:
            if at_ms >= since_ms and (self.regains_ms is None or at_ms < self.regains_ms):
                end = offset
        never_caught_up = self.never_caught_up_since_ms is not None and at_ms >= self.never_caught_up_since_ms
        return Replica(
            key=key,
            log_end_offset=Offset(end),
            last_fetch_ms=Millis(fetched_ms + ahead_ms),
            last_caught_up_ms=None if never_caught_up else Millis(caught_up_ms + ahead_ms),
        )
