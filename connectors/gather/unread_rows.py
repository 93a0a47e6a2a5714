"""UnreadRows: whether the job reads rows more slowly than they are made, and by how much to slow down.

Rows that wait are old when they are evaluated: then fewer of them are better. The polls of clusters that answer, and
the pauses of log followers, become up to MOST_SLOWDOWN times as long until the job has caught up. That is far below the
ages from which on an observation is not current any more (`rules.analysis.freshness`).
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from connectors.errors import JournalError
from connectors.journal.reader import JournalReader

_LOG = logging.getLogger(__name__)
MOST_SLOWDOWN: Final = 3
_MANY: Final = 10
"""Waiting rows a cluster from which on to slow down: three seconds of them. A micro-batch takes twelve at once."""
_FEW: Final = 4
_EVERY_S: Final = 3.0
_LOG_EVERY_S: Final = 600.0


def unread_rows_of(journal: Path) -> Callable[[], int]:
    """Returns a function that returns how many published rows the reader of a journal has not committed."""
    reader: JournalReader | None = None

    def unread() -> int:
        nonlocal reader
        reader = reader or JournalReader(journal)
        return reader.published_end() - reader.committed_end()

    return unread


class UnreadRows:
    """Call `update` after each publication."""

    def __init__(self, unread: Callable[[], int], *, clusters: int, now: Callable[[], float]) -> None:
        """Reads nothing yet.

        Args:
            unread: returns how many rows wait for the job; may raise a JournalError.
            clusters: how many clusters these rows are of.
            now: the clock, in seconds.
        """
        self._unread = unread
        self._clusters = max(1, clusters)
        self._now = now
        self._update_at = now() + _EVERY_S
        self._log_at = now()
        self.slowdown = 1
        """How many times as long as usual to wait between two observations of a cluster that is well."""

    def update(self) -> None:
        """Raises or lowers the slowdown by one step at most every few seconds."""
        if self._now() < self._update_at:
            return
        self._update_at = self._now() + _EVERY_S
        try:
            waiting = self._unread() / self._clusters
        except JournalError:
            # Nothing was published yet.
            return
        before = self.slowdown
        if waiting > _MANY:
            self.slowdown = min(before + 1, MOST_SLOWDOWN)
        elif waiting < _FEW:
            self.slowdown = max(before - 1, 1)
        if before == 1 < self.slowdown and self._now() >= self._log_at:
            self._log_at = self._now() + _LOG_EVERY_S
            _LOG.warning(
                "The job reads rows more slowly than %d clusters make them (%d rows wait for each): they are polled "
                "less often until it has caught up.",
                self._clusters,
                waiting,
            )
