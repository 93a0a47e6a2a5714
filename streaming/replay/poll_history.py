"""PollHistory: the newest answered DescribeQuorum, and each replica's samples of the last polls."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from connectors.observations.observation import QuorumPolled
from rules.analysis.replica_lag import age_ms
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.quorum import LagSample, LogRegression, Outage, Poll, Replica, ReplicaHistory
from streaming.replay.copied import copied

WINDOW_MS = Millis(60_000)
"""The age of a replica's oldest sample."""
SPACING_MS = Millis(5_000)
"""The minimum distance between samples, except the newest: a dozen samples show whether a replica makes progress."""
REMEMBERED_MS = Millis(3_600_000)
"""How long a replica is kept that the polls no longer list."""
VOTER_REMEMBERED_MS = Millis(86_400_000)
"""The same for a directory of a voter or of a removed voter: a disk may be replaced overnight."""
OUT_OF_SYNC_MS = Millis(10_000)
"""A voter that had last caught up longer ago is not in sync: the default of `caught_up_age`. Polls that are farther
apart are a gap."""
OUTAGES = 64
"""The maximum number of outages of one voter, the newest ones."""


@dataclass(slots=True, kw_only=True)
class AcknowledgedOffsets:
    """Below which offset each voter had all records, and the voters whose logs end below that now.

    A voter acknowledges records by fetching after them, and acknowledged committed records are never truncated
    (KIP-595). An offset counts only if two polls after each other show it, so that one false poll leaves no trace.
    """

    offsets: dict[str, Offset] = field(default_factory=dict)
    """By voter: all records below this offset are committed and were in its log."""
    high_watermark: Offset | None = None
    """The newest one that a poll reported."""

    def add(self, poll: Poll, previous: Poll | None) -> Mapping[ReplicaKey, LogRegression]:
        """Returns the voters whose logs end below committed records that they had.

        A high watermark that decreases concerns the whole quorum, and is reported as such: the offsets start again.
        """
        high_watermark = poll.high_watermark
        if high_watermark is None:
            return {}
        if self.high_watermark is not None and high_watermark < self.high_watermark:
            self.offsets.clear()
        self.high_watermark = high_watermark
        fallen: dict[ReplicaKey, LogRegression] = {}
        known, self.offsets = self.offsets, {}
        for row in poll.voters:
            name, end = str(row.key), row.log_end_offset
            acknowledged = known.get(name)
            if end is not None and acknowledged is not None and end < acknowledged:
                fallen[row.key] = LogRegression(
                    acknowledged_offset=acknowledged,
                    log_end_offset=end,
                    leader_epoch=poll.leader_epoch,
                    observed_at_ms=poll.observed_at_ms,
                )
                continue
            confirmed = _in_both(poll, previous, row.key)
            if confirmed is not None and (acknowledged is None or confirmed > acknowledged):
                acknowledged = confirmed
            if acknowledged is not None:
                self.offsets[name] = acknowledged
        return fallen


def _in_both(poll: Poll, previous: Poll | None, key: ReplicaKey) -> Offset | None:
    """Returns the offset below which both polls show committed records in this voter's log; None if one is silent."""
    ends = [_committed_end(each, key) for each in (poll, previous) if each is not None]
    known = [end for end in ends if end is not None]
    return min(known) if len(known) == 2 else None


def _committed_end(poll: Poll, key: ReplicaKey) -> Offset | None:
    end = next((row.log_end_offset for row in poll.rows_by_id.get(key.id, ()) if row.key == key), None)
    return None if end is None or poll.high_watermark is None else min(end, poll.high_watermark)


def with_regression(known: LogRegression | None, found: LogRegression, end: Offset | None) -> LogRegression:
    """Returns the newer regression, with the older one's acknowledged offset if the log has not reached it since."""
    if known is None or (end is not None and end >= known.acknowledged_offset):
        return found
    return replace(found, acknowledged_offset=max(known.acknowledged_offset, found.acknowledged_offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """A log end offset, and the leader epoch of the first poll that reported it."""

    offset: Offset | None
    leader_epoch: Epoch


@dataclass(slots=True, kw_only=True)
class CaughtUpTimes:
    """When each voter had last caught up, by the gatherer's clock: a new leader does not know it (-1 in its answer)."""

    at_ms: dict[str, Millis] = field(default_factory=dict)
    """By voter."""
    polled_since_ms: Millis | None = None
    """The first poll since the newest gap."""

    def outages(
        self, poll: Poll, previous: Poll | None, known: Mapping[ReplicaKey, ReplicaHistory]
    ) -> dict[ReplicaKey, tuple[Outage, ...]]:
        """Returns the outages of each voter, this poll included."""
        now_ms, leader = poll.observed_at_ms, poll.leader
        last_ms = None if previous is None else previous.observed_at_ms
        gap = last_ms is None or now_ms - last_ms > OUT_OF_SYNC_MS
        if gap or self.polled_since_ms is None:
            self.polled_since_ms = now_ms
        before, self.at_ms = self.at_ms, {}
        found: dict[ReplicaKey, tuple[Outage, ...]] = {}
        for row in poll.voters:
            age = age_ms(leader.last_caught_up_ms, row.last_caught_up_ms, leader, row) if leader else None
            age = Millis(0) if row is leader else age
            known_ms = max(before.get(str(row.key), self.polled_since_ms), self.polled_since_ms)
            at_ms = known_ms if age is None else Millis(now_ms - age)
            self.at_ms[str(row.key)] = at_ms
            outages = known[row.key].outages if row.key in known else ()
            if gap and last_ms is not None:
                outages = _ended(outages, last_ms)
            if now_ms - at_ms <= OUT_OF_SYNC_MS:
                outages = _ended(outages, now_ms)
            elif not outages or outages[-1].until_ms is not None:
                outages = (*outages, Outage(since_ms=max(at_ms, self.polled_since_ms)))
            recent = [one for one in outages if one.until_ms is None or now_ms - one.until_ms <= REMEMBERED_MS]
            found[row.key] = tuple(recent[-OUTAGES:])
        return found


def _ended(outages: tuple[Outage, ...], until_ms: Millis) -> tuple[Outage, ...]:
    if not outages or outages[-1].until_ms is not None:
        return outages
    return (*outages[:-1], replace(outages[-1], until_ms=max(outages[-1].since_ms, until_ms)))


@dataclass(slots=True, kw_only=True)
class PollHistory:
    """The newest poll, however old, and a history for each replica."""

    newest: Poll | None = None
    histories: tuple[ReplicaHistory, ...] = ()
    ends_before: dict[str, LogEnd] = field(default_factory=dict)
    """The log end before the newest one, by replica. A poll that returns to it shows that the newest one was false."""
    acknowledged: AcknowledgedOffsets = field(default_factory=AcknowledgedOffsets)
    caught_up: CaughtUpTimes = field(default_factory=CaughtUpTimes)

    def add(self, event: QuorumPolled, now_ms: Millis, voter_ids: Collection[NodeId] = ()) -> None:
        """Adds an answered poll.

        Args:
            voter_ids: ids of voters and removed voters; their directories are kept for VOTER_REMEMBERED_MS.
        """
        poll = copied(Poll, event, observed_at_ms=now_ms, nodes={node.id: node.endpoints for node in event.nodes})
        before = {history.key: history for history in self.histories}
        fallen = self.acknowledged.add(poll, self.newest)
        outages = self.caught_up.outages(poll, self.newest, before)
        self.newest = poll
        self.histories = tuple(
            _completed(history, before.get(history.key), outages.get(history.key, ()), fallen.get(history.key))
            for history in _histories(self.histories, poll, voter_ids, self.ends_before)
        )
        self.ends_before = {
            str(history.key): end
            for history in self.histories
            if (end := self._end_before(before.get(history.key), history)) is not None
        }

    def metadata_lost(self) -> None:
        """Drops what voters had acknowledged: it is missing from the log that they follow now."""
        self.acknowledged = AcknowledgedOffsets()
        self.histories = tuple(replace(history, log_regression=None) for history in self.histories)

    def _end_before(self, previous: ReplicaHistory | None, history: ReplicaHistory) -> LogEnd | None:
        if previous is None or previous.last_log_end_offset == history.last_log_end_offset:
            return self.ends_before.get(str(history.key))
        return LogEnd(offset=previous.last_log_end_offset, leader_epoch=previous.last_leader_epoch)


def _histories(
    known: Iterable[ReplicaHistory], poll: Poll, voter_ids: Collection[NodeId], ends_before: Mapping[str, LogEnd]
) -> Iterable[ReplicaHistory]:
    """Returns the histories including this poll, ordered by replica id and directory id."""
    histories = {history.key: history for history in known}
    leader = poll.leader
    for replica in (*poll.voters, *poll.observers):
        before = ends_before.get(str(replica.key))
        histories[replica.key] = _history(histories.get(replica.key), replica, leader, poll, before)
    now_ms = poll.observed_at_ms
    recent = (
        history
        for history in histories.values()
        if now_ms - history.last_seen_at_ms <= (VOTER_REMEMBERED_MS if history.key.id in voter_ids else REMEMBERED_MS)
    )
    return sorted(recent, key=lambda history: history.key)


def _completed(
    history: ReplicaHistory, before: ReplicaHistory | None, outages: tuple[Outage, ...], found: LogRegression | None
) -> ReplicaHistory:
    """Returns the history with the outages of a voter, which other replicas do not have, and a new regression."""
    regression = history.log_regression
    if found is not None:
        regression = with_regression(regression, found, before.last_log_end_offset if before else None)
    if outages == history.outages and regression is history.log_regression:
        return history
    return replace(history, outages=outages, log_regression=regression)


def _history(
    previous: ReplicaHistory | None, replica: Replica, leader: Replica | None, poll: Poll, before: LogEnd | None
) -> ReplicaHistory:
    now_ms = poll.observed_at_ms
    sample = _sample(replica, leader, now_ms, previous)
    if previous is None:
        return ReplicaHistory(
            key=replica.key,
            first_seen_at_ms=now_ms,
            last_seen_at_ms=now_ms,
            last_log_end_offset=replica.log_end_offset,
            last_leader_epoch=poll.leader_epoch,
            samples=(sample,),
        )
    # The epoch changes with the offset only: a voter that stopped fetching keeps the epoch in which its log ends.
    moved = replica.log_end_offset is not None and replica.log_end_offset != previous.last_log_end_offset
    offset, epoch = previous.last_log_end_offset, previous.last_leader_epoch
    if moved:
        # A log that is where it was before one poll has not moved: that poll was false.
        returned = before is not None and before.offset == replica.log_end_offset
        offset = replica.log_end_offset
        epoch = before.leader_epoch if before is not None and returned else Epoch(poll.leader_epoch)
    return replace(
        previous,
        last_seen_at_ms=now_ms,
        samples=_thinned(previous.samples, sample),
        last_log_end_offset=offset,
        last_leader_epoch=epoch,
    )


def _thinned(samples: tuple[LagSample, ...], sample: LagSample) -> tuple[LagSample, ...]:
    """Returns the samples and the new one; older samples are at least SPACING_MS apart."""
    if len(samples) >= 2 and samples[-1].observed_at_ms - samples[-2].observed_at_ms < SPACING_MS:
        samples = samples[:-1]
    since = sample.observed_at_ms - WINDOW_MS
    return (*(old for old in samples if old.observed_at_ms >= since), sample)


def _sample(replica: Replica, leader: Replica | None, now_ms: Millis, previous: ReplicaHistory | None) -> LagSample:
    """Returns the replica's lag by the leader's clock: the times of the leader's own row are its current time."""
    if leader is None:
        return LagSample(observed_at_ms=now_ms, lag=None, lag_ms=None, fetch_age_ms=None)
    lag = _lag(leader.log_end_offset, replica.log_end_offset)
    lag_ms = Millis(0) if lag == 0 else age_ms(leader.last_caught_up_ms, replica.last_caught_up_ms, leader, replica)
    fetch_age_ms = age_ms(leader.last_fetch_ms, replica.last_fetch_ms, leader, replica)
    if fetch_age_ms is None and previous is not None and None not in (leader.last_fetch_ms, replica.last_fetch_ms):
        fetch_age_ms = _age_by_log_end(replica, now_ms, previous)
    return LagSample(observed_at_ms=now_ms, lag=lag, lag_ms=lag_ms, fetch_age_ms=fetch_age_ms)


def _age_by_log_end(replica: Replica, now_ms: Millis, previous: ReplicaHistory) -> Millis | None:
    """Returns how long ago the replica last fetched, by its log end: all that shows it after a clock was set back."""
    end, before, elapsed_ms = replica.log_end_offset, previous.last_log_end_offset, now_ms - previous.last_seen_at_ms
    if end is not None and before is not None and end > before:
        return Millis(elapsed_ms)
    age_ms = previous.samples[-1].fetch_age_ms
    return None if age_ms is None else Millis(age_ms + elapsed_ms)


def _lag(leader: int | None, replica: int | None) -> int | None:
    return None if leader is None or replica is None else max(0, leader - replica)
