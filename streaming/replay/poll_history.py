"""PollHistory: the newest answered DescribeQuorum, and each replica's samples of the last polls."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from connectors.observation_event import QuorumPolled
from rules.model.identifiers import Epoch, Millis, NodeId
from rules.model.poll import LagSample, Poll, Replica, ReplicaHistory

WINDOW_MS = Millis(60_000)
"""The age of a replica's oldest sample."""
SPACING_MS = Millis(5_000)
"""The minimum distance between samples, except the newest: a dozen samples show whether a replica makes progress."""
REMEMBERED_MS = Millis(3_600_000)
"""How long a replica is kept that the polls no longer list."""
VOTER_REMEMBERED_MS = Millis(86_400_000)
"""The same for a directory of a voter or of a removed voter: a disk may be replaced overnight."""


@dataclass(slots=True, kw_only=True)
class PollHistory:
    """The newest poll, however old, and a history for each replica."""

    newest: Poll | None = None
    histories: tuple[ReplicaHistory, ...] = ()

    def add(self, event: QuorumPolled, now_ms: Millis, voter_ids: Collection[NodeId] = ()) -> None:
        """Adds an answered poll.

        Args:
            event: the answer.
            now_ms: when it was observed.
            voter_ids: ids of voters and removed voters; their directories are kept for VOTER_REMEMBERED_MS.
        """
        poll = Poll(
            observed_at_ms=now_ms,
            leader_id=event.leader_id,
            leader_epoch=event.leader_epoch,
            high_watermark=event.high_watermark,
            voters=event.voters,
            observers=event.observers,
            nodes={node.id: node.endpoints for node in event.nodes},
        )
        self.newest = poll
        self.histories = tuple(_histories(self.histories, poll, voter_ids))


def _histories(known: Iterable[ReplicaHistory], poll: Poll, voter_ids: Collection[NodeId]) -> Iterable[ReplicaHistory]:
    """Returns the histories including this poll, ordered by replica id and directory id."""
    histories = {history.key: history for history in known}
    leader = poll.leader
    for replica in (*poll.voters, *poll.observers):
        histories[replica.key] = _history(histories.get(replica.key), replica, leader, poll)
    now_ms = poll.observed_at_ms
    recent = (
        history
        for history in histories.values()
        if now_ms - history.last_seen_at_ms <= (VOTER_REMEMBERED_MS if history.key.id in voter_ids else REMEMBERED_MS)
    )
    return sorted(recent, key=lambda history: (history.key.id, history.key.directory_id or ""))


def _history(previous: ReplicaHistory | None, replica: Replica, leader: Replica | None, poll: Poll) -> ReplicaHistory:
    now_ms = poll.observed_at_ms
    sample = _sample(replica, leader, now_ms)
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
    return replace(
        previous,
        last_seen_at_ms=now_ms,
        last_log_end_offset=replica.log_end_offset if moved else previous.last_log_end_offset,
        last_leader_epoch=Epoch(poll.leader_epoch) if moved else previous.last_leader_epoch,
        samples=_thinned(previous.samples, sample),
    )


def _thinned(samples: tuple[LagSample, ...], sample: LagSample) -> tuple[LagSample, ...]:
    """Returns the samples and the new one; older samples are at least SPACING_MS apart."""
    if len(samples) >= 2 and samples[-1].observed_at_ms - samples[-2].observed_at_ms < SPACING_MS:
        samples = samples[:-1]
    since = sample.observed_at_ms - WINDOW_MS
    return (*(old for old in samples if old.observed_at_ms >= since), sample)


def _sample(replica: Replica, leader: Replica | None, now_ms: Millis) -> LagSample:
    """Returns the replica's lag by the leader's clock: the times of the leader's own row are its current time."""
    if leader is None:
        return LagSample(observed_at_ms=now_ms, lag=None, lag_ms=None, fetch_age_ms=None)
    lag = _lag(leader.log_end_offset, replica.log_end_offset)
    lag_ms = Millis(0) if lag == 0 else _age(leader.last_caught_up_ms, replica.last_caught_up_ms)
    fetch_age_ms = _age(leader.last_fetch_ms, replica.last_fetch_ms)
    return LagSample(observed_at_ms=now_ms, lag=lag, lag_ms=lag_ms, fetch_age_ms=fetch_age_ms)


def _lag(leader: int | None, replica: int | None) -> int | None:
    return None if leader is None or replica is None else max(0, leader - replica)


def _age(leader: Millis | None, replica: Millis | None) -> Millis | None:
    return None if leader is None or replica is None else Millis(max(0, leader - replica))
