"""TopicPosition: what the topic has of one cluster, folded from its rows in the order of their partition. Pure.

Relays that gather the same cluster compare their own rows with it: what the topic has already needs no second copy, and
a relay whose rows the topic does not get takes over.
"""

from dataclasses import dataclass
from typing import Final

from connectors.observations.observation import Observation, ObservationKind
from connectors.relay.relay_message import Baseline, RelayEpoch, RelayMessage
from connectors.store.follow_progress import FollowProgress, advance

_EPOCH_STEP: Final = 1_000_000
"""A new epoch begins so far beyond the newest row: the relay before it may have written rows that were not read yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPosition:
    """How far the topic has the rows of a cluster."""

    partition: int
    epoch: RelayEpoch
    baseline: Baseline
    sequence: int
    """Of the newest row."""
    progress: FollowProgress
    """Of the rows since the baseline began."""
    log_end: int
    """The end of the metadata log in the topic; while a baseline is read again, that of the baseline before it."""
    whole: bool
    """Whether the baseline has the log up to its high watermark."""
    gap: str | None = None
    """Which offsets of the baseline's log are missing; None if none are."""

    @property
    def usable(self) -> bool:
        """Whether a state that begins at the baseline knows the whole log."""
        return self.whole and self.gap is None

    def has(self, row: "RowExtent") -> bool:
        """Returns whether the topic has what the row of another relay reports, or something newer."""
        if row.log_end is not None:
            return row.log_end <= self.log_end
        return row.observed_at_ms <= self.progress.observed_at_ms

    def continues(self, row: "RowExtent") -> bool:
        """Returns whether no offset is missing between the topic's log and this row of the log."""
        return row.log_begin is None or row.log_begin <= self.log_end


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExtent:
    """What a row adds."""

    observed_at_ms: int
    log_begin: int | None
    """The first offset of its records; None for other rows, and for a snapshot, which needs nothing before it."""
    log_end: int | None
    """The offset after its records, or of its snapshot; None for a row without."""


def extent(row: Observation) -> RowExtent:
    """Returns what a row adds."""
    begin = end = None
    if row.kind is ObservationKind.SNAPSHOT:
        end = row.base_offset
    elif row.kind is ObservationKind.RECORDS and row.payload and row.last_offset is not None:
        begin, end = row.base_offset, row.last_offset + 1
    return RowExtent(observed_at_ms=row.observed_at_ms, log_begin=begin, log_end=end)


def advanced(before: TopicPosition | None, message: RelayMessage, partition: int) -> TopicPosition | None:
    """Returns the position after a message; None for a row that readers skip, because it is not above the newest one.

    Args:
        before: the position; None before the first row that was read.
        message: the next one of the cluster in the order of the partition; it is not refused.
        partition: its partition.
    """
    row = message.observation
    if before is not None and row.sequence <= before.sequence:
        return None
    same = before is not None and before.baseline == message.baseline
    former = before.progress if before is not None and same else None
    progress = advance(former, row)
    end, former_end = progress.next_offset, None if former is None else former.next_offset
    caught_up = end is not None and progress.high_watermark is not None and end >= progress.high_watermark
    reads_on = end is not None and former_end is not None and end >= former_end
    whole = caught_up or (before is not None and same and before.whole and (reads_on or end == former_end))
    return TopicPosition(
        partition=partition,
        epoch=message.epoch,
        baseline=message.baseline,
        sequence=row.sequence,
        progress=progress,
        log_end=(end or 0) if whole else max(end or 0, 0 if before is None else before.log_end),
        whole=whole,
        gap=(before.gap if before is not None and same else None) or _gap(former_end, row),
    )


def next_epoch(position: TopicPosition | None, *, sent: int, relay: str, now_ms: int) -> RelayEpoch:
    """Returns the epoch with which a relay takes a cluster over.

    Args:
        position: what the topic has; the epoch is beyond it.
        sent: the sequence after what this relay has sent itself, and may not have read from the topic yet.
        relay: its name.
        now_ms: the wall clock.
    """
    beyond = max(sent, 0 if position is None else position.sequence)
    return RelayEpoch(sequence=max(beyond + _EPOCH_STEP if beyond else 0, now_ms * 1_000), relay=relay)


def _gap(end: int | None, row: Observation) -> str | None:
    begin = extent(row).log_begin
    return f"offsets {end} to {begin - 1}" if begin is not None and end is not None and begin > end else None
