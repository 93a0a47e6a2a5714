"""Polls: the newest answered DescribeQuorum, and what the polls showed of each replica over a window."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from connectors.event import QuorumPolled
from rules.model.identifiers import Epoch, Millis, NodeId
from rules.model.poll import LagSample, Poll, Replica, ReplicaHistory

WINDOW_MS = Millis(60_000)
"""How far back the samples of a replica reach."""
SPACING_MS = Millis(5_000)
"""Samples stand at least this far apart, but for the newest: a dozen of them tell standing from moving."""
REMEMBERED_MS = Millis(3_600_000)
"""How long a replica that the polls no longer show is remembered."""
LASTING_MS = Millis(86_400_000)
"""The same for a directory of a voter, or of one that was removed: a replaced disk may wait for the morning."""


@dataclass(slots=True, kw_only=True)
class Polls:
    """The newest poll, however old, and a history for each replica."""

    newest: Poll | None = None
    histories: tuple[ReplicaHistory, ...] = ()

    def take(self, event: QuorumPolled, now_ms: Millis, lasting: Collection[NodeId] = ()) -> None:
        """One more answered poll.

        Args:
            event: the answer.
            now_ms: when it came.
            lasting: ids of voters, and of those that were removed: their directories are remembered for longer.
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
        self.histories = tuple(_histories(self.histories, poll, lasting))


def _histories(known: Iterable[ReplicaHistory], poll: Poll, lasting: Collection[NodeId]) -> Iterable[ReplicaHistory]:
    """The histories with this poll, in the order of replica id and directory id."""
    held = {history.key: history for history in known}
    leader = poll.leader
    for replica in (*poll.voters, *poll.observers):
        held[replica.key] = _history(held.get(replica.key), replica, leader, poll)
    now_ms = poll.observed_at_ms
    recent = (
        history
        for history in held.values()
        if now_ms - history.last_seen_at_ms <= (LASTING_MS if history.key.id in lasting else REMEMBERED_MS)
    )
    return sorted(recent, key=lambda history: (history.key.id, history.key.directory_id or ""))


def _history(held: ReplicaHistory | None, replica: Replica, leader: Replica | None, poll: Poll) -> ReplicaHistory:
    now_ms = poll.observed_at_ms
    sample = _sample(replica, leader, now_ms)
    if held is None:
        return ReplicaHistory(
            key=replica.key,
            first_seen_at_ms=now_ms,
            last_seen_at_ms=now_ms,
            last_log_end_offset=replica.log_end_offset,
            last_leader_epoch=poll.leader_epoch,
            samples=(sample,),
        )
    # The epoch goes with the offset: a voter that fell silent keeps the epoch its log really ended in.
    moved = replica.log_end_offset is not None and replica.log_end_offset != held.last_log_end_offset
    return replace(
        held,
        last_seen_at_ms=now_ms,
        last_log_end_offset=replica.log_end_offset if moved else held.last_log_end_offset,
        last_leader_epoch=Epoch(poll.leader_epoch) if moved else held.last_leader_epoch,
        samples=_thinned(held.samples, sample),
    )


def _thinned(samples: tuple[LagSample, ...], sample: LagSample) -> tuple[LagSample, ...]:
    """The window with one more sample: the newest one always stays, older ones stand SPACING_MS apart."""
    if len(samples) >= 2 and samples[-1].observed_at_ms - samples[-2].observed_at_ms < SPACING_MS:
        samples = samples[:-1]
    since = sample.observed_at_ms - WINDOW_MS
    return (*(old for old in samples if old.observed_at_ms >= since), sample)


def _sample(replica: Replica, leader: Replica | None, now_ms: Millis) -> LagSample:
    """How far behind the leader, by the leader's clock only: its own row is its now."""
    if leader is None:
        return LagSample(observed_at_ms=now_ms, lag=None, lag_ms=None, fetch_age_ms=None)
    lag = _behind(leader.log_end_offset, replica.log_end_offset)
    lag_ms = Millis(0) if lag == 0 else _age(leader.last_caught_up_ms, replica.last_caught_up_ms)
    fetch_age_ms = _age(leader.last_fetch_ms, replica.last_fetch_ms)
    return LagSample(observed_at_ms=now_ms, lag=lag, lag_ms=lag_ms, fetch_age_ms=fetch_age_ms)


def _behind(leader: int | None, replica: int | None) -> int | None:
    return None if leader is None or replica is None else max(0, leader - replica)


def _age(leader: Millis | None, replica: Millis | None) -> Millis | None:
    return None if leader is None or replica is None else Millis(max(0, leader - replica))
