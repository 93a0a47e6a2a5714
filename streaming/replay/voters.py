"""Voters: a VotersRecord is the whole committed set (KIP-853); a voter missing in it was removed."""

from collections.abc import Iterable

from connectors.observations.log_event import RecordPosition, VotersReplaced
from rules.model.identifiers import Epoch, Millis, Offset, ReplicaKey
from rules.model.voter_set import VoterRemoval, VoterSet
from streaming.replay.image import Image, RemovedVoter
from streaming.replay.snapshot_origin import SnapshotOrigin

REMEMBERED_MS = Millis(86_400_000)
"""How long a removal is kept: a disk replacement may stay unfinished overnight."""
REMEMBERED = 64
"""The maximum number of removals that are kept, the newest ones."""


def voter_set(event: VotersReplaced, origin: RecordPosition | SnapshotOrigin) -> VoterSet:
    """Returns the committed set of this record. A change of several voters at once is legal in disaster recovery.

    A snapshot's set gets the snapshot's last contained offset, as in Kafka's KRaftControlRecordStateMachine.
    """
    return VoterSet(
        voters=event.voters,
        offset=Offset(origin.offset),
        leader_epoch=Epoch(origin.leader_epoch),
        timestamp_ms=Millis(origin.timestamp_ms),
    )


def removed_voters(image: Image, following: VoterSet) -> tuple[RemovedVoter, ...]:
    """Returns the voters removed since the image was last made visible, with the log's time of their removal."""
    before = image.committed
    removed = before.keys - following.keys if before is not None else frozenset()
    timestamp_ms = following.timestamp_ms or Millis(0)
    kept = {one.key: one for one in image.removed_voters if one.key.id not in following.ids}
    kept |= {
        key: RemovedVoter(key=key, timestamp_ms=timestamp_ms) for key in sorted(removed) if key.id not in following.ids
    }
    return tuple(kept.values())


def removals(
    known: Iterable[VoterRemoval], *, visible: Image, following: Image, observed_at_ms: Millis
) -> tuple[VoterRemoval, ...]:
    """Returns the removals, oldest first, after `following` replaces `visible`; drops those whose id is a voter again.

    A removal read from older log gets a time before `observed_at_ms`: its age is its distance to the newest read record
    by the log's clock. Only differences of one clock are used.
    """
    if following.committed is None:
        return tuple(known)
    committed = following.committed
    kept = {removal.key: removal for removal in known}
    for key, timestamp_ms in _removed(visible, following, committed).items():
        age = max(0, (following.newest_timestamp_ms or timestamp_ms) - timestamp_ms)
        kept[key] = VoterRemoval(key=key, removed_at_ms=Millis(observed_at_ms - age))
    current = tuple(
        removal
        for removal in sorted(kept.values(), key=lambda removal: (removal.removed_at_ms, str(removal.key)))
        if removal.key.id not in committed.ids and observed_at_ms - removal.removed_at_ms <= REMEMBERED_MS
    )
    return current[-REMEMBERED:]


def _removed(visible: Image, following: Image, committed: VoterSet) -> dict[ReplicaKey, Millis]:
    """Returns the voters removed between two visible images, with the time by the log's clock."""
    removed: dict[ReplicaKey, Millis] = {}
    if visible.committed is not None:
        # A snapshot does not hold the time of a removal: at the latest its voter set was written then.
        removed = dict.fromkeys(visible.committed.keys - committed.keys, committed.timestamp_ms or Millis(0))
    return removed | {one.key: one.timestamp_ms for one in following.removed_voters}
