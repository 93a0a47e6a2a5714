"""What is known of the brokers by the log and by the newest poll."""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from rules.facts.following import Following, following, since_last_fetch_ms
from rules.facts.freshness import fresh_poll
from rules.model.history import NeededReplica, NodeKind
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from rules.model.replica import ReplicaHistory


def starting_brokers(quorum: Quorum) -> frozenset[NodeId]:
    """Returns the brokers whose process has started again, and which do not serve yet."""
    brokers = {interruption.id: interruption for interruption in quorum.history.interruptions}
    return frozenset(
        node for node, interruption in brokers.items() if interruption.restarted and interruption.ended_offset is None
    )


def unregistered_running(quorum: Quorum, controllers: Collection[NodeId]) -> frozenset[NodeId]:
    """Returns the brokers that were unregistered and run: they fetch the metadata log by the newest poll, and are no
    controllers.

    None of their heartbeats is accepted. So SIGTERM ends them only when Kafka gives up the controlled shutdown, after 5
    minutes (BrokerServer.shutdown).
    """
    poll = fresh_poll(quorum)
    if poll is None:
        return frozenset()
    left = {one.id for one in quorum.history.unregistrations if one.kind is NodeKind.BROKER}
    return frozenset(
        node
        for node in left - quorum.brokers.keys() - {*controllers}
        if any(following(quorum, poll, row.key).fetches for row in poll.observers_by_id.get(node, ()))
    )


def brokers_behind(quorum: Quorum) -> list[NodeId]:
    """Returns the brokers that are alive, stay, and do not keep up with the metadata log by the newest poll.

    None without one that is current.
    """
    poll = fresh_poll(quorum)
    if poll is None:
        return []
    stay = [
        broker.id for _, broker in sorted(quorum.brokers.items()) if broker.alive and not broker.in_controlled_shutdown
    ]
    return [
        node
        for node in stay
        if node != poll.leader_id
        and not any(following(quorum, poll, row.key) is Following.IN_SYNC for row in poll.rows_by_id.get(node, ()))
    ]


def broker_fetch_ages(quorum: Quorum) -> Mapping[NodeId, Millis | None]:
    """Returns how long before the newest poll each broker that is alive by the log, and stays, last fetched it.

    None: no fetch is known. Without a current poll there are none.
    """
    poll = fresh_poll(quorum)
    if poll is None:
        return {}
    found: dict[NodeId, Millis | None] = {}
    for node, broker in sorted(quorum.brokers.items()):
        if not (broker.fenced or broker.in_controlled_shutdown):
            ages = [since_last_fetch_ms(quorum, poll, row.key) for row in poll.rows_by_id.get(node, ())]
            found[node] = min((age for age in ages if age is not None), default=None)
    return found


def brokers_away(quorum: Quorum) -> Sequence[NodeId]:
    """Returns the registered brokers whose replicas do not count on: they are fenced or shut down."""
    return [
        node for node, broker in sorted(quorum.brokers.items()) if not broker.alive or broker.in_controlled_shutdown
    ]


def longest_without_fetch(ages: Mapping[NodeId, Millis | None]) -> Sequence[tuple[NodeId, Millis | None]]:
    """Returns the brokers with the age of their last fetch, the longest first; one without a known fetch before all."""
    return sorted(ages.items(), key=lambda one: (one[1] is not None, -(one[1] or 0), one[0]))


def needed_by_broker(quorum: Quorum) -> Mapping[NodeId, Sequence[NeededReplica]]:
    """Returns the sums of partitions that need the replica of each broker."""
    return {node: [*sums] for node, sums in groupby(quorum.needed_replicas, key=lambda one: one.broker)}


def newest_histories(quorum: Quorum) -> Mapping[NodeId, ReplicaHistory]:
    """Returns the history of each node's directory that was listed last."""
    in_order = sorted(quorum.histories.values(), key=lambda history: history.last_seen_at_ms)
    return {history.key.id: history for history in in_order}
