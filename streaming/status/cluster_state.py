"""A glimpse: one cluster at one moment, what the rules say of it, and how much of it was really seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rules.finding import Evaluation, Thresholds
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.status.from_log_dir import Disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """One cluster at one moment, and what the rules say of it."""

    quorum: Quorum
    evaluation: Evaluation
    thresholds: Mapping[str, Thresholds] = field(repr=False)
    taken_at_ms: Millis
    """The wall clock when it was taken."""
    looked_since_ms: Millis | None
    """Since when somebody looked; None for a recorded state alone."""
    recorded_at_ms: Millis | None
    """The newest recorded row's; None where no journal was read."""
    missing: tuple[str, ...]
    """What was wished for and did not come, in words."""
    disk: Disk | None = None
    """The log directory that was read instead of asking anybody."""

    @property
    def answered(self) -> bool:
        """A leader answered while we looked: what is shown is so now."""
        since, quorum = self.looked_since_ms, self.quorum
        seen = (quorum.log_seen_at_ms, quorum.poll.observed_at_ms if quorum.poll else None)
        return since is not None and any(at is not None and at >= since for at in seen)

    @property
    def source(self) -> str:
        """`live`; `journal` or `log-dir` (recorded: no leader answered, or nobody was asked); or `none`."""
        if self.answered:
            return "live"
        if self.disk is not None:
            return "log-dir"
        return "none" if self.recorded_at_ms is None else "journal"

    @property
    def age_ms(self) -> Millis:
        """How old what is shown is: 0 for what was just seen."""
        if self.answered or self.recorded_at_ms is None:
            return Millis(0)
        return Millis(max(0, self.taken_at_ms - self.recorded_at_ms))
