"""What may be deleted: only whole segments below the committed position, oldest first, by size and age."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A segment that is followed by another and never changes again."""

    first: int
    end: int
    """The sequence after its last row."""
    size_bytes: int
    newest_at_ms: int
    """observed_at of the newest row up to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The oldest segments that go, and the one that should go and may not."""

    delete: tuple[Sealed, ...]
    held_back: Sealed | None


def evaluate(
    sealed: Sequence[Sealed], *, active_bytes: int, committed: int, keep_bytes: int, keep_from_ms: int
) -> Verdict:
    """Which of the sealed segments, oldest first, are too many or too old; none that holds an uncommitted row."""
    total_bytes = active_bytes + sum(each.size_bytes for each in sealed)
    delete: list[Sealed] = []
    for each in sealed:
        if total_bytes <= keep_bytes and each.newest_at_ms >= keep_from_ms:
            break
        if each.end > committed:
            return Verdict(delete=tuple(delete), held_back=each)
        delete.append(each)
        total_bytes -= each.size_bytes
    return Verdict(delete=tuple(delete), held_back=None)
