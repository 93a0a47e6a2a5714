"""AppendTimes: when the leader wrote the newest record, and whether it writes NoOps, by the leader's own clock.

The active controller appends a NoOpRecord every `metadata.max.idle.interval.ms` (KIP-835, half a second by default), so
that a log that stands still shows that it appends nothing. With an interval of 0 it writes none, and an idle log stands
still rightly.
"""

from dataclasses import dataclass

from connectors.observations.log_event import LogAdvanced
from rules.model.identifiers import Epoch, Millis
from rules.model.replica import Poll

LONGEST_INTERVAL_MS = 10_000
"""Records that follow a NoOp for longer than this without a further one show that NoOps are off."""


@dataclass(slots=True, kw_only=True)
class AppendTimes:
    """Times as the leaders wrote them, not corrected."""

    newest_ms: Millis | None = None
    """Of the newest record."""
    epoch: Epoch | None = None
    """The leader epoch of the newest record."""
    without_noop_since_ms: Millis | None = None
    """Of the first record in this epoch after which no NoOp followed; None while the newest record is a NoOp."""
    has_noops: bool = False
    """Whether NoOps were written when the newest record was."""

    def log_advanced(self, event: LogAdvanced) -> None:
        """Notes what was read of the log, before its times are corrected."""
        newest_ms, epoch = event.newest_timestamp_ms, event.leader_epoch
        if newest_ms is None or epoch is None:
            return
        if event.newest_noop_ms is not None:
            self.has_noops, self.without_noop_since_ms = True, None
        elif self.without_noop_since_ms is None or epoch != self.epoch:
            self.without_noop_since_ms = newest_ms
        elif newest_ms - self.without_noop_since_ms > LONGEST_INTERVAL_MS:
            self.has_noops = False
        self.newest_ms, self.epoch = newest_ms, epoch

    def silent_ms(self, poll: Poll | None, log_end: int | None) -> int | None:
        """Returns how long the leader had appended nothing when it answered a poll, 0 for less than 10 s.

        None: that is not known, or it writes no NoOps.

        Args:
            poll: the newest one.
            log_end: the offset after the newest record that was read.
        """
        leader = None if poll is None else poll.leader
        if poll is None or leader is None or leader.last_fetch_ms is None or self.newest_ms is None:
            return None
        if not self.has_noops:
            return None
        if leader.log_end_offset != log_end or poll.leader_epoch != self.epoch:
            return 0
        silent_ms = leader.last_fetch_ms - self.newest_ms
        return silent_ms if silent_ms > LONGEST_INTERVAL_MS else 0
