"""Checks Raft's invariants (KIP-595) against the polls and the log, and keeps each violation for an hour.

Only observations that no healthy quorum can produce, in any order of arrival, count as violations. A poll answered by
a leader that does not know yet that it was replaced is legal, and so is a log that is read later than the polls.
"""

from dataclasses import dataclass, field

from connectors.observations.log_event import KRaftVersionSet, LeaderChanged, VotersReplaced
from connectors.observations.observation import QuorumPolled
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.membership import majority
from rules.model.monitoring import Invariant, InvariantViolation

REMEMBERED_MS = Millis(3_600_000)
"""A violation is an event, not a condition that ends: it is kept this long, as the loss of metadata is."""
REMEMBERED = 16
"""The maximum number of violations that are kept, the newest ones."""
EPOCHS = 64
"""The number of epochs, the last reported ones, whose leader is kept."""
NODES = 64
"""The number of nodes, the last ones that answered, whose epoch is kept."""
SAME_MS = Millis(60_000)
"""A high watermark that is found to be false this long after a decrease was reported is the same violation."""


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
        # The newest answer is last.
        self.polled_epochs.pop(leader, None)
        self.polled_epochs[leader] = epoch
        while len(self.polled_epochs) > NODES:
            del self.polled_epochs[next(iter(self.polled_epochs))]
        if event.high_watermark is not None:
            self._check_high_watermark(epoch, event.high_watermark, now_ms)

    def control_record(
        self, event: LeaderChanged | KRaftVersionSet | VotersReplaced, *, before: Epoch, now_ms: Millis
    ) -> None:
        """Checks a control record that is read for the first time; the newest epoch in the log was `before`."""
        epoch = event.at.leader_epoch
        if isinstance(event, LeaderChanged):
            self.leader_reported(leader=event.leader_id, epoch=epoch, now_ms=now_ms)
            votes, voters = {*event.granting_voter_ids} & {*event.voter_ids}, len(event.voter_ids)
            if event.granting_voter_ids and event.voter_ids and len(votes) < majority(voters):
                leader = f"controller {event.leader_id} became the leader of epoch {epoch}"
                detail = f"{leader} with {len(votes)} of {voters} votes"
                self._add(Invariant.ELECTED_BY_MINORITY, epoch, detail, now_ms)
        elif isinstance(event, VotersReplaced) and Epoch(-1) < before < epoch:
            detail = (
                f"offset {event.at.offset} of the log is a VotersRecord of epoch {epoch}, before the "
                "LeaderChangeMessage of that epoch"
            )
            self._add(Invariant.VOTERS_BEFORE_LEADER, epoch, detail, now_ms)

    def leader_reported(self, *, leader: NodeId, epoch: Epoch, now_ms: Millis) -> None:
        """Checks the leader of an epoch as a poll or a LeaderChangeMessage reports it."""
        known = self.leaders.pop(epoch, leader)
        if known != leader:
            self._two_leaders(known, leader, epoch, now_ms)
        # The newest report is kept, and is last: a false one is neither compared with any longer nor pushes out others.
        self.leaders[epoch] = leader
        while len(self.leaders) > EPOCHS:
            del self.leaders[next(iter(self.leaders))]

    def appended(self, *, offset: Offset, epoch: Epoch, before: Epoch, now_ms: Millis) -> None:
        """Checks a record after all applied ones; the newest epoch in the log was `before`."""
        known = (one for one in self.violations if one.invariant is Invariant.EPOCH_BACK and one.epoch == epoch)
        if epoch < before and not any(one.observed_at_ms == now_ms for one in known):
            detail = f"offset {offset} of the log has epoch {epoch}, after records of epoch {before}"
            self._add(Invariant.EPOCH_BACK, epoch, detail, now_ms)

    def lower_epoch_accepted(
        self, *, before: Epoch, epoch: Epoch, high_watermark: Offset | None, advanced: bool, now_ms: Millis
    ) -> None:
        """Continues from an epoch below the newest one, which nothing confirmed for long.

        Args:
            advanced: whether it advanced in the lower epoch since. Then `before` is no later epoch of this quorum: a
                replaced leader, which may not know that it was replaced, commits nothing.
        """
        if advanced:
            detail = f"no leader of epoch {before} was observed again, and records are committed in epoch {epoch}"
            self._add(Invariant.EPOCH_BACK, epoch, detail, now_ms)
        self.epoch, self.high_watermark = epoch, high_watermark

    def lower_high_watermark_accepted(self, *, before: Offset, now: Offset, epoch: Epoch, now_ms: Millis) -> None:
        """Reports a high watermark that all later answers contradict, unless a poll's decrease was just reported."""
        known = (one for one in self.violations if one.invariant is Invariant.HIGH_WATERMARK_BACK)
        if not any(now_ms - one.observed_at_ms <= SAME_MS for one in known):
            detail = f"the high watermark decreased from {before} to {now} in epoch {epoch}"
            self._add(Invariant.HIGH_WATERMARK_BACK, epoch, detail, now_ms)

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

    def _two_leaders(self, known: NodeId, leader: NodeId, epoch: Epoch, now_ms: Millis) -> None:
        """Adds the two leaders of an epoch, once for both orders."""
        detail, reverse = (
            f"controller {first} and then controller {second} led epoch {epoch}"
            for first, second in ((known, leader), (leader, known))
        )
        if all(each.detail != reverse for each in self.violations):
            self._add(Invariant.TWO_LEADERS, epoch, detail, now_ms)

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
