"""The damaged batches that a controller has served from its metadata log or a snapshot since its last start."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rules.model.identifiers import NodeId, Offset
from rules.model.monitoring import DamagedBatch, FailedObservation, Reason
from rules.model.quorum import Quorum
from rules.model.replica import Replica

HIDDEN = "is not known to be registered: its registration may be in a damaged batch of the log"


@dataclass(frozen=True, kw_only=True)
class DamagedLog:
    """What one controller served damaged."""

    endpoint: str
    """HOST:PORT."""
    node: NodeId | None
    """None if it is not known which controller that is."""
    failures: tuple[FailedObservation, ...]
    """One for each damaged place, in order; snapshots last."""

    @property
    def name(self) -> str:
        """The controller, as text."""
        return f"the controller at {self.endpoint}" if self.node is None else f"controller {self.node}"

    @property
    def batches(self) -> Sequence[DamagedBatch]:
        """The damaged batches of the log."""
        return [batch for batch in self._damage if batch.snapshot is None]

    @property
    def in_snapshots(self) -> Sequence[DamagedBatch]:
        """The damaged batches of snapshots."""
        return [batch for batch in self._damage if batch.snapshot is not None]

    @property
    def survives_start(self) -> bool:
        """Whether Kafka does not find a part of the damage when it starts, so that its log stays damaged."""
        return any(batch.outside_checksum for batch in self.batches)

    @property
    def last_offset(self) -> Offset | None:
        """The last damaged offset of the log; None if none is known."""
        lasts = (batch.offset if batch.last_offset is None else batch.last_offset for batch in self.batches)
        return max((last for last in lasts if last is not None), default=None)

    @property
    def _damage(self) -> Iterable[DamagedBatch]:
        return (failure.damage or DamagedBatch() for failure in self.failures)


def damaged_logs(quorum: Quorum) -> Sequence[DamagedLog]:
    """Returns what each controller served damaged; nothing of one that started again since.

    At each start Kafka compares the checksums of its whole metadata log, truncates it at the first damaged batch, and
    fetches the rest. What the checksums do not cover stays damaged (`LogSegment.recover`).
    """
    found: dict[NodeId | str, list[FailedObservation]] = {}
    for failure in quorum.failures:
        if failure.reason is Reason.LOG_DAMAGED and not _started_since(quorum, failure):
            node = _serving_node(quorum, failure)
            found.setdefault(failure.endpoint if node is None else node, []).append(failure)
    return [
        DamagedLog(
            endpoint=failures[0].endpoint,
            node=_serving_node(quorum, failures[0]),
            failures=tuple(sorted(failures, key=_place)),
        )
        for failures in found.values()
    ]


def unreadable_log(quorum: Quorum) -> DamagedLog | None:
    """Returns the damaged log that the monitor cannot read further now; None if it reads on."""
    since_ms = quorum.now_ms - quorum.ages.answer_ms
    if quorum.log_fetched_at_ms is not None and quorum.log_fetched_at_ms >= since_ms:
        return None
    for log in damaged_logs(quorum):
        for failure in log.failures:
            # What comes after a damaged batch of a snapshot is read within this age, if the batch shows where it ends.
            ends = failure.damage is None or failure.damage.last_offset is not None
            if not ends and failure.last_at_ms >= since_ms:
                return log
    return None


def sound_copies(quorum: Quorum, log: DamagedLog) -> Iterable[Replica]:
    """Yields the other voters whose log goes on after the damage: Kafka checks a batch before it appends it."""
    last = log.last_offset
    for row in quorum.poll.voters if quorum.poll else ():
        if row.key.id != log.node and last is not None and row.log_end_offset is not None and row.log_end_offset > last:
            yield row


def _place(failure: FailedObservation) -> tuple[bool, int, int]:
    damage = failure.damage or DamagedBatch()
    return damage.snapshot is not None, damage.offset or 0, damage.position or 0


def _serving_node(quorum: Quorum, failure: FailedObservation) -> NodeId | None:
    """Returns the controller at the endpoint of a failed observation; None if it is not known."""
    if failure.node is not None:
        return failure.node
    known = {voter.key.id: voter.endpoints for voter in quorum.voters}
    known |= {node: registration.endpoints for node, registration in quorum.controllers.items()}
    known |= quorum.poll.nodes if quorum.poll else {}
    return next((node for node, endpoints in known.items() if failure.endpoint in map(str, endpoints)), None)


def _started_since(quorum: Quorum, failure: FailedObservation) -> bool:
    """Returns whether the controller registered after it served the batch. Offsets show that; two clocks may differ."""
    if failure.damage is not None and failure.damage.outside_checksum:
        return False
    node, served_at = _serving_node(quorum, failure), failure.damage.high_watermark if failure.damage else None
    registration = None if node is None else quorum.controllers.get(node)
    if registration is None or served_at is None:
        return False
    # A record of a snapshot has no offset of the log.
    return not registration.at.snapshot and registration.at.offset >= served_at
