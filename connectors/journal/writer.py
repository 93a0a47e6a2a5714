"""JournalWriter: the only writer of a journal."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from connectors.durable_file import sync_directory
from connectors.errors import JournalError
from connectors.journal import frame, lock, position_file, recovery, retention, segment
from connectors.journal.follow_progress import FollowProgress, advance
from connectors.journal.position_file import JournalPosition
from connectors.journal.reader import LOCK, PUBLISHED, RESTART, committed_sequence
from connectors.journal.recovery import RecoveredJournal
from connectors.journal.retention import SealedSegment
from connectors.observation import Observation

_LOG = logging.getLogger(__name__)
_SPILL_BYTES = 4 * 1024 * 1024
_RETENTION_EVERY_MS = 10_000
_DAY_S = 86_400.0


class JournalWriter:
    """Appends observations and publishes them. A context manager: it holds the journal's lock while it is open.

    After a write error the writer is unusable: only recovery, at the next open, can find out what reached the disk.
    """

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = 16 * 1024 * 1024,
        keep_bytes: int = 1024 * 1024 * 1024,
        keep_s: float = 7 * _DAY_S,
        lock_timeout_s: float = 10.0,
    ) -> None:
        """Touches no file before the context is entered.

        Args:
            directory: the journal's folder; created if missing.
            segment_bytes: a segment of this size is sealed and a new one begun.
            keep_bytes: while the journal is larger, committed segments are deleted, oldest first.
            keep_s: committed segments whose newest row is older (by the rows' clock) are deleted.
            lock_timeout_s: how long to wait for the lock.
        """
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._keep_bytes = keep_bytes
        self._keep_ms = round(keep_s * 1000)
        self._lock_timeout_s = lock_timeout_s
        self._lock: int | None = None
        self._file: int | None = None
        self._failed = False
        self._buffer = bytearray()
        self._held_back = False
        self._retention_at_ms = 0
        self._newest_at_ms = 0
        self._indexed_at = 0

    def __enter__(self) -> Self:
        """Takes the lock and recovers the journal.

        Raises:
            JournalInUseError: another process holds the lock.
            JournalError: the journal is damaged below the published sequence, or cannot be written.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = lock.acquire(self._directory / LOCK, self._lock_timeout_s)
            recovered = recovery.recover(self._directory)
            self._continue_from(recovered)
        except OSError as error:
            self._release()
            raise self._unwritable(error) from error
        except BaseException:
            self._release()
            raise
        if recovered.torn_bytes:
            _LOG.warning(
                "The journal %s ended with %d bytes of an incomplete row that was never published; they were cut off.",
                self._directory,
                recovered.torn_bytes,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Publishes the appended rows, unless an exception is propagating, and releases the lock."""
        try:
            if kind is None and not self._failed:
                self.publish()
        finally:
            self._release()

    @property
    def journal_id(self) -> str:
        """As `JournalReader.journal_id`."""
        return self._journal_id

    @property
    def published_end(self) -> int:
        """As `JournalReader.published_end()`: compare it with the checkpoint's offset before the first append."""
        return self._published

    def follow_progress(self, cluster: str) -> FollowProgress | None:
        """Returns where to continue following a cluster; None if no row of it was ever recorded."""
        return self._positions.get(cluster)

    def append(self, observations: Sequence[Observation]) -> None:
        """Gives each row its sequence and appends it. Readers do not see it before `publish`.

        Raises:
            JournalError: the rows cannot be written; the writer is now unusable.
            ValueError: a row is too large for a frame; no row was appended.
        """
        self._require_usable()
        rows = [replace(row, sequence=self._next + at) for at, row in enumerate(observations)]
        frames = [frame.encode(row) for row in rows]
        for row, encoded in zip(rows, frames, strict=True):
            self._index(row.sequence)
            self._buffer += encoded
            self._positions[row.cluster] = advance(self._positions.get(row.cluster), row)
            self._newest_at_ms = max(self._newest_at_ms, row.observed_at_ms)
        self._next += len(rows)
        if len(self._buffer) >= _SPILL_BYTES:
            self._write_or_fail(self._spill)

    def publish(self) -> int:
        """Syncs every appended row to disk, then publishes them to the readers.

        Returns:
            The sequence after the last row.

        Raises:
            JournalError: the rows cannot be written; the writer is now unusable.
        """
        self._require_usable()
        if self._next > self._published:
            self._write_or_fail(self._publish)
        return self._published

    def read_logs_again(self, *, now_ms: int | None = None) -> int:
        """Forgets how far each cluster's log is recorded: followers read it from the start.

        With `now_ms`, the wall clock, later rows may be as early as that: the time of former ones was wrong.

        The position is kept in the file `restart`: without older rows, everything that is to be known about a cluster
        follows it.

        Returns:
            The sequence of the next row.

        Raises:
            JournalError: the journal cannot be written; the writer is now unusable.
        """
        self.publish()
        self._write_or_fail(lambda: self._forget_positions(now_ms))
        return self._next

    def _forget_positions(self, now_ms: int | None) -> None:
        for cluster, position in list(self._positions.items()):
            newest_ms = position.observed_at_ms
            self._positions[cluster] = FollowProgress(
                observed_at_ms=newest_ms if now_ms is None else min(newest_ms, now_ms)
            )
        self._roll()
        restart = JournalPosition(journal_id=self._journal_id, sequence=self._next)
        position_file.write(self._directory / RESTART, restart, sync=True)
        sync_directory(self._directory)

    def _publish(self) -> None:
        self._spill()
        os.fdatasync(self._open_file())
        self._write_position()
        if self._position >= self._segment_bytes:
            self._roll()
        elif self._newest_at_ms - self._retention_at_ms >= _RETENTION_EVERY_MS:
            self._delete_old()

    def _spill(self) -> None:
        left = memoryview(self._buffer)
        while left:
            left = left[os.write(self._open_file(), left) :]
        left.release()
        self._position += len(self._buffer)
        self._buffer = bytearray()

    def _write_position(self, *, sync: bool = False) -> None:
        # Not synced: if a power failure loses the position, recovery finds the rows themselves, which are synced.
        position_file.write(
            self._directory / PUBLISHED,
            JournalPosition(journal_id=self._journal_id, sequence=self._next),
            sync=sync,
        )
        self._published = self._next

    def _index(self, sequence: int) -> None:
        at = self._position + len(self._buffer)
        if at - self._indexed_at >= segment.INDEX_EVERY_BYTES:
            segment.add_to_index(segment.segment_path(self._directory, self._first), sequence, at)
            self._indexed_at = at

    def _roll(self) -> None:
        """Begins a new segment. All rows of the segment before are published, so it never changes again."""
        self._write_position(sync=True)
        header = segment.create(self._directory, self._journal_id, self._next, self._positions)
        if self._next > self._first:
            self._sealed.append(
                SealedSegment(
                    first=self._first, end=self._next, size_bytes=self._position, newest_at_ms=self._newest_at_ms
                )
            )
        self._open(header.first, header.rows_at)
        self._delete_old()

    def _delete_old(self) -> None:
        self._retention_at_ms = self._newest_at_ms
        decision = retention.decide(
            self._sealed,
            active_bytes=self._position,
            committed=committed_sequence(self._directory, self._journal_id),
            keep_bytes=self._keep_bytes,
            keep_from_ms=self._newest_at_ms - self._keep_ms,
        )
        for old in decision.delete:
            segment.delete(self._directory, old.first)
        del self._sealed[: len(decision.delete)]
        if decision.held_back and not self._held_back:
            _LOG.warning(
                "The journal %s is larger or older than its retention limits (%d bytes): its reader has not committed "
                "row %d, and uncommitted rows are not deleted.",
                self._directory,
                self._keep_bytes,
                decision.held_back.first,
            )
        self._held_back = decision.held_back is not None

    def _continue_from(self, recovered: RecoveredJournal) -> None:
        self._journal_id: str = recovered.journal_id
        self._sealed: list[SealedSegment] = list(recovered.sealed)
        self._positions = dict(recovered.positions)
        self._next: int = recovered.end
        self._published = recovered.end
        self._newest_at_ms = max((position.observed_at_ms for position in self._positions.values()), default=0)
        self._open(recovered.first, recovered.position)
        self._indexed_at = recovered.indexed_at
        self._delete_old()

    def _open(self, first: int, position: int) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = os.open(segment.segment_path(self._directory, first), os.O_WRONLY | os.O_APPEND)
        self._first, self._position, self._indexed_at = first, position, position

    def _open_file(self) -> int:
        assert self._file is not None, "the writer is used inside its context"
        return self._file

    def _require_usable(self) -> None:
        if self._file is None or self._failed:
            raise JournalError(
                f"The writer of the journal {self._directory} is closed or has failed: open the journal again."
            )

    def _write_or_fail(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            # After a failed write or sync the file's content is unknown; recovery finds it out.
            self._failed = True
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> JournalError:
        return JournalError(f"The journal {self._directory} cannot be written: {error.strerror}; fix that and restart.")

    def _release(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None
