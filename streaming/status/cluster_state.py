"""One cluster at one time: its quorum, the evaluation of it, and how much of it was observed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rules.finding import Evaluation, Thresholds
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.status.cluster_status import StatusSource
from streaming.status.from_log_dir import LogDirContents


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A quorum and its evaluation: `build_status.cluster_status` makes a `ClusterStatus` from it."""

    quorum: Quorum
    evaluation: Evaluation
    thresholds: Mapping[str, Thresholds] = field(repr=False)
    """By rule id."""
    taken_at_ms: Millis
    """When the state was taken, by the wall clock."""
    queried_since_ms: Millis | None
    """When the query of the cluster began; None for a recorded state."""
    recorded_at_ms: Millis | None
    """Time of the newest recorded row; None where no journal was read."""
    missing: tuple[str, ...]
    """Data that was requested and did not arrive, as text."""
    log_dir: LogDirContents | None = None
    """The log directory that was read; None where a cluster was queried or a journal was read."""

    @property
    def answered(self) -> bool:
        """Whether a leader answered the log or DescribeQuorum since the query began."""
        since, quorum = self.queried_since_ms, self.quorum
        answers = (quorum.log_seen_at_ms, quorum.poll.observed_at_ms if quorum.poll else None)
        return since is not None and any(at is not None and at >= since for at in answers)

    @property
    def source(self) -> StatusSource:
        """Where the state comes from."""
        if self.answered:
            return StatusSource.LIVE
        if self.log_dir is not None:
            return StatusSource.LOG_DIR
        return StatusSource.NONE if self.recorded_at_ms is None else StatusSource.JOURNAL

    @property
    def age_ms(self) -> Millis:
        """Age of the state; 0 for a live one."""
        if self.answered or self.recorded_at_ms is None:
            return Millis(0)
        return Millis(max(0, self.taken_at_ms - self.recorded_at_ms))
