"""Voters: a VotersRecord is the whole committed set (KIP-853), and who is missing in it was removed."""

from collections.abc import Iterable

from connectors.event import At, VotersSet
from rules.model.identifiers import Epoch, Millis, Offset, ReplicaKey
from rules.model.voter_set import VoterRemoval, VoterSet
from streaming.replay.image import Gone, Image
from streaming.replay.partitions import Origin

REMEMBERED_MS = Millis(86_400_000)
"""How long a removal is remembered: a disk's replacement may be left half done overnight."""
REMEMBERED = 64
"""How many removals are remembered, the newest ones."""


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
    """Who left since the image was last shown, with the log's own time of leaving."""
    before = image.committed
    left = before.keys - following.keys if before is not None else frozenset()
    when = following.timestamp_ms or Millis(0)
    away = {one.key: one for one in image.gone if one.key.id not in following.ids}
    away |= {key: Gone(key=key, timestamp_ms=when) for key in sorted(left, key=str) if key.id not in following.ids}
    return tuple(away.values())


def removals(
    known: Iterable[VoterRemoval], *, shown: Image, showing: Image, observed_at_ms: Millis
) -> tuple[VoterRemoval, ...]:
    """Removals, oldest first, once `showing` takes the place of `shown`; one whose id votes again is dropped.

    A removal that is first seen in a stretch of older log is stamped as much before `observed_at_ms` as it lies
    before the end of that stretch by the log's own clock: only differences of one clock are taken.
    """
    if showing.committed is None:
        return tuple(known)
    committed = showing.committed
    kept = {removal.key: removal for removal in known}
    for key, timestamp_ms in _left(shown, showing, committed).items():
        age = max(0, (showing.newest_timestamp_ms or timestamp_ms) - timestamp_ms)
        kept[key] = VoterRemoval(key=key, removed_at_ms=Millis(observed_at_ms - age))
    current = tuple(
        removal
        for removal in sorted(kept.values(), key=lambda removal: (removal.removed_at_ms, str(removal.key)))
        if removal.key.id not in committed.ids and observed_at_ms - removal.removed_at_ms <= REMEMBERED_MS
    )
    return current[-REMEMBERED:]


def _left(shown: Image, showing: Image, committed: VoterSet) -> dict[ReplicaKey, Millis]:
    """Who left between two shown images, and when by the log's clock."""
    left: dict[ReplicaKey, Millis] = {}
    if shown.committed is not None:
        # A snapshot does not tell when a voter left: at the latest when its set was written.
        left = dict.fromkeys(shown.committed.keys - committed.keys, committed.timestamp_ms or Millis(0))
    return left | {one.key: one.timestamp_ms for one in showing.gone}
