"""The elections, voter changes, restarts and recoveries of a `ClusterStatus`."""

from collections import Counter
from collections.abc import Sequence

from rules.model.history import RecentHistory, Recovery
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from streaming.status.build_voters import replica_ids
from streaming.status.history_types import (
    ControllerStartStatus,
    ElectionStatus,
    ForcedReconfigurationStatus,
    RecoveringPartition,
    TopicRecovery,
    UncleanElectionStatus,
    VoterChangeStatus,
)

TOPIC_LIMIT = 200
"""Topics with recovering partitions that a status names."""


def elections(history: RecentHistory) -> tuple[ElectionStatus, ...]:
    """Returns the elections that were read in the log, oldest first."""
    return tuple(
        ElectionStatus(
            leader_id=one.leader_id,
            leader_epoch=one.leader_epoch,
            voter_ids=one.voter_ids,
            granting_voter_ids=one.granting_voter_ids,
            offset=one.offset,
            at_ms=one.timestamp_ms,
        )
        for one in history.elections
    )


def voter_changes(history: RecentHistory) -> tuple[VoterChangeStatus, ...]:
    """Returns the changes of the voter set that were read in the log, oldest first."""
    return tuple(
        VoterChangeStatus(
            added=replica_ids(one.added),
            removed=replica_ids(one.removed),
            moved=tuple(one.moved),
            leader_epoch=one.leader_epoch,
            offset=one.offset,
            at_ms=one.timestamp_ms,
        )
        for one in history.voter_changes
    )


def forced_reconfigurations(history: RecentHistory) -> tuple[ForcedReconfigurationStatus, ...]:
    """Returns the voter sets that were replaced by force, oldest first."""
    return tuple(
        ForcedReconfigurationStatus(
            at_ms=one.timestamp_ms,
            offset=one.offset,
            before=tuple(key.id for key in one.before),
            after=tuple(key.id for key in one.after),
        )
        for one in history.reconfigurations
    )


def controller_starts(history: RecentHistory) -> tuple[ControllerStartStatus, ...]:
    """Returns the starts of controllers, oldest first."""
    return tuple(ControllerStartStatus(at_ms=one.timestamp_ms, offset=one.offset, id=one.id) for one in history.starts)


def unclean_elections(history: RecentHistory) -> tuple[UncleanElectionStatus, ...]:
    """Returns the unclean leader elections by topic, oldest first."""
    return tuple(
        UncleanElectionStatus(
            topic=one.topic,
            topic_id=one.topic_id,
            elections=one.elections,
            first_at_ms=one.first_timestamp_ms,
            last_at_ms=one.last_timestamp_ms,
        )
        for one in history.unclean
    )


def longest_recovering(quorum: Quorum) -> list[Recovery]:
    """Returns the recovering partitions, longest first."""
    return sorted(quorum.recovering, key=lambda one: (one.since_timestamp_ms, one.topic or one.topic_id, one.partition))


def recovering_partition(quorum: Quorum, one: Recovery) -> RecoveringPartition:
    """Returns one recovering partition and which of its replicas' brokers are alive."""
    newest = quorum.newest_timestamp_ms
    return RecoveringPartition(
        topic=one.topic,
        topic_id=one.topic_id,
        partition=one.partition,
        since_ms=one.since_timestamp_ms,
        since_offset=one.since_offset,
        at_least=one.at_least,
        for_ms=None if newest is None else Millis(max(0, newest - one.since_timestamp_ms)),
        leader=one.leader,
        leader_epoch=one.leader_epoch,
        partition_epoch=one.partition_epoch,
        leader_changes=one.leader_changes,
        isr=tuple(one.isr),
        replicas=tuple(one.replicas),
        replicas_alive=tuple(node for node in one.replicas if _alive(quorum, node)),
        previous_isr=None if one.previous_isr is None else tuple(one.previous_isr),
        previous_elr=None if one.previous_elr is None else tuple(one.previous_elr),
    )


def topic_recoveries(longest: Sequence[Recovery]) -> tuple[TopicRecovery, ...]:
    """Returns the recovering partitions by topic.

    Args:
        longest: the recovering partitions, longest first.
    """
    counts = Counter(one.topic_id for one in longest)
    oldest: dict[str, Recovery] = {}
    for one in longest:
        oldest.setdefault(one.topic_id, one)
    return tuple(
        TopicRecovery(
            topic=one.topic,
            topic_id=one.topic_id,
            since_ms=one.since_timestamp_ms,
            at_least=one.at_least,
            partitions=counts[one.topic_id],
        )
        for one in [*oldest.values()][:TOPIC_LIMIT]
    )


def _alive(quorum: Quorum, node: NodeId) -> bool:
    broker = quorum.brokers.get(node)
    return broker is not None and broker.alive
