"""Checks Raft's invariants (KIP-595) against the polls and the log, and keeps each violation for an hour.

Only observations that no healthy quorum can produce, in any order of arrival, count as violations. A poll answered by
a leader that does not know yet that it was replaced is legal, and so is a log that is read later than the polls.
"""

from dataclasses import dataclass, field

from connectors.observation_event import QuorumPolled
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import Invariant, InvariantViolation

REMEMBERED_MS = Millis(3_600_000)
"""A violation is an event, not a condition that ends: it is kept this long, as the loss of metadata is."""
REMEMBERED = 16
"""The maximum number of violations that are kept, the newest ones."""
EPOCHS = 64
"""The number of epochs, the newest ones, whose leader is kept."""


@dataclass(slots=True, kw_only=True)
class Invariants:
    """The facts to check new observations against, and the violations found."""

    leaders: dict[Epoch, NodeId] = field(default_factory=dict)
    """The leader of each epoch, from polls and LeaderChangeMessages."""
    polled_epochs: dict[NodeId, Epoch] = field(default_factory=dict)
    """The newest epoch in which each node answered a poll as the leader."""
    epoch: Epoch | None = None
    """The epoch of the newest poll with a high watermark."""
    high_watermark: Offset | None = None
    violations: tuple[InvariantViolation, ...] = ()

    def polled(self, event: QuorumPolled, now_ms: Millis) -> None:
        """Checks an answered DescribeQuorum. Polls are sequential, so their answers are in order."""
        leader, epoch = event.leader_id, event.leader_epoch
        self.leader_reported(leader=leader, epoch=epoch, now_ms=now_ms)
        before = self.polled_epochs.get(leader)
        if before is not None and epoch < before:
            # A node stores its epoch on disk, so it never answers with an older one, even after a restart.
            detail = (
                f"controller {leader} answered as the leader of epoch {before}, then as the leader of epoch {epoch}"
            )
            self._add(Invariant.EPOCH_BACK, epoch, detail, now_ms)
        self.polled_epochs[leader] = epoch
        if event.high_watermark is not None:
            self._check_high_watermark(epoch, event.high_watermark, now_ms)

    def leader_reported(self, *, leader: NodeId, epoch: Epoch, now_ms: Millis) -> None:
        """Checks the leader of an epoch as a poll or a LeaderChangeMessage reports it."""
        known = self.leaders.setdefault(epoch, leader)
        if known != leader:
            detail = f"controller {known} and then controller {leader} led epoch {epoch}"
            self._add(Invariant.TWO_LEADERS, epoch, detail, now_ms)
        while len(self.leaders) > EPOCHS:
            del self.leaders[min(self.leaders)]

    def appended(self, *, offset: Offset, epoch: Epoch, before: Epoch, now_ms: Millis) -> None:
        """Checks a record after all applied ones; the newest epoch in the log was `before`."""
        if epoch < before:
            detail = f"offset {offset} of the log has epoch {epoch}, after records of epoch {before}"
            self._add(Invariant.EPOCH_BACK, epoch, detail, now_ms)

    def reset(self) -> None:
        """Drops the known facts: after a loss of committed metadata, lower epochs and high watermarks are expected."""
        self.leaders.clear()
        self.polled_epochs.clear()
        self.epoch = self.high_watermark = None

    def expire(self, now_ms: Millis) -> None:
        """Drops violations older than REMEMBERED_MS."""
        if self.violations and now_ms - self.violations[0].observed_at_ms > REMEMBERED_MS:
            kept = (each for each in self.violations if now_ms - each.observed_at_ms <= REMEMBERED_MS)
            self.violations = tuple(kept)

    def _check_high_watermark(self, epoch: Epoch, high_watermark: Offset, now_ms: Millis) -> None:
        if self.epoch is not None and epoch < self.epoch:
            # A leader of an older epoch that does not know that it was replaced may know an older high watermark.
            return
        before = self.high_watermark
        if before is not None and high_watermark < before:
            # A leader reports a high watermark only once a record of its epoch is committed, after all earlier ones.
            detail = f"the high watermark decreased from {before} in epoch {self.epoch} to {high_watermark}"
            self._add(Invariant.HIGH_WATERMARK_BACK, epoch, f"{detail} in epoch {epoch}", now_ms)
        self.epoch, self.high_watermark = epoch, high_watermark

    def _add(self, invariant: Invariant, epoch: Epoch, detail: str, now_ms: Millis) -> None:
        if any(each.detail == detail for each in self.violations):
            return
        violation = InvariantViolation(invariant=invariant, epoch=epoch, detail=detail, observed_at_ms=now_ms)
        self.violations = (*self.violations, violation)[-REMEMBERED:]
