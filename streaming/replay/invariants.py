"""Invariants: what Raft promises (KIP-595), held against the polls and the log; what is broken is remembered.

Only what cannot be seen of a healthy quorum counts, in whatever order its answers come in: a poll of a leader that
does not know yet that it was replaced is legal, and so is a log that is read behind the polls.
"""

from dataclasses import dataclass, field

from connectors.event import QuorumPolled
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import Invariant, InvariantViolation

REMEMBERED_MS = Millis(3_600_000)
"""A broken promise is no state that ends: it is remembered this long, as the loss of metadata is."""
REMEMBERED = 16
"""How many violations are remembered, the newest ones."""
EPOCHS = 64
"""For how many epochs, the newest ones, the leader is remembered."""


@dataclass(slots=True, kw_only=True)
class Invariants:
    """What was promised so far, and which promises were broken."""

    leaders: dict[Epoch, NodeId] = field(default_factory=dict)
    """Who led each epoch, by polls and the log's LeaderChangeMessages."""
    answered: dict[NodeId, Epoch] = field(default_factory=dict)
    """The newest epoch in which each node answered a poll as the leader."""
    epoch: Epoch | None = None
    """The epoch of the newest poll that told a high watermark."""
    high_watermark: Offset | None = None
    violations: tuple[InvariantViolation, ...] = ()

    def polled(self, event: QuorumPolled, now_ms: Millis) -> None:
        """An answered DescribeQuorum. Polls are asked one after the other, so their answers are in order."""
        leader, epoch = event.leader_id, event.leader_epoch
        self.led(leader=leader, epoch=epoch, now_ms=now_ms)
        before = self.answered.get(leader)
        if before is not None and epoch < before:
            # A node's epoch is on its disk: it never answers with an older one, not even after a restart.
            detail = f"controller {leader} led in epoch {before} and then answers as the leader of epoch {epoch}"
            self._broken(Invariant.EPOCH_BACK, epoch, detail, now_ms)
        self.answered[leader] = epoch
        if event.high_watermark is not None:
            self._committed(epoch, event.high_watermark, now_ms)

    def led(self, *, leader: NodeId, epoch: Epoch, now_ms: Millis) -> None:
        """A poll or a LeaderChangeMessage says who leads this epoch."""
        known = self.leaders.setdefault(epoch, leader)
        if known != leader:
            detail = f"epoch {epoch} has two leaders: controller {known}, then controller {leader}"
            self._broken(Invariant.TWO_LEADERS, epoch, detail, now_ms)
        while len(self.leaders) > EPOCHS:
            del self.leaders[min(self.leaders)]

    def appended(self, *, offset: Offset, epoch: Epoch, before: Epoch, now_ms: Millis) -> None:
        """A record behind everything that is applied; the log's newest epoch was `before`."""
        if epoch < before:
            detail = f"offset {offset} of the log was written in epoch {epoch}, behind records of epoch {before}"
            self._broken(Invariant.EPOCH_BACK, epoch, detail, now_ms)

    def distrust(self) -> None:
        """Committed metadata was lost, which has its own reason: what was promised before binds nobody."""
        self.leaders.clear()
        self.answered.clear()
        self.epoch = self.high_watermark = None

    def forget(self, now_ms: Millis) -> None:
        """Drop what is too old to speak of now."""
        if self.violations and now_ms - self.violations[0].observed_at_ms > REMEMBERED_MS:
            kept = (each for each in self.violations if now_ms - each.observed_at_ms <= REMEMBERED_MS)
            self.violations = tuple(kept)

    def _committed(self, epoch: Epoch, high_watermark: Offset, now_ms: Millis) -> None:
        if self.epoch is not None and epoch < self.epoch:
            # The leader of an older epoch, not replaced in its own eyes, may know less.
            return
        before = self.high_watermark
        if before is not None and high_watermark < before:
            # A leader knows one only once a record of its own epoch is committed, behind all that was before.
            detail = f"the high watermark goes back from {before} in epoch {self.epoch} to {high_watermark}"
            self._broken(Invariant.HIGH_WATERMARK_BACK, epoch, f"{detail} in epoch {epoch}", now_ms)
        self.epoch, self.high_watermark = epoch, high_watermark

    def _broken(self, invariant: Invariant, epoch: Epoch, detail: str, now_ms: Millis) -> None:
        if any(each.detail == detail for each in self.violations):
            return
        violation = InvariantViolation(invariant=invariant, epoch=epoch, detail=detail, observed_at_ms=now_ms)
        self.violations = (*self.violations, violation)[-REMEMBERED:]
