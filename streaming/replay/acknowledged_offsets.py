"""AcknowledgedOffsets: below which offset each voter had all records, and the voters whose logs end below that now.

A voter acknowledges records by fetching after them, and acknowledged committed records are never truncated (KIP-595).
An offset counts only if two polls after each other show it, so that one false poll leaves no trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rules.model.identifiers import Offset, ReplicaKey
from rules.model.poll import LogRegression, Poll


@dataclass(slots=True, kw_only=True)
class AcknowledgedOffsets:
    """What the polls so far have shown of the voters' logs."""

    offsets: dict[str, Offset] = field(default_factory=dict)
    """By voter: all records below this offset are committed and were in its log."""
    high_watermark: Offset | None = None
    """The newest one that a poll reported."""

    def add(self, poll: Poll, previous: Poll | None) -> Mapping[ReplicaKey, LogRegression]:
        """Returns the voters whose logs end below committed records that they had.

        A high watermark that decreases concerns the whole quorum, and is reported as such: the offsets start again.
        """
        high_watermark = poll.high_watermark
        if high_watermark is None:
            return {}
        if self.high_watermark is not None and high_watermark < self.high_watermark:
            self.offsets.clear()
        self.high_watermark = high_watermark
        fallen: dict[ReplicaKey, LogRegression] = {}
        known, self.offsets = self.offsets, {}
        for row in poll.voters:
            name, end = str(row.key), row.log_end_offset
            acknowledged = known.get(name)
            if end is not None and acknowledged is not None and end < acknowledged:
                fallen[row.key] = LogRegression(
                    acknowledged_offset=acknowledged,
                    log_end_offset=end,
                    leader_epoch=poll.leader_epoch,
                    observed_at_ms=poll.observed_at_ms,
                )
                continue
            confirmed = _in_both(poll, previous, row.key)
            if confirmed is not None and (acknowledged is None or confirmed > acknowledged):
                acknowledged = confirmed
            if acknowledged is not None:
                self.offsets[name] = acknowledged
        return fallen


def _in_both(poll: Poll, previous: Poll | None, key: ReplicaKey) -> Offset | None:
    """Returns the offset below which both polls show committed records in this voter's log; None if one is silent."""
    ends = [_committed_end(each, key) for each in (poll, previous) if each is not None]
    known = [end for end in ends if end is not None]
    return min(known) if len(known) == 2 else None


def _committed_end(poll: Poll, key: ReplicaKey) -> Offset | None:
    end = next((row.log_end_offset for row in poll.rows_by_id.get(key.id, ()) if row.key == key), None)
    return None if end is None or poll.high_watermark is None else min(end, poll.high_watermark)


def with_regression(known: LogRegression | None, found: LogRegression, end: Offset | None) -> LogRegression:
    """Returns the newer regression; it keeps the older one's acknowledged offset if the log has not reached it since.

    Args:
        known: the voter's regression before.
        found: the new one.
        end: the voter's log end before the new one.
    """
    if known is None or (end is not None and end >= known.acknowledged_offset):
        return found
    return LogRegression(
        acknowledged_offset=max(known.acknowledged_offset, found.acknowledged_offset),
        log_end_offset=found.log_end_offset,
        leader_epoch=found.leader_epoch,
        observed_at_ms=found.observed_at_ms,
    )
