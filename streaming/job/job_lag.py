"""JobLag: logs that the job evaluates observations later than they are made, and what it then needs."""

import logging
from typing import Final

from connectors.wall_clock import steady_ms
from rules.formatting import ms_text
from rules.model.identifiers import Millis

BEHIND_MS: Final = 10_000
"""An observation that is evaluated so late is not current any more (`rules.analysis.freshness`)."""
LASTS_MS: Final = 60_000
"""How long every batch must have been so late: after a start, the job catches up with the rows before it."""
_LOG_EVERY_MS: Final = 600_000
_LOG = logging.getLogger(__name__)


class JobLag:
    """Compares the time of the newest observation in each batch with the time of its evaluation."""

    def __init__(self) -> None:
        self._since_ms: Millis | None = None
        self._logged_ms: Millis | None = None

    def batch_delivered(self, newest_ms: int, *, now_ms: int, at_ms: Millis | None = None) -> None:
        """Logs when batches have been late for a time, and every 10 minutes while they are.

        Args:
            newest_ms: the time of the newest observation in the batch.
            now_ms: the wall clock.
            at_ms: the monotonic clock; None: now.
        """
        at_ms = steady_ms() if at_ms is None else at_ms
        late_ms = now_ms - newest_ms
        if late_ms < BEHIND_MS:
            self._since_ms = None
            return
        if self._since_ms is None:
            self._since_ms = at_ms
        logged_lately = self._logged_ms is not None and at_ms - self._logged_ms < _LOG_EVERY_MS
        if at_ms - self._since_ms >= LASTS_MS and not logged_lately:
            self._logged_ms = at_ms
            _LOG.warning(
                "The job is behind: it evaluates observations %s after they were made. It needs more executors or "
                "cores (`master`), and as many `pipeline.partitions`.",
                ms_text(Millis(late_ms)),
            )
