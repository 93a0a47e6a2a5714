"""A partition that is recovering from an unclean election (KIP-704), as plain data."""

from connectors.sinks.alert_json import iso
from rules.finding import Plain
from rules.model.history import Recovery
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum


def recovery(quorum: Quorum, one: Recovery) -> dict[str, Plain]:
    """One item of `recovering`; its fields are listed at `overview.partitions`."""
    newest = quorum.newest_timestamp_ms
    return {
        "topic": one.topic,
        "topic_id": one.topic_id,
        "partition": one.partition,
        "since": iso(one.since_timestamp_ms),
        "since_offset": one.since_offset,
        "at_least": one.at_least,
        "for_ms": None if newest is None else Millis(max(0, newest - one.since_timestamp_ms)),
        "leader": one.leader,
        "leader_epoch": one.leader_epoch,
        "partition_epoch": one.partition_epoch,
        "leader_changes": one.leader_changes,
        "isr": [*one.isr],
        "replicas": [*one.replicas],
        "replicas_alive": [node for node in one.replicas if _alive(quorum, node)],
        "previous_isr": None if one.previous_isr is None else [*one.previous_isr],
        "previous_elr": None if one.previous_elr is None else [*one.previous_elr],
    }


def _alive(quorum: Quorum, node: NodeId) -> bool:
    broker = quorum.brokers.get(node)
    return broker is not None and broker.alive
