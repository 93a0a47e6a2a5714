"""Leadership: the leader by the newest evidence, and its high watermark; and the invariants of Raft (KIP-595).

Evidence is a LeaderChangeMessage in the log, an answered poll, or a successful fetch of the log. A higher epoch wins
over a lower one. Nodes that report that they know no leader are evidence against it.

One false answer must not stay: an epoch that nothing confirms for UNCONFIRMED_MS gives way to a lower one, and a high
watermark that all answers contradict for LOWER_MS gives way to theirs.

Only observations that no healthy quorum can produce, in any order of arrival, count as violations of an invariant. A
poll answered by a leader that does not know yet that it was replaced is legal, and so is a log that is read later than
the polls.
"""

from dataclasses import dataclass, field

from connectors.observations.log_event import KRaftVersionSet, LeaderChanged, LogAdvanced, VotersReplaced
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.membership import majority
from rules.model.monitoring import NO_LEADER_REASONS, FailedObservation, Invariant, InvariantViolation, Reason
from rules.model.replica import Poll
from streaming.replay.log import Log

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

    def polled(self, event: Poll, now_ms: Millis) -> None:
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
        known = (
            violation
            for violation in self.violations
            if violation.invariant is Invariant.EPOCH_BACK and violation.epoch == epoch
        )
        if epoch < before and not any(violation.observed_at_ms == now_ms for violation in known):
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
        known = (violation for violation in self.violations if violation.invariant is Invariant.HIGH_WATERMARK_BACK)
        if not any(now_ms - violation.observed_at_ms <= SAME_MS for violation in known):
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
            kept = (violation for violation in self.violations if now_ms - violation.observed_at_ms <= REMEMBERED_MS)
            self.violations = tuple(kept)

    def _two_leaders(self, known: NodeId, leader: NodeId, epoch: Epoch, now_ms: Millis) -> None:
        """Adds the two leaders of an epoch, once for both orders."""
        detail, reverse = (
            f"controller {first} and then controller {second} led epoch {epoch}"
            for first, second in ((known, leader), (leader, known))
        )
        if all(violation.detail != reverse for violation in self.violations):
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


UNCONFIRMED_MS = Millis(30_000)
"""Evidence of a lower epoch is accepted if the known epoch was not confirmed for this long: epochs decrease when a
quorum is restored from an older disk, and a monitor that reads no log cannot observe the restore."""
LOWER_MS = Millis(10_000)
"""A lower high watermark is accepted if every answer of this long reported a lower one. Poll and fetch overlap, so for
a moment one of them may know less than the other."""
LOWER_ANSWERS = 3
"""The minimum number of these answers."""
LEADERLESS_REASONS = NO_LEADER_REASONS | {Reason.REFUSED}
"""Failures that report no leader: the node knows none, or no node runs at the address. A timeout reports nothing."""
LEADERLESS_REPORT_MS = Millis(60_000)
"""A report of no leader expires if it is not repeated for this long: the address is no longer polled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderlessReport:
    """Why a polled address reported no leader, and when it last did."""

    reason: Reason
    at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerHighWatermark:
    """The answers since the known high watermark was last confirmed: all of them reported a lower one."""

    highest: Offset
    answers: int
    since_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerEpoch:
    """The first answer of a lower epoch since the known epoch was last confirmed."""

    epoch: Epoch
    high_watermark: Offset | None


@dataclass(slots=True, kw_only=True)
class Leadership:
    """The newest known leader, the reports of no leader since then, and the invariants that its evidence must keep.

    Invariant: `leaderless_reports` holds only reports after the newest evidence of a leader.
    """

    leader_id: NodeId | None = None
    epoch: Epoch | None = None
    high_watermark: Offset | None = None
    high_watermark_since_ms: Millis | None = None
    """When something was last committed, as far as it was observed: not at an election that commits nothing."""
    confirmed_at_ms: Millis | None = None
    leaderless_reports: dict[str, LeaderlessReport] = field(default_factory=dict)
    """By the node that was asked, or else by the polled HOST:PORT."""
    lower_high_watermark: LowerHighWatermark | None = None
    lower_epoch: LowerEpoch | None = None
    invariants: Invariants = field(default_factory=Invariants)

    def leader(self, controllers: int) -> NodeId | None:
        """Returns the leader.

        None if none is known, or if a majority of the controllers reports no leader, at least one by its answer.
        """
        reports = self.leaderless_reports.values()
        answered = any(report.reason in NO_LEADER_REASONS for report in reports)
        return None if answered and len(reports) >= majority(controllers) else self.leader_id

    def polled(self, event: Poll, now_ms: Millis) -> bool:
        """Applies an answered DescribeQuorum; returns False if newer evidence contradicts it."""
        self.invariants.polled(event, now_ms)
        epoch, high_watermark, known, first = event.leader_epoch, event.high_watermark, self.epoch, self.lower_epoch
        lower = known is not None and epoch < known
        if lower and self.confirmed_at_ms is not None and now_ms - self.confirmed_at_ms <= UNCONFIRMED_MS:
            if first is None or first.epoch != epoch:
                self.lower_epoch = LowerEpoch(epoch=epoch, high_watermark=high_watermark)
            return False
        if epoch == known:
            self.advance(high_watermark, now_ms)
        else:
            # A new leader's high watermark counts even if lower: a quorum restored from an older disk reports that. It
            # is unknown until a record of the epoch is committed (LeaderState.maybeUpdateHighWatermark).
            if self.high_watermark_since_ms is None or high_watermark not in (None, self.high_watermark):
                self.high_watermark_since_ms = now_ms
            self.high_watermark = high_watermark
            self.lower_high_watermark = None
        if known is not None and lower and self.confirmed_at_ms is not None:
            before = None if first is None or first.epoch != epoch else first.high_watermark
            self.invariants.lower_epoch_accepted(
                before=known,
                epoch=epoch,
                high_watermark=high_watermark,
                advanced=before is not None and high_watermark is not None and high_watermark > before,
                now_ms=now_ms,
            )
        self.leader_id, self.epoch, self.confirmed_at_ms = event.leader_id, epoch, now_ms
        self.lower_epoch = None
        self.leaderless_reports.clear()
        return True

    def apply_leader_change(self, *, leader: NodeId | None, epoch: Epoch | None) -> None:
        """Applies a LeaderChangeMessage of the log: history, unless its epoch is the newest known one."""
        if leader is not None and epoch is not None and (self.epoch is None or epoch > self.epoch):
            self.leader_id, self.epoch = leader, epoch

    def reset(self) -> None:
        """Accepts lower epochs and high watermarks from now on: committed metadata was lost."""
        self.confirmed_at_ms = self.high_watermark = self.high_watermark_since_ms = None
        self.lower_high_watermark = self.lower_epoch = None
        self.invariants.reset()

    def log_fetched(self, event: LogAdvanced, log: Log, epoch_before: Epoch, now_ms: Millis) -> None:
        """Applies a successful fetch of the log, and checks the epochs of its batches. Only a leader serves the log.

        Args:
            event: the end of the observation.
            log: is not advanced yet.
            epoch_before: the newest epoch in the log before the observation.
        """
        self.leaderless_reports.clear()
        self.advance(event.high_watermark, now_ms)
        self._check_epochs(event, log, epoch_before, now_ms)

    def _check_epochs(self, event: LogAdvanced, log: Log, before: Epoch, now_ms: Millis) -> None:
        """Checks all batches, also those of NoOps, which make no event of their own."""
        if event.first_epoch is None or event.last_offset is None or event.last_offset <= log.position:
            return
        offset, epoch = Offset(log.position + 1), event.first_epoch
        if event.base_offset is not None and event.base_offset <= log.position and event.last_epoch is not None:
            # The first batches are old ones, of older epochs. Of the new batches, only the last epoch is known.
            offset, epoch = event.last_offset, event.last_epoch
        self.invariants.appended(offset=offset, epoch=epoch, before=before, now_ms=now_ms)
        if (drop := event.epoch_drop) is not None and drop.offset > log.position:
            self.invariants.appended(offset=drop.offset, epoch=drop.epoch, before=drop.before, now_ms=now_ms)
        if event.last_epoch is not None:
            log.epoch = event.last_epoch

    def advance(self, high_watermark: Offset | None, now_ms: Millis) -> None:
        """Raises the high watermark. It decreases only if all answers of LOWER_MS reported a lower one."""
        known, lower = self.high_watermark, self.lower_high_watermark
        if high_watermark is None:
            return
        if known is None or high_watermark > known:
            self.high_watermark, self.high_watermark_since_ms = high_watermark, now_ms
        if known is None or high_watermark >= known:
            self.lower_high_watermark = None
            return
        highest = high_watermark if lower is None else max(lower.highest, high_watermark)
        answers = 1 if lower is None else lower.answers + 1
        since_ms = now_ms if lower is None else lower.since_ms
        if answers >= LOWER_ANSWERS and now_ms - since_ms >= LOWER_MS:
            self.high_watermark, self.high_watermark_since_ms = highest, now_ms
            self.lower_high_watermark = None
            epoch = Epoch(-1) if self.epoch is None else self.epoch
            self.invariants.lower_high_watermark_accepted(before=known, now=highest, epoch=epoch, now_ms=now_ms)
        else:
            self.lower_high_watermark = LowerHighWatermark(highest=highest, answers=answers, since_ms=since_ms)

    def observation_failed(self, event: FailedObservation, now_ms: Millis) -> None:
        """Records that a poll or fetch failed. A timeout reports nothing."""
        if event.reason in LEADERLESS_REASONS:
            who = event.endpoint if event.node is None else str(event.node)
            self.leaderless_reports[who] = LeaderlessReport(reason=event.reason, at_ms=now_ms)

    def expire(self, now_ms: Millis) -> None:
        """Drops reports of no leader older than LEADERLESS_REPORT_MS, and old violations."""
        self.invariants.expire(now_ms)
        reports = self.leaderless_reports.items()
        for address in [name for name, report in reports if now_ms - report.at_ms > LEADERLESS_REPORT_MS]:
            del self.leaderless_reports[address]
