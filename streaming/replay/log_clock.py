"""LogClock: corrects the timestamps of the log while a leader's clock is wrong.

A record has the time of the leader that wrote it. Rules take the newest record's as the current time of the log and
compute ages from it. With a leader whose clock is hours ahead, everything would be hours old; with the next leader, it
would be young again. The observations show such a step: records that follow one that was read as soon as it was written
are at most as much newer as time has passed since, and no older. Of the first records only those from the future are
certain to be wrong. From the first record on that is out of these bounds by more than TOLERANCE_MS, the difference is
subtracted from each timestamp. The rule `leader-clock-skew` reports a wrong clock, by the polls.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from connectors.metadata.value_limits import LATEST_TIMESTAMP_MS, NO_TIMESTAMP
from connectors.observations.log_event import LogAdvanced, SnapshotBegan, UnknownRecords
from connectors.observations.partition_run import DecodedItem, PartitionRun
from rules.model.identifiers import Millis, Offset
from rules.model.monitoring import LeaderLog, LeaderView
from streaming.replay.log import Record

TOLERANCE_MS = 60_000
"""Clocks that NTP keeps differ by less."""
_AT_ONCE_MS = 10_000
"""A record is fresh if the log was read to its end this long ago or later: a fetch waits for new records."""
_STEPS = 20
"""The number of steps that are remembered: a snapshot may contain records from before the newest."""
_SLOWLY = 10
"""A correction that is no longer needed shrinks by a tenth of the time that passes: ages grow no faster than that."""


@dataclass(slots=True, kw_only=True)
class LogClock:
    """What is subtracted from the log's timestamps."""

    ahead_ms: int = 0
    """How far the clock that wrote the newest record is ahead; negative: behind."""
    steps: tuple[tuple[Offset, int], ...] = ()
    """The offsets from which on it was so much ahead; only the newest, oldest first."""
    fresh_ms: int | None = None
    """The corrected time of the newest record that was read as soon as it was written."""
    fresh_at_ms: int = 0
    """When that was, by the gatherer's clock."""
    read_at_ms: int = 0
    """When the log was last read, by the gatherer's clock."""
    at_end: bool = False
    """Whether it was read to its end then."""

    def corrected(
        self, items: Iterable[DecodedItem], *, position: Offset, observed_at_ms: Millis
    ) -> Iterator[DecodedItem]:
        """Yields the items of one observation; those with a wrong timestamp with the corrected one.

        Args:
            position: the last offset that was applied. Records up to it are read again and show nothing.
            observed_at_ms: when the gatherer received the items.
        """
        for item in items:
            if isinstance(item, PartitionRun):
                time_ms = written_ms = Millis(item.timestamp_ms)
                if not item.snapshot:
                    time_ms = self._time_ms(item.first_offset, written_ms, position, observed_at_ms)
                yield item if time_ms == written_ms else replace(item, timestamp_ms=time_ms)
            elif isinstance(item, LogAdvanced):
                yield self._advanced(item, position, observed_at_ms)
            elif isinstance(item, SnapshotBegan):
                last = Offset(item.end_offset - 1)
                contained_ms = self._contained_ms(last, item.last_contained_timestamp_ms, position, observed_at_ms)
                yield replace(item, last_contained_timestamp_ms=contained_ms)
            elif isinstance(item, LeaderView) and item.log is not None:
                yield replace(item, log=self._leader_log(item.log, position, observed_at_ms))
            elif isinstance(item, Record) and not isinstance(item, UnknownRecords) and not item.at.snapshot:
                at = item.at
                time_ms = self._time_ms(at.offset, at.timestamp_ms, position, observed_at_ms)
                yield item if time_ms == at.timestamp_ms else replace(item, at=replace(at, timestamp_ms=time_ms))
            else:
                yield item

    def latest_ms(self, observed_at_ms: Millis) -> Millis:
        """Returns the latest time that a record can have which is observed at this time, by the gatherer's clock."""
        return Millis(observed_at_ms if self.fresh_ms is None else self.fresh_ms + observed_at_ms - self.fresh_at_ms)

    def _time_ms(self, offset: Offset, written_ms: Millis, position: Offset, observed_at_ms: Millis) -> Millis:
        """Returns the corrected time of a record, or of the batch that begins with it."""
        if written_ms == NO_TIMESTAMP:
            return written_ms
        if offset <= position:
            return _valid(written_ms - self._ahead_at(offset))
        time_ms, fresh_ms = written_ms - self.ahead_ms, self.fresh_ms
        latest_ms = self.latest_ms(observed_at_ms)
        too_old = fresh_ms is not None and time_ms < fresh_ms - TOLERANCE_MS
        if too_old or time_ms > latest_ms + TOLERANCE_MS:
            ahead_ms = written_ms - latest_ms
            self.ahead_ms = 0 if abs(ahead_ms) <= TOLERANCE_MS else ahead_ms
            self.steps = (*self.steps, (offset, self.ahead_ms))[-_STEPS:]
        return _valid(written_ms - self.ahead_ms)

    def _ahead_at(self, offset: Offset) -> int:
        return next((ahead_ms for since, ahead_ms in reversed(self.steps) if since <= offset), 0)

    def _advanced(self, item: LogAdvanced, position: Offset, observed_at_ms: Millis) -> LogAdvanced:
        written_ms, last = item.newest_timestamp_ms, item.last_offset
        passed_ms, was_at_end = observed_at_ms - self.read_at_ms, self.at_end
        end = position if last is None else max(position, last)
        self.read_at_ms = observed_at_ms
        self.at_end = item.high_watermark is not None and end + 1 >= item.high_watermark
        if written_ms is None or written_ms == NO_TIMESTAMP or last is None or last <= position:
            return item
        time_ms = self._time_ms(last, written_ms, position, observed_at_ms)
        if was_at_end and passed_ms <= _AT_ONCE_MS:
            self.fresh_ms, self.fresh_at_ms = time_ms, observed_at_ms
            if abs(written_ms - observed_at_ms) <= TOLERANCE_MS:
                # If it is corrected, the gatherer's clock was wrong before, and was set.
                shrinks_by = min(abs(self.ahead_ms), passed_ms // _SLOWLY)
                self.ahead_ms -= shrinks_by if self.ahead_ms > 0 else -shrinks_by
        return item if time_ms == written_ms else replace(item, newest_timestamp_ms=time_ms)

    def _contained_ms(self, offset: Offset, written_ms: Millis, position: Offset, observed_at_ms: Millis) -> Millis:
        """Returns the time of a record in a snapshot; rather too new if it is not known which leader wrote it."""
        if written_ms == NO_TIMESTAMP:
            return written_ms
        time_ms = (
            written_ms - self._ahead_at(offset) if offset <= position else max(written_ms, written_ms - self.ahead_ms)
        )
        return _valid(min(time_ms, observed_at_ms + TOLERANCE_MS))

    def _leader_log(self, log: LeaderLog, position: Offset, observed_at_ms: Millis) -> LeaderLog:
        begins_ms, snapshot = log.begins_timestamp_ms, log.snapshot
        if begins_ms is not None and log.start_offset is not None:
            begins_ms = self._contained_ms(log.start_offset, begins_ms, position, observed_at_ms)
        if snapshot is not None and snapshot.last_contained_timestamp_ms is not None:
            written_ms, last = snapshot.last_contained_timestamp_ms, Offset(snapshot.end_offset - 1)
            contained_ms = self._contained_ms(last, written_ms, position, observed_at_ms)
            snapshot = replace(snapshot, last_contained_timestamp_ms=contained_ms)
        return replace(log, begins_timestamp_ms=begins_ms, snapshot=snapshot)


def _valid(time_ms: int) -> Millis:
    """Returns the time, or the nearest that the decoder accepts."""
    return Millis(min(max(time_ms, 0), LATEST_TIMESTAMP_MS))
