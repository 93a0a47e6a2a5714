"""What a record that changes a partition means for its recovery (KIP-704)."""

from dataclasses import replace
from typing import Final

from connectors.log_event import PartitionChanged, RecordPosition
from rules.model.history import Recovery
from rules.model.identifiers import Millis, NodeId
from streaming.replay.assignment import Assignment
from streaming.replay.snapshot_origin import SnapshotOrigin


def continued(
    known: Recovery, before: Assignment, now: Assignment, origin: RecordPosition | SnapshotOrigin
) -> Recovery:
    """Returns a recovery after a change: its start and the in-sync replicas before it are kept.

    An ISR without any replica that was in sync or eligible is another unclean election. Its record does not repeat the
    recovery state (PartitionChangeBuilder), and the passed-over replicas may hold acknowledged records that the new
    leader lacks.
    """
    isr, elr = known.previous_isr, known.previous_elr
    if isr is not None and passed_over(before, now):
        isr, elr = union(isr, before.isr), union(elr or (), before.elr)
    new = tuple(node for node in now.replicas if node not in known.replicas) if known.replicas else ()
    return replace(
        known,
        replicas=now.replicas,
        isr=now.isr,
        leader=now.leader,
        previous_isr=isr,
        previous_elr=elr,
        added=tuple(node for node in (*known.added, *new) if node in now.replicas),
        added_timestamp_ms=Millis(origin.timestamp_ms) if new else known.added_timestamp_ms,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        leader_changes=known.leader_changes + (now.leader is not None and now.leader != before.leader),
    )


def passed_over(before: Assignment, now: Assignment) -> bool:
    """Returns whether no replica that is in sync now was in sync or eligible before."""
    holders = {*before.isr, *before.elr}
    return bool(now.isr and holders and holders.isdisjoint(now.isr))


def elected(event: PartitionChanged, before: Assignment | None) -> bool:
    """Returns whether this record sets a different leader."""
    return event.leader is not None and (before is None or event.leader != before.leader)


def raised(epoch: int | None) -> int | None:
    """Returns the next epoch; None if it is unknown."""
    return None if epoch is None else epoch + 1


def union(first: tuple[NodeId, ...], second: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    """Returns the nodes of both lists, in order."""
    return (*first, *(node for node in second if node not in first))


UNKNOWN: Final = Assignment((), (), (), (), None, None, None)
"""A partition of which no record was read."""
