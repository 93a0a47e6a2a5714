"""The recorder: the one writer of a journal."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from connectors.errors import JournalError
from connectors.journal import frame, lock, position_file, recovery, retention, segment
from connectors.journal.follow_position import Progress, advance
from connectors.journal.position_file import Mark
from connectors.journal.reader import LOCK, PUBLISHED, committed
from connectors.journal.recovery import Recovered
from connectors.journal.retention import Sealed
from connectors.observation import Observation

_LOG = logging.getLogger(__name__)
_SPILL_BYTES = 4 * 1024 * 1024
_RETENTION_EVERY_MS = 10_000
_DAY_S = 86_400.0


class Recorder:
    """Appends observations and publishes them. A context manager: holds the journal's lock while it is open.

    An error while writing leaves it unusable: what reached the disk is only known by opening the journal again.
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
        """Nothing is touched before the context is entered.

        Args:
            directory: the journal's folder; made if it is not there.
            segment_bytes: a segment this large is followed by a new one.
            keep_bytes: committed segments are deleted, oldest first, while the journal is larger.
            keep_s: committed segments whose newest row is older (by the rows' clock) are deleted.
            lock_timeout_s: how long to try for the lock.
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
        """Take the lock and recover what a crash left.

        Raises:
            JournalInUseError: another process holds the lock.
            JournalError: the journal is damaged below what was published, or cannot be written.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = lock.acquire(self._directory / LOCK, self._lock_timeout_s)
            recovered = recovery.recover(self._directory)
            self._take(recovered)
        except OSError as error:
            self._release()
            raise self._unwritable(error) from error
        except BaseException:
            self._release()
            raise
        if recovered.torn_bytes:
            _LOG.warning(
                "The journal %s ended in %d bytes of an unfinished row that was never published; they were cut off.",
                self._directory,
                recovered.torn_bytes,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Publish what was appended, unless an error is on its way, and give the lock back."""
        try:
            if kind is None and not self._failed:
                self.publish()
        finally:
            self._release()

    @property
    def journal_id(self) -> str:
        """As `Journal.journal_id`."""
        return self._journal_id

    @property
    def published(self) -> int:
        """As `Journal.published()`: compare it with the checkpoint's offset before appending anything."""
        return self._published

    def last(self, cluster: str) -> Progress | None:
        """Where to go on following a cluster; None if no row of it was ever recorded."""
        return self._progress.get(cluster)

    def append(self, observations: Sequence[Observation]) -> None:
        """Give each row its sequence and take it in; nobody sees it before `publish`.

        Raises:
            JournalError: it cannot be written; the recorder is unusable from here on.
            ValueError: a row is larger than a frame may be; none of them was taken.
        """
        self._require_usable()
        rows = [replace(row, sequence=self._next + at) for at, row in enumerate(observations)]
        frames = [frame.encode(row) for row in rows]
        for row, encoded in zip(rows, frames, strict=True):
            self._index(row.sequence)
            self._buffer += encoded
            self._progress[row.cluster] = advance(self._progress.get(row.cluster), row)
            self._newest_at_ms = max(self._newest_at_ms, row.observed_at_ms)
        self._next += len(rows)
        if len(self._buffer) >= _SPILL_BYTES:
            self._writing(self._spill)

    def publish(self) -> int:
        """Put everything appended on the disk, then show it to the readers; the sequence after the last row.

        Raises:
            JournalError: it cannot be written; the recorder is unusable from here on.
        """
        self._require_usable()
        if self._next > self._published:
            self._writing(self._publish)
        return self._published

    def _publish(self) -> None:
        self._spill()
        os.fdatasync(self._open_file())
        self._mark()
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

    def _mark(self, *, sync: bool = False) -> None:
        # Unsynced: should a power cut take the mark, recovery finds the rows themselves, which are synced.
        position_file.write(
            self._directory / PUBLISHED,
            Mark(journal_id=self._journal_id, sequence=self._next),
            sync=sync,
        )
        self._published = self._next

    def _index(self, sequence: int) -> None:
        at = self._position + len(self._buffer)
        if at - self._indexed_at >= segment.INDEX_EVERY_BYTES:
            segment.add_to_index(segment.path_of(self._directory, self._first), sequence, at)
            self._indexed_at = at

    def _roll(self) -> None:
        """Begin a new segment. Everything in the one before is published: it never changes again."""
        self._mark(sync=True)
        header = segment.create(self._directory, self._journal_id, self._next, self._progress)
        self._sealed.append(
            Sealed(first=self._first, end=self._next, size_bytes=self._position, newest_at_ms=self._newest_at_ms)
        )
        self._open(header.first, header.rows_at)
        self._delete_old()

    def _delete_old(self) -> None:
        self._retention_at_ms = self._newest_at_ms
        verdict = retention.evaluate(
            self._sealed,
            active_bytes=self._position,
            committed=committed(self._directory, self._journal_id),
            keep_bytes=self._keep_bytes,
            keep_from_ms=self._newest_at_ms - self._keep_ms,
        )
        for old in verdict.delete:
            segment.delete(self._directory, old.first)
        del self._sealed[: len(verdict.delete)]
        if verdict.held_back and not self._held_back:
            _LOG.warning(
                "The journal %s holds more than it should (%d bytes in all may stay): its reader is behind row %d, "
                "and nothing is deleted before it is read.",
                self._directory,
                self._keep_bytes,
                verdict.held_back.first,
            )
        self._held_back = verdict.held_back is not None

    def _take(self, recovered: Recovered) -> None:
        self._journal_id = recovered.journal_id
        self._sealed = list(recovered.sealed)
        self._progress = dict(recovered.progress)
        self._next = recovered.end
        self._published = recovered.end
        self._newest_at_ms = max((of.observed_at_ms for of in self._progress.values()), default=0)
        self._open(recovered.first, recovered.position)
        self._indexed_at = recovered.indexed_at
        self._delete_old()

    def _open(self, first: int, position: int) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = os.open(segment.path_of(self._directory, first), os.O_WRONLY | os.O_APPEND)
        self._first, self._position, self._indexed_at = first, position, position

    def _open_file(self) -> int:
        assert self._file is not None, "the recorder is used inside its context"
        return self._file

    def _require_usable(self) -> None:
        if self._file is None or self._failed:
            raise JournalError(f"The recorder of {self._directory} is closed or has failed: open the journal again.")

    def _writing(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            # After a failed write or sync nobody knows what is on the disk; recovery finds out.
            self._failed = True
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> JournalError:
        return JournalError(
            f"The journal {self._directory} cannot be written: {error.strerror}; mend that and start again."
        )

    def _release(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None
