"""A SnapshotWriter: a controller's snapshots of the metadata, one every half minute (KIP-630)."""

from dataclasses import dataclass

from tests.simulation.metadata_log import MetadataLog

INTERVAL_MS = 30_000
NEWEST_MS = 15_000
"""A snapshot is due with a new record: it contains none that is much older than the leaders' clocks differ."""


@dataclass(slots=True)
class SnapshotWriter:
    """The newest snapshot contains the records below `end_offset`."""

    end_offset: int = 0
    written_ms: int = 0
    fails: bool = False

    def write_if_due(self, now_ms: int, log: MetadataLog, high_watermark: int) -> None:
        """Writes a snapshot of the committed records after the interval."""
        if self.fails or now_ms - self.written_ms < INTERVAL_MS:
            return
        end = log.stable_end(high_watermark)
        if end > self.end_offset and now_ms - log.entries[end - 1].timestamp_ms < NEWEST_MS:
            self.end_offset, self.written_ms = end, now_ms

    def newest_end(self, log: MetadataLog) -> int:
        """Returns the end offset of the newest snapshot, also of one that was fetched from a leader."""
        return min(max(self.end_offset, log.start), len(log))
