"""PollHistory: the newest answered DescribeQuorum, and each replica's samples of the last polls."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from rules.facts.following import age_ms
from rules.model.history import ClockSetBack
from rules.model.identifiers import START, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.replica import LagSample, LogRegression, Outage, Poll, Replica, ReplicaHistory
from streaming.replay.commit_waits import CommitWaits

WINDOW_MS = Millis(60_000)
"""The age of a replica's oldest sample."""
SPACING_MS = Millis(5_000)
"""The minimum distance between samples, except the newest: a dozen samples show whether a replica makes progress."""
REMEMBERED_MS = Millis(3_600_000)
"""How long a replica is kept that the polls no longer list."""
VOTER_REMEMBERED_MS = Millis(86_400_000)
"""The same for a directory of a voter or of a removed voter: a disk may be replaced overnight."""
MOST_GONE = 1_000
"""The maximum number of replicas that are kept and not listed, the ones seen last: a node may list others each time."""
OUT_OF_SYNC_MS = Millis(10_000)
"""A voter that had last caught up longer ago is not in sync: the default of `ages.fetch`. Polls that are farther
apart are a gap."""
PAUSE_MS = Millis(4_000)
"""A voter that fetches does it twice a second: one that did not for so long, and does again, may have started."""
SAME_FETCH_MS = Millis(500)
"""How much earlier than the poll before a fetch of now may be: both ages are of the leader's clock."""
SET_BACK_MS = 5_000
"""A clock that is behind by this much more than before was set back: no poll is answered so late."""
SET_BACK = 8
"""The maximum number of clocks that are kept, the newest ones."""
OUTAGES = 64
"""The maximum number of outages of one voter, the newest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """A log end offset, and the leader epoch of the first poll that reported it."""

    offset: Offset | None
    leader_epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledReplica:
    """The history of a replica, and what the next poll is compared with."""

    history: ReplicaHistory
    end_before: LogEnd | None = None
    """The log end before the newest one. A poll that returns to it shows that the newest one was false."""
    acknowledged_offset: Offset | None = None
    """Of a voter: all records below this offset are committed and were in its log.

    A voter acknowledges records by fetching after them, and acknowledged committed records are never truncated
    (KIP-595). An offset counts only if two polls after each other show it, so that one false poll leaves no trace.
    """
    caught_up_at_ms: Millis | None = None
    """When a voter had last caught up, by the gatherer's clock: a new leader does not know it (-1 in its answer)."""


@dataclass(slots=True, kw_only=True)
class PollHistory:
    """The newest poll, however old, and a history for each replica."""

    newest: Poll | None = None
    replicas: tuple[PolledReplica, ...] = ()
    """Ordered by replica id and directory id."""
    high_watermark: Offset | None = None
    """The newest one that a poll reported since the last loss of metadata."""
    polled_since_ms: Millis = START
    """The first poll since the newest gap."""
    waits: CommitWaits = field(default_factory=CommitWaits)
    """Since the newest gap."""
    clocks_set_back: tuple[ClockSetBack, ...] = ()
    """Those that are not as late yet as they were, oldest first."""
    ahead_before_ms: tuple[tuple[NodeId | None, int], ...] = ()
    """How far the clocks were ahead at the poll before the newest one."""

    def add(self, event: Poll, now_ms: Millis, voter_ids: Collection[NodeId] = ()) -> None:
        """Adds an answered poll.

        Args:
            voter_ids: ids of voters and removed voters; their directories are kept for VOTER_REMEMBERED_MS.
        """
        poll = replace(event, observed_at_ms=now_ms)
        previous, self.newest = self.newest, poll
        self._compare_clocks(previous, poll)
        gap_since_ms = None
        if previous is None or now_ms - previous.observed_at_ms > OUT_OF_SYNC_MS:
            self.polled_since_ms, self.waits = now_ms, CommitWaits()
            gap_since_ms = None if previous is None else previous.observed_at_ms
        if poll.high_watermark is not None:
            if self.high_watermark is not None and poll.high_watermark < self.high_watermark:
                # It concerns the whole quorum, and is reported as such: what was acknowledged starts again.
                self.replicas = tuple(replace(replica, acknowledged_offset=None) for replica in self.replicas)
            self.high_watermark = poll.high_watermark
        replicas = {replica.history.key: replica for replica in self.replicas}
        for row in (*poll.voters, *poll.observers):
            before = replicas.get(row.key)
            one = _polled(before, row, poll)
            if row.key in poll.voter_keys:
                one = _with_acknowledged(one, before, row, poll, previous)
                one = self._with_outages(one, row, poll, gap_since_ms)
            replicas[row.key] = one
        self.waits.polled(poll, {row.key: replicas[row.key].history.samples[-1] for row in poll.voters})
        if len(replicas) > MOST_GONE:
            gone = (replica.history for replica in replicas.values() if replica.history.last_seen_at_ms < now_ms)
            for each in sorted(gone, key=lambda history: history.last_seen_at_ms)[:-MOST_GONE]:
                del replicas[each.key]
        kept_ms = {key: VOTER_REMEMBERED_MS if key.id in voter_ids else REMEMBERED_MS for key in replicas}
        self.replicas = tuple(
            replicas[key] if key in poll.voter_keys else _without_vote(replicas[key], poll)
            for key in sorted(replicas)
            if now_ms - replicas[key].history.last_seen_at_ms <= kept_ms[key]
        )

    def _compare_clocks(self, previous: Poll | None, poll: Poll) -> None:
        """Keeps the clocks that are set back by this poll, and that are not as late yet as they were.

        Both polls before must show the former time: one false answer leaves no trace.
        """
        ahead, before = _ahead_ms(poll), {} if previous is None else _ahead_ms(previous)
        earlier = dict(self.ahead_before_ms)
        found = [
            one
            for one in self.clocks_set_back
            if poll.observed_at_ms + ahead.get(one.controller, one.was_ahead_ms - one.by_ms)
            < one.at_ms + one.was_ahead_ms
        ]
        for controller, now_ms in ahead.items():
            was_ms = min(before.get(controller, now_ms), earlier.get(controller, now_ms))
            if was_ms - now_ms >= SET_BACK_MS:
                found.append(
                    ClockSetBack(
                        controller=controller,
                        at_ms=poll.observed_at_ms,
                        by_ms=was_ms - now_ms,
                        was_ahead_ms=was_ms,
                        leader_epoch=poll.leader_epoch,
                        high_watermark=poll.high_watermark,
                    )
                )
        self.clocks_set_back, self.ahead_before_ms = tuple(found[-SET_BACK:]), tuple(before.items())

    def resumed(self, poll: Poll, now_ms: Millis) -> Iterable[NodeId]:
        """Yields the voters that fetched in this poll, which is not added yet, and had not for PAUSE_MS before."""
        known = {replica.history.key: replica.history for replica in self.replicas}
        for row in poll.voters:
            history, leader = known.get(row.key), poll.leader
            before = history.samples[-1] if history and history.samples else None
            if before is None or before.fetch_age_ms is None or leader is None or before.fetch_age_ms < PAUSE_MS:
                continue
            age = age_ms(leader.last_fetch_ms, row.last_fetch_ms, leader, row)
            if age is not None and age < now_ms - before.observed_at_ms + SAME_FETCH_MS:
                yield row.key.id

    def metadata_lost(self) -> None:
        """Drops what voters had acknowledged: it is missing from the log that they follow now."""
        self.high_watermark = None
        self.replicas = tuple(
            replace(replica, history=replace(replica.history, log_regression=None), acknowledged_offset=None)
            for replica in self.replicas
        )

    def _with_outages(self, one: PolledReplica, row: Replica, poll: Poll, gap_since_ms: Millis | None) -> PolledReplica:
        """Returns a voter with its outages, this poll included; `gap_since_ms`: the last poll before a gap."""
        now_ms, leader, since_ms = poll.observed_at_ms, poll.leader, self.polled_since_ms
        age = age_ms(leader.last_caught_up_ms, row.last_caught_up_ms, leader, row) if leader else None
        if row is leader:
            age = Millis(0)
        known_ms = max(one.caught_up_at_ms or since_ms, since_ms)
        at_ms = known_ms if age is None else Millis(now_ms - age)
        outages = one.history.outages
        if gap_since_ms is not None:
            outages = _ended(outages, gap_since_ms)
        if now_ms - at_ms <= OUT_OF_SYNC_MS:
            outages = _ended(outages, now_ms)
        elif not outages or outages[-1].until_ms is not None:
            outages = (*outages, Outage(since_ms=max(at_ms, since_ms)))
        recent = [outage for outage in outages if outage.until_ms is None or now_ms - outage.until_ms <= REMEMBERED_MS]
        history = replace(one.history, outages=tuple(recent[-OUTAGES:]))
        return replace(one, history=history, caught_up_at_ms=at_ms)


def _ahead_ms(poll: Poll) -> Mapping[NodeId | None, int]:
    """Returns how far the leader's clock, and that of the monitor's host, are ahead of the gatherer's.

    The leader's own row has its current time (KIP-836); the gatherer's time goes on when its host's clock is set back.
    """
    shown_ms = None if poll.leader is None else poll.leader.last_fetch_ms
    monitor: dict[NodeId | None, int] = {None: -poll.clock_ahead_ms}
    return monitor if shown_ms is None else monitor | {poll.leader_id: shown_ms - poll.observed_at_ms}


def _ended(outages: tuple[Outage, ...], until_ms: Millis) -> tuple[Outage, ...]:
    if not outages or outages[-1].until_ms is not None:
        return outages
    return (*outages[:-1], replace(outages[-1], until_ms=max(outages[-1].since_ms, until_ms)))


def _polled(before: PolledReplica | None, row: Replica, poll: Poll) -> PolledReplica:
    """Returns a replica after a poll that lists it."""
    now_ms, end, epoch = poll.observed_at_ms, row.log_end_offset, poll.leader_epoch
    if before is None:
        history = ReplicaHistory(
            key=row.key,
            first_seen_at_ms=now_ms,
            last_seen_at_ms=now_ms,
            last_log_end_offset=end,
            last_leader_epoch=epoch,
            samples=(_sample(row, poll, None),),
        )
        return PolledReplica(history=history)
    known = before.history
    samples = _thinned(known.samples, _sample(row, poll, known))
    if end is None or end == known.last_log_end_offset:
        # The epoch changes with the offset only: a voter that stopped fetching keeps the epoch in which its log ends.
        return replace(before, history=replace(known, last_seen_at_ms=now_ms, samples=samples))
    if before.end_before is not None and before.end_before.offset == end:
        # A log that is where it was before one poll has not moved: that poll was false.
        epoch = before.end_before.leader_epoch
    return replace(
        before,
        history=replace(
            known, last_seen_at_ms=now_ms, samples=samples, last_log_end_offset=end, last_leader_epoch=epoch
        ),
        end_before=LogEnd(offset=known.last_log_end_offset, leader_epoch=known.last_leader_epoch),
    )


def _with_acknowledged(
    one: PolledReplica, before: PolledReplica | None, row: Replica, poll: Poll, previous: Poll | None
) -> PolledReplica:
    """Returns a voter with what it has acknowledged; with a regression if its log ends below that now."""
    if poll.high_watermark is None:
        return one
    acknowledged, end = one.acknowledged_offset, row.log_end_offset
    if before is not None and end is not None and acknowledged is not None and end < acknowledged:
        found = LogRegression(
            acknowledged_offset=acknowledged,
            log_end_offset=end,
            leader_epoch=poll.leader_epoch,
            observed_at_ms=poll.observed_at_ms,
        )
        regression = _newer(before.history.log_regression, found, before.history.last_log_end_offset)
        return replace(one, history=replace(one.history, log_regression=regression), acknowledged_offset=None)
    confirmed = _in_both(poll, previous, row.key)
    if confirmed is not None and (acknowledged is None or confirmed > acknowledged):
        acknowledged = confirmed
    return replace(one, acknowledged_offset=acknowledged)


def _in_both(poll: Poll, previous: Poll | None, key: ReplicaKey) -> Offset | None:
    """Returns the offset below which both polls show committed records in this voter's log; None if one is silent."""
    ends = [_committed_end(each, key) for each in (poll, previous) if each is not None]
    known = [end for end in ends if end is not None]
    return min(known) if len(known) == 2 else None


def _committed_end(poll: Poll, key: ReplicaKey) -> Offset | None:
    end = next((row.log_end_offset for row in poll.rows_by_id.get(key.id, ()) if row.key == key), None)
    return None if end is None or poll.high_watermark is None else min(end, poll.high_watermark)


def _newer(known: LogRegression | None, found: LogRegression, end: Offset | None) -> LogRegression:
    """Returns the newer regression, with the older one's acknowledged offset if the log has not reached it since."""
    if known is None or (end is not None and end >= known.acknowledged_offset):
        return found
    return replace(found, acknowledged_offset=max(known.acknowledged_offset, found.acknowledged_offset))


def _without_vote(one: PolledReplica, poll: Poll) -> PolledReplica:
    """Returns a replica that the poll does not list as a voter: it has no outages."""
    return replace(
        one,
        history=replace(one.history, outages=()) if one.history.outages else one.history,
        acknowledged_offset=one.acknowledged_offset if poll.high_watermark is None else None,
        caught_up_at_ms=None,
    )


def _thinned(samples: tuple[LagSample, ...], sample: LagSample) -> tuple[LagSample, ...]:
    """Returns the samples and the new one; older samples are at least SPACING_MS apart.

    The newest one that knows how the replica follows is kept: a new leader does not know it yet.
    """
    if len(samples) >= 2 and samples[-1].observed_at_ms - samples[-2].observed_at_ms < SPACING_MS:
        samples = samples[:-1] if _is_known(sample) or not _is_known(samples[-1]) else samples
    since = sample.observed_at_ms - WINDOW_MS
    return (*(old for old in samples if old.observed_at_ms >= since), sample)


def _is_known(sample: LagSample) -> bool:
    return sample.fetch_age_ms is not None and sample.lag_ms is not None


def _sample(replica: Replica, poll: Poll, previous: ReplicaHistory | None) -> LagSample:
    """Returns the replica's lag by the leader's clock: the times of the leader's own row are its current time."""
    leader, now_ms = poll.leader, poll.observed_at_ms
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
