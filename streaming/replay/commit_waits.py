"""CommitWaits: how long records wait until a majority has them, as the polls of about the last half minute show it.

Each poll shows how long the voter that completes the majority has lagged; the average over the polls is the time that a
record waits. A single poll says little: it may come at any moment between two fetches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rules.facts.following import majority_lag_ms
from rules.model.identifiers import Millis, ReplicaKey
from rules.model.replica import CommitWait, LagSample, Poll

AVERAGED_MS = 30_000
"""The weight of a poll falls to a third in this time."""
MOST_POLL_MS = 5_000
"""A poll counts for at most as much time."""
MOST_MS = 10_000
"""A voter that has lagged for longer is not in sync: then commits are not slow, but missing."""
STEP_MS = 100
"""The rules see these times rounded down: those of a healthy quorum are 0, and do not change with every poll."""


@dataclass(slots=True, kw_only=True)
class CommitWaits:
    """Averages in milliseconds; each is unknown until a poll shows it."""

    commit_ms: int | None = None
    """Since a majority was last not in sync."""
    answer_ms: int | None = None
    """How long the leader took to answer the polls."""
    lags_ms: Mapping[str, int] = field(default_factory=dict)
    """How long each voter lagged, by its key as text."""
    polled_at_ms: Millis | None = None

    def polled(self, poll: Poll, samples: Mapping[ReplicaKey, LagSample]) -> None:
        """Adds a poll, with what it shows of each voter."""
        before_ms, self.polled_at_ms = self.polled_at_ms, poll.observed_at_ms
        part_ms = AVERAGED_MS if before_ms is None else min(poll.observed_at_ms - before_ms, MOST_POLL_MS)

        def average(known: int | None, new: int | None) -> int | None:
            if known is None or new is None:
                return known if new is None else min(new, MOST_MS)
            return known + (min(new, MOST_MS) - known) * part_ms // AVERAGED_MS

        commit_ms = majority_lag_ms(sample.lag_ms for sample in samples.values())
        is_in_sync = commit_ms is None or commit_ms <= MOST_MS
        self.commit_ms = average(self.commit_ms, commit_ms) if is_in_sync else None
        self.answer_ms = average(self.answer_ms, poll.answer_ms)
        lags = {str(key): average(self.lags_ms.get(str(key)), sample.lag_ms) for key, sample in samples.items()}
        self.lags_ms = {key: lag for key, lag in lags.items() if lag is not None}

    def seen(self) -> CommitWait | None:
        """Returns what the rules see of it; None while nothing is known."""
        if self.commit_ms is None:
            return None
        return CommitWait(
            average_ms=_rounded_down(self.commit_ms),
            answer_ms=None if self.answer_ms is None else _rounded_down(self.answer_ms),
            lags_ms={key: _rounded_down(lag) for key, lag in sorted(self.lags_ms.items())},
        )


def _rounded_down(ms: int) -> Millis:
    return Millis(ms // STEP_MS * STEP_MS)
