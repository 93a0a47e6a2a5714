"""What a record that changes a partition means for its recovery (KIP-704)."""

from dataclasses import replace
from typing import Final

from connectors.metadata.value_limits import MOST_REPLICAS
from connectors.observations.log_event import PartitionChanged, PartitionSet
from rules.model.history import Recovery
from rules.model.identifiers import NodeId
from rules.model.membership import RecordPosition
from streaming.replay.recent_history import UncleanElection
from streaming.replay.stored_topics import Assignment


def recovery_began(
    event: PartitionSet | PartitionChanged,
    topic: str | None,
    before: Assignment | None,
    now: Assignment,
    origin: RecordPosition,
) -> Recovery:
    """Returns a recovery that a record began: an unclean election, or one that the record only carries over."""
    by_election = elected(event, before) if isinstance(event, PartitionChanged) else None
    return Recovery(
        topic_id=event.topic_id,
        topic=topic,
        partition=event.partition,
        replicas=now.replicas,
        isr=now.isr,
        leader=now.leader,
        since_offset=origin.offset,
        since_timestamp_ms=origin.timestamp_ms,
        at_least=origin.snapshot,
        previous_isr=before.isr if before else None,
        previous_elr=eligible(before) if before else None,
        last_leader=by_election is True and elects_last_leader(before, now) and not replicas_passed_over(before, now),
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        elected=by_election,
    )


def unclean_election(
    event: PartitionSet | PartitionChanged,
    topic: str | None,
    before: Assignment | None,
    now: Assignment,
    origin: RecordPosition,
) -> UncleanElection:
    """Returns the unclean election that a record shows."""
    return UncleanElection(
        topic_id=event.topic_id,
        topic=topic,
        partition=event.partition,
        leader=now.leader,
        passed_over=replicas_passed_over(before, now),
        last_leader=elects_last_leader(before, now),
        replicas=now.replicas,
        offset=origin.offset,
        timestamp_ms=origin.timestamp_ms,
    )


def continued(known: Recovery, before: Assignment, now: Assignment, origin: RecordPosition) -> Recovery:
    """Returns a recovery after a change: its start and the in-sync replicas before it are kept.

    An ISR without any replica that was in sync or eligible is another unclean election. Its record does not repeat the
    recovery state (PartitionChangeBuilder), and the passed-over replicas may hold acknowledged records that the new
    leader lacks.
    """
    isr, elr, last = known.previous_isr, known.previous_elr, known.last_leader
    if passed_over(before, now):
        last = False
        if isr is not None:
            isr, elr = union(isr, before.isr), union(elr or (), eligible(before))
    replicas, before_it = {*now.replicas}, {*known.replicas}
    new = tuple(node for node in now.replicas if node not in before_it) if before_it else ()
    return replace(
        known,
        replicas=now.replicas,
        isr=now.isr,
        leader=now.leader,
        previous_isr=isr,
        previous_elr=elr,
        last_leader=last,
        added=tuple(node for node in (*known.added, *new) if node in replicas),
        added_timestamp_ms=origin.timestamp_ms if new else known.added_timestamp_ms,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        leader_changes=known.leader_changes + (now.leader is not None and now.leader != before.leader),
    )


def passed_over(before: Assignment, now: Assignment) -> bool:
    """Returns whether no replica that is in sync now was in sync or eligible before; False if no other one is left."""
    holders = {*before.isr, *eligible(before)}
    return bool(now.isr and holders and holders.isdisjoint(now.isr)) and {*now.isr} != {*now.replicas}


def replicas_passed_over(before: Assignment | None, now: Assignment) -> tuple[NodeId, ...]:
    """Returns the replicas that were in sync or eligible before an unclean election and are not in sync now.

    A change of min.insync.replicas clears the ELR (KIP-966), also of a partition without a leader, whose ISR is empty.
    Then any replica may have been.
    """
    holders = () if before is None else union(before.isr, eligible(before)) or before.replicas
    in_sync = {*now.isr}
    return tuple(node for node in holders if node not in in_sync)


def eligible(before: Assignment) -> tuple[NodeId, ...]:
    """Returns the eligible leader replicas (KIP-966); the last known ones if none is in sync or eligible.

    A broker that starts after a crash leaves the ELR of its partitions before it can be elected.
    """
    return before.elr or (() if before.isr else before.last_known_elr)


def elects_last_leader(before: Assignment | None, now: Assignment) -> bool:
    """Returns whether an unclean election elects the replica that led last, or the only one.

    It has every record that was acknowledged, except those that it had not flushed before it crashed. Kafka stores the
    last leader as the last known ELR, and elects it when no replica is in sync or eligible (PartitionChangeBuilder). By
    hand or by unclean.leader.election.enable it is elected although another replica, which is down, is eligible.
    """
    if now.leader is None or {*now.isr} != {now.leader}:
        return False
    return {*now.replicas} == {now.leader} or (before is not None and now.leader in before.last_known_elr)


def without_crashed(one: UncleanElection, broker: NodeId, timestamp_ms: int) -> UncleanElection:
    """Returns an election as a broker's registration shows it.

    A broker that crashed leaves the ELR in a record just before its registration, which elects the last leader if no
    other replica is eligible: then no eligible replica was passed over.
    """
    crashed = one.last_leader and one.passed_over == (broker,) and timestamp_ms - one.timestamp_ms <= _REGISTERS_MS
    return one._replace(passed_over=()) if crashed else one


def elected(event: PartitionChanged, before: Assignment | None) -> bool:
    """Returns whether this record sets a different leader."""
    return event.leader is not None and (before is None or event.leader != before.leader)


def raised(epoch: int | None) -> int | None:
    """Returns the next epoch; None if it is unknown."""
    return None if epoch is None else epoch + 1


def union(first: tuple[NodeId, ...], second: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    """Returns the nodes of both lists, in order, at most as many as a partition may have."""
    known = {*first}
    return (*first, *(node for node in second if node not in known))[:MOST_REPLICAS]


_REGISTERS_MS: Final = 1_000
"""How long the controller takes to write the records of one registration: if there are many, in several batches."""
UNKNOWN: Final = Assignment((), (), (), (), None, None, None)
"""A partition of which no record was read."""
