"""Seats: each voter of the leader's latest set, and whether it carries its part of the majority right now."""

from dataclasses import dataclass
from enum import StrEnum

from rules.analysis.replica_lag import Liveness, lag_ms, liveness, row_of, same, silence_ms
from rules.finding import Threshold, Thresholds
from rules.formatting import spelled
from rules.model.identifiers import Millis, Offset, ReplicaKey
from rules.model.poll import Poll
from rules.model.quorum import Quorum

BEHIND = Threshold(
    name="behind",
    default=10.0,
    unit="s",
    meaning="a voter that fetches counts as keeping up when it had caught up with the leader this recently, by the "
    "leader's clock. An idle follower is half a second behind; the default is five times "
    "controller.quorum.fetch.timeout.ms",
)


class Part(StrEnum):
    """What a voter does for the majority."""

    KEEPS_UP = "keeps up"
    BEHIND = "is behind"
    SILENT = "does not fetch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One voter as the newest poll shows it. Times are differences of the leader's clock."""

    key: ReplicaKey
    part: Part
    silence_ms: Millis | None
    lag_ms: Millis | None
    log_end_offset: Offset | None
    replaced_by: ReplicaKey | None
    """Another directory of its id that fetches without a vote: its disk was replaced.

    None where no VotersRecord is known: then `voter-disk-replaced` cannot speak of it, and others must.
    """

    def __str__(self) -> str:
        """What it does, with how long ago, where that is known."""
        match self.part:
            case Part.KEEPS_UP:
                return "keeps up"
            case Part.BEHIND:
                far = "by how much is not known yet" if self.lag_ms is None else f"by {spelled(self.lag_ms)}"
                return f"fetches and is behind, {far}"
            case Part.SILENT:
                ago = "never seen fetching" if self.silence_ms is None else f"last {spelled(self.silence_ms)} ago"
                return f"does not fetch, {ago}"


def seats(quorum: Quorum, poll: Poll, thresholds: Thresholds) -> tuple[Seat, ...]:
    """A seat for each voter of the poll: the leader's latest set is the one whose majority counts.

    Args:
        quorum: for the histories, which bridge elections.
        poll: one whose leader has a row.
        thresholds: `silent` and `behind`.
    """
    keys = sorted((row.key for row in poll.voters), key=lambda key: (key.id, key.directory_id or ""))
    return tuple(_seat(quorum, poll, key, thresholds) for key in keys)


def keeping_up(seated: tuple[Seat, ...]) -> int:
    """How many voters carry the majority now."""
    return sum(seat.part is Part.KEEPS_UP for seat in seated)


def _seat(quorum: Quorum, poll: Poll, key: ReplicaKey, thresholds: Thresholds) -> Seat:
    row = row_of(poll, key)
    behind = lag_ms(poll, row) if row else None
    part = Part.KEEPS_UP
    if liveness(quorum, poll, key, thresholds) is not Liveness.FETCHING:
        part = Part.SILENT
    elif behind is None or behind > thresholds.ms(BEHIND.name):
        part = Part.BEHIND
    return Seat(
        key=key,
        part=part,
        silence_ms=silence_ms(quorum, poll, key),
        lag_ms=behind,
        log_end_offset=row.log_end_offset if row else None,
        replaced_by=_replacement(quorum, poll, key, thresholds) if part is Part.SILENT else None,
    )


def _replacement(quorum: Quorum, poll: Poll, key: ReplicaKey, thresholds: Thresholds) -> ReplicaKey | None:
    if quorum.committed is None:
        return None
    return next(
        (
            row.key
            for row in poll.observers
            if row.key.id == key.id
            and not same(row.key, key)
            and liveness(quorum, poll, row.key, thresholds) is Liveness.FETCHING
        ),
        None,
    )
