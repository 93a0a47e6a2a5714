"""JournalRows: a journal's rows for the understudy, from the newest snapshot of each cluster on."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from connectors.errors import KraftwatchError
from connectors.observations.observation import Observation
from connectors.store.journal_reader import JournalReader, JournalSnapshot
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings

_ROWS: Final = 2_000
"""Most rows that are read at once."""
_BYTES: Final = 16 * 1024 * 1024
"""Of their payloads, about."""


class JournalRows:
    """Implements `UnderstudyRows`."""

    topics: None = None

    def __init__(
        self, journal: JournalReader, settings: Mapping[str, ClusterSettings], unwritten: deque[Observation]
    ) -> None:
        """`unwritten` gets, from another thread, the rows that a full disk does not take."""
        self._journal, self._settings, self._unwritten = journal, settings, unwritten
        self._past: Iterator[Observation] = iter(())
        """The rows from the snapshots up to where the journal ended then."""
        self._position = 0
        self.at_end = False

    def begin(self) -> Mapping[str, bytes]:
        """As `UnderstudyRows.begin`; one that cannot be used is left out, and the one before it is used."""
        found = {name: self._snapshot(name) for name in self._settings}
        beginning, self._position = self._journal.beginning(), self._journal.published_end()
        starts = {name: beginning if one is None else one.sequence + 1 for name, one in found.items()}
        self._past = self._journal.read_from(starts, self._position)
        self.at_end = False
        return {name: one.state for name, one in found.items() if one is not None}

    def _snapshot(self, name: str) -> JournalSnapshot | None:
        for snapshot in self._journal.snapshots(name):
            try:
                monitor = ClusterMonitor.restored(snapshot.state, self._settings[name])
            except KraftwatchError:
                continue
            # A past one may have been stored without its conditions.
            if monitor.tracked.now_ms:
                return snapshot
        return None

    def read(self, timeout_s: float) -> Sequence[Observation]:
        """As `UnderstudyRows.read`."""
        rows = _some(self._past)
        if not rows:
            published = self._journal.wait_beyond(self._position, timeout_s)
            rows = _some(self._journal.read(self._position, published))
            self._position += len(rows)
            self.at_end = self._position == published
        while self._unwritten:
            rows.append(self._unwritten.popleft())
        return rows

    def close(self) -> None:
        """As `UnderstudyRows.close`."""
        self._past = iter(())


def _some(rows: Iterator[Observation]) -> list[Observation]:
    """Returns the next rows, so few that they fit into memory."""
    found: list[Observation] = []
    size = 0
    for row in islice(rows, _ROWS):
        found.append(row)
        size += len(row.payload)
        if size >= _BYTES:
            break
    return found
