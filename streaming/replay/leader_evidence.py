"""Applies evidence of a leader to `Leadership`, and reports to `Invariants` what it takes back."""

from dataclasses import dataclass

from connectors.observations.log_event import LogAdvanced
from connectors.observations.observation_event import QuorumPolled
from rules.model.identifiers import Epoch, Millis, Offset
from streaming.replay.invariants import Invariants
from streaming.replay.leadership_state import Leadership
from streaming.replay.log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEvidence:
    """The newest leader and the checked invariants of one quorum, at one time."""

    leadership: Leadership
    invariants: Invariants
    now_ms: Millis

    def polled(self, event: QuorumPolled) -> bool:
        """Applies an answered DescribeQuorum; returns False if newer evidence contradicts it."""
        leadership, epoch = self.leadership, event.leader_epoch
        self.invariants.polled(event, self.now_ms)
        before, lower, known = leadership.epoch, leadership.lower_epoch, leadership.high_watermark
        was_reset = leadership.confirmed_at_ms is None
        if not leadership.confirm(
            leader=event.leader_id, epoch=epoch, high_watermark=event.high_watermark, now_ms=self.now_ms
        ):
            return False
        if before is not None and epoch < before and not was_reset:
            first = None if lower is None or lower.epoch != epoch else lower.high_watermark
            self.invariants.lower_epoch_accepted(
                before=before,
                epoch=epoch,
                high_watermark=event.high_watermark,
                advanced=first is not None and event.high_watermark is not None and event.high_watermark > first,
                now_ms=self.now_ms,
            )
        elif before == epoch:
            self._report_decrease(known)
        return True

    def log_fetched(self, event: LogAdvanced, log: Log, epoch_before: Epoch) -> None:
        """Applies a successful fetch of the log, and checks the epochs of its batches.

        Args:
            event: the end of the observation.
            log: is not advanced yet.
            epoch_before: the newest epoch in the log before the observation.
        """
        known = self.leadership.high_watermark
        self.leadership.log_fetched(event.high_watermark, self.now_ms)
        self._report_decrease(known)
        self._check_epochs(event, log, epoch_before)

    def _check_epochs(self, event: LogAdvanced, log: Log, before: Epoch) -> None:
        """Checks all batches, also those of NoOps, which make no event of their own."""
        if event.first_epoch is None or event.last_offset is None or event.last_offset <= log.position:
            return
        offset = Offset(log.position + 1)
        self.invariants.appended(offset=offset, epoch=event.first_epoch, before=before, now_ms=self.now_ms)
        if (drop := event.epoch_drop) is not None:
            self.invariants.appended(offset=drop.offset, epoch=drop.epoch, before=drop.before, now_ms=self.now_ms)
        if event.last_epoch is not None:
            log.epoch = event.last_epoch

    def _report_decrease(self, known: Offset | None) -> None:
        now, epoch = self.leadership.high_watermark, self.leadership.epoch
        if known is not None and now is not None and now < known:
            self.invariants.lower_high_watermark_accepted(
                before=known, now=now, epoch=Epoch(-1) if epoch is None else epoch, now_ms=self.now_ms
            )
