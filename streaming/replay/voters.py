"""Voters: a VotersRecord is the whole committed set (KIP-853), and who is missing in it was removed."""

from collections.abc import Iterable

from connectors.event import At, VotersSet
from rules.quorum import Epoch, Millis, Offset, ReplicaKey, VoterRemoval, VoterSet
from streaming.replay.image import Gone, Image
from streaming.replay.partitions import Origin

REMEMBERED_MS = Millis(3_600_000)
"""How long a removal is remembered: Kafka lists a removed voter as an observer for 5 minutes."""


def voter_set(event: VotersSet, origin: At | Origin) -> VoterSet:
    """The committed set that this record declares. Jumps by several voters are legal in disaster recovery.

    A snapshot's set is said to stand at its last contained offset, as in Kafka's KRaftControlRecordStateMachine.
    """
    return VoterSet(
        voters=event.voters,
        offset=Offset(origin.offset),
        leader_epoch=Epoch(origin.leader_epoch),
        timestamp_ms=Millis(origin.timestamp_ms),
    )


def gone(image: Image, following: VoterSet) -> tuple[Gone, ...]:
    """Who left while the log was read on, with the log's own time of leaving."""
    before = image.committed
    left = before.keys - following.keys if before is not None else frozenset()
    when = following.timestamp_ms or Millis(0)
    stayed_away = tuple(one for one in image.gone if one.key not in following.keys and one.key not in left)
    return (*stayed_away, *(Gone(key=key, timestamp_ms=when) for key in sorted(left, key=str)))


def removals(
    known: Iterable[VoterRemoval], *, shown: Image, showing: Image, observed_at_ms: Millis
) -> tuple[VoterRemoval, ...]:
    """Removals after the image `showing` takes the place of `shown`: new ones stamped, old and undone ones dropped.

    A removal that is first seen in a stretch of older log is stamped as much before `observed_at_ms` as it lies
    before the end of that stretch by the log's own clock: only differences of one clock are taken.
    """
    current = showing.committed.keys if showing.committed is not None else frozenset[ReplicaKey]()
    kept = {
        removal.key: removal
        for removal in known
        if removal.key not in current and observed_at_ms - removal.removed_at_ms <= REMEMBERED_MS
    }
    left = {one.key: one.timestamp_ms for one in showing.gone}
    if shown.committed is not None and showing.committed is not None:
        # A snapshot does not tell when a voter left: at the latest when its set was written.
        for key in shown.committed.keys:
            left.setdefault(key, showing.committed.timestamp_ms or Millis(0))
    for key, timestamp_ms in left.items():
        if key in current or key in kept:
            continue
        age = max(0, (showing.newest_timestamp_ms or timestamp_ms) - timestamp_ms)
        if age <= REMEMBERED_MS:
            kept[key] = VoterRemoval(key=key, removed_at_ms=Millis(observed_at_ms - age))
    return tuple(sorted(kept.values(), key=lambda removal: (removal.removed_at_ms, str(removal.key))))
