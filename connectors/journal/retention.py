"""Retention: which segments may be deleted: whole, committed ones, oldest first, by size and age."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSegment:
    """A segment that another one follows; it never changes again."""

    first: int
    """Sequence of its first row."""
    end: int
    """The sequence after its last row."""
    size_bytes: int
    newest_at_ms: int
    """`observed_at_ms` of the newest row up to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionDecision:
    """The segments to delete, oldest first, and the first segment that is due but not yet committed."""

    delete: tuple[SealedSegment, ...]
    held_back: SealedSegment | None


def decide(
    sealed: Sequence[SealedSegment], *, active_bytes: int, committed: int, keep_bytes: int, keep_from_ms: int
) -> RetentionDecision:
    """Decides which sealed segments exceed the size or age limit. Keeps every segment with an uncommitted row.

    Args:
        sealed: oldest first.
        active_bytes: size of the segment that is being written.
        committed: rows below this sequence may be deleted.
        keep_bytes: limit of the journal's size.
        keep_from_ms: segments whose newest row is older than this are due.
    """
    total_bytes = active_bytes + sum(each.size_bytes for each in sealed)
    delete: list[SealedSegment] = []
    for each in sealed:
        if total_bytes <= keep_bytes and each.newest_at_ms >= keep_from_ms:
            break
        if each.end > committed:
            return RetentionDecision(delete=tuple(delete), held_back=each)
        delete.append(each)
        total_bytes -= each.size_bytes
    return RetentionDecision(delete=tuple(delete), held_back=None)
