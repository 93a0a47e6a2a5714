"""The damaged batches that a controller has served from its metadata log or a snapshot since its last start."""

from collections.abc import Iterable, Sequence

from rules.model.identifiers import NodeId
from rules.model.monitoring import DamagedBatch, FailedObservation, Reason
from rules.model.quorum import Quorum
from rules.model.replica import Replica


def damaged_logs(quorum: Quorum) -> Sequence[FailedObservation]:
    """Returns the newest damaged batch that each controller served; none of one that started again since.

    At each start Kafka checks its whole metadata log, truncates it at the first damaged batch, and fetches the rest.
    """
    return [each for each in quorum.failures if each.reason is Reason.LOG_DAMAGED and not _started_since(quorum, each)]


def serving_node(quorum: Quorum, failure: FailedObservation) -> NodeId | None:
    """Returns the controller at the endpoint of a failed observation; None if it is not known."""
    if failure.node is not None:
        return failure.node
    known = {voter.key.id: voter.endpoints for voter in quorum.voters}
    known |= {node: one.endpoints for node, one in quorum.controllers.items()}
    known |= quorum.poll.nodes if quorum.poll else {}
    return next((node for node, endpoints in known.items() if failure.endpoint in map(str, endpoints)), None)


def sound_copies(quorum: Quorum, node: NodeId | None, damage: DamagedBatch) -> Iterable[Replica]:
    """Yields the other voters whose log goes on after a damaged batch: Kafka checks a batch before it appends it."""
    last = damage.offset if damage.last_offset is None else damage.last_offset
    for row in quorum.poll.voters if quorum.poll else ():
        if row.key.id != node and last is not None and row.log_end_offset is not None and row.log_end_offset > last:
            yield row


def _started_since(quorum: Quorum, failure: FailedObservation) -> bool:
    """Returns whether the controller registered after it served the batch. Offsets show that; two clocks may differ."""
    node, served_at = serving_node(quorum, failure), failure.damage.high_watermark if failure.damage else None
    registration = None if node is None else quorum.controllers.get(node)
    if registration is None or served_at is None:
        return False
    # A record of a snapshot has no offset of the log.
    return not registration.at.snapshot and registration.at.offset >= served_at
