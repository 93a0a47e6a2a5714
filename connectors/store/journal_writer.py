"""JournalWriter: the only writer of a journal."""

import logging
import os
import secrets
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from connectors.errors import JournalError, JournalInUseError, UnwritableJournalError
from connectors.observations.observation import Observation, ObservationKind, to_json
from connectors.store import journal_file, sqlite_file
from connectors.store.durable_file import lock
from connectors.store.follow_progress import FOLLOW_PROGRESS, FollowProgress, advance, new_progress
from connectors.store.journal_file import (
    END,
    INSERT,
    ROW_BYTES,
    SAVE_ENDPOINTS,
    SAVE_PROGRESS,
    errors,
    used_bytes,
    values,
)
from rules.model.monitoring import FailedObservation, ObservationSource, Reason

LOCK = "lock"
_LOG = logging.getLogger(__name__)
_RETENTION_EVERY_MS = 10_000
_DELETED_AT_ONCE = 10_000
"""Rows: more would delay what is published meanwhile. If more are due, the next ones follow after a second."""
_RETENTION_SOON_MS = 1_000
_LOG_BYTES = 64 * 1024 * 1024
"""The write-ahead log is cut to this size after a large transaction."""
_DAY_S = 86_400.0
_SHARES: Final = 1.25
"""A cluster may take so many times its equal share of a full journal before its rows are emptied."""
_EMPTIED_FROM_BYTES: Final = 1_024
"""Smaller rows are not emptied."""
_EMPTIED: Final = to_json(
    FailedObservation(
        source=ObservationSource.LOG,
        endpoint="",
        reason=Reason.RECORDS_MISSING,
        detail="deleted from the journal, of which this cluster took more than its share",
    )
)


class JournalWriter:
    """Appends observations and publishes them. A context manager: it holds the journal's lock while it is open.

    Each method raises JournalError if the journal cannot be written. The writer is then unusable: it is opened again.
    Only after an UnwritableJournalError it goes on: the appended rows are kept, and the next `publish` stores them.
    """

    def __init__(
        self,
        directory: Path,
        *,
        keep_bytes: int = 1024 * 1024 * 1024,
        keep_s: float = 7 * _DAY_S,
        lock_timeout_s: float = 10.0,
    ) -> None:
        """Touches no file before the context is entered.

        `keep_bytes`: while the journal's rows take more, committed ones are deleted, oldest first; `keep_s`: committed
        rows that are older (by the rows' clock) are deleted.
        """
        self._directory = directory
        self._path = journal_file.journal_file(directory)
        self._keep_bytes = keep_bytes
        self._keep_ms = round(keep_s * 1000)
        self._lock_timeout_s = lock_timeout_s
        self._lock: int | None = None
        self._database: sqlite3.Connection | None = None
        self._appended: list[Observation] = []
        self._changed: set[str] = set()
        """Clusters whose progress is not stored yet."""
        self._unwritten = False
        """The disk did not take the newest transaction."""
        self._held_back = False
        self._retention_at_ms = self._newest_at_ms = 0
        self._positions: dict[str, FollowProgress] = {}
        self._endpoints: dict[str, str] = {}
        self._new_endpoints: dict[str, str] = {}
        self._emptied_to: dict[str, int] = {}
        """By cluster: rows below this sequence need not be looked at to be emptied."""
        self.journal_id = ""
        """As `JournalReader.journal_id`."""
        self.published_end = 0
        """As `JournalReader.published_end()`: compare it with the checkpoint's offset before the first append."""

    def __enter__(self) -> Self:
        """Takes the lock and opens the journal; creates it if there is none.

        Raises JournalInUseError if another process holds the lock, OtherJournalError if the journal is of another
        version, JournalError if it is damaged, or cannot be written.
        """
        try:
            with errors(self._path):
                self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._lock = _acquire(self._directory / LOCK, self._lock_timeout_s)
                if not self._path.exists():
                    journal_file.create(self._path, secrets.token_hex(16))
                self._database = sqlite_file.connect(self._path)
                if 0 < journal_file.require_version(self._database, self._path) < journal_file.VERSION:
                    self._database.execute(journal_file.SET_VERSION)
                self._database.execute(journal_file.SNAPSHOTS)
                self._database.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
                self._load(self._database)
            self._delete_old()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Publishes the appended rows, unless an exception is propagating, and releases the lock."""
        try:
            if kind is None and self._database is not None:
                self.publish()
        finally:
            self._release()

    def endpoints(self, cluster: str) -> str | None:
        """Returns a cluster's endpoints as they were noted; None if they never were."""
        return self._endpoints.get(cluster)

    def follow_progress(self, cluster: str) -> FollowProgress | None:
        """Returns where to continue following a cluster; None if no row of it was ever recorded."""
        return self._positions.get(cluster)

    def append(self, observations: Sequence[Observation]) -> None:
        """Gives each row its sequence. It is neither stored nor read by others before `publish`."""
        if not self._unwritten:
            self._usable()
        for row in observations:
            self._appended.append(replace(row, sequence=self.published_end + len(self._appended)))
            self._positions[row.cluster] = advance(self._positions.get(row.cluster), row)
            self._changed.add(row.cluster)
            self._newest_at_ms = max(self._newest_at_ms, row.observed_at_ms)

    def unpublished(self, from_sequence: int) -> Sequence[Observation]:
        """Returns the appended rows from this sequence on that are not stored yet."""
        return self._appended[max(0, from_sequence - self.published_end) :]

    def note_endpoints(self, endpoints: Mapping[str, str]) -> None:
        """Takes each cluster's endpoints; what has changed is stored with the next rows, which may contain them."""
        changed = {cluster: text for cluster, text in endpoints.items() if self._endpoints.get(cluster) != text}
        self._endpoints |= changed
        self._new_endpoints |= changed

    def publish(self) -> int:
        """Stores the appended rows in one transaction, synced to the disk: then readers see them.

        Returns:
            The sequence after the last row.
        """
        self._usable()
        if self._appended:
            with self._transaction() as database:
                database.executemany(INSERT, map(values, self._appended))
                self._save_progress(database)
            self.published_end += len(self._appended)
            self._appended.clear()
            if self._newest_at_ms - self._retention_at_ms >= _RETENTION_EVERY_MS:
                self._delete_old()
        return self.published_end

    def read_logs_again(self, *, now_ms: int | None = None) -> int:
        """Forgets how far each cluster's log is recorded: followers read it from the start.

        With `now_ms`, the wall clock, later rows may be as early as that: the time of former ones was wrong.

        The position is stored: without older rows, everything that is to be known about a cluster follows it.

        Returns:
            The sequence of the next row.
        """
        self.publish()
        self._forget_progress({*self._positions}, now_ms)
        with self._transaction() as database:
            self._save_progress(database)
            database.execute("UPDATE journal SET restarted_at = ?", (self.published_end,))
        return self.published_end

    def read_log_again(self, cluster: str) -> None:
        """Forgets how far a cluster's log is recorded; stored with the next rows, which must say that it is read again.

        Raises:
            KeyError: no row of it was ever recorded.
        """
        self._forget_progress({cluster})

    def keep_progress_of(self, clusters: Collection[str]) -> None:
        """Forgets how far the logs of all other clusters are recorded.

        Readers pass over the rows of a cluster that is no longer configured, also those from before: if it is added
        again, what they lack is in its log only.
        """
        self._forget_progress(self._positions.keys() - clusters)
        with self._transaction() as database:
            self._save_progress(database)

    def _forget_progress(self, clusters: Collection[str], now_ms: int | None = None) -> None:
        for cluster in clusters:
            before = self._positions[cluster]
            newest_ms = before.observed_at_ms
            self._positions[cluster] = replace(
                new_progress(newest_ms if now_ms is None else min(newest_ms, now_ms)),
                kept_bytes=before.kept_bytes,
                emptied_end=before.emptied_end,
            )
        self._changed.update(clusters)

    def _load(self, database: sqlite3.Connection) -> None:
        self.journal_id, self.published_end = database.execute(f"SELECT id, {END} FROM journal").fetchone()
        stored = database.execute("SELECT cluster, progress FROM progress")
        self._positions = {cluster: FOLLOW_PROGRESS.validate_json(text) for cluster, text in stored}
        self._endpoints = dict(database.execute("SELECT cluster, endpoints FROM endpoints"))
        self._newest_at_ms = max((position.observed_at_ms for position in self._positions.values()), default=0)

    def _save_progress(self, database: sqlite3.Connection) -> None:
        changed = [(cluster, FOLLOW_PROGRESS.dump_json(self._positions[cluster]).decode()) for cluster in self._changed]
        database.executemany(SAVE_PROGRESS, changed)
        database.executemany(SAVE_ENDPOINTS, self._new_endpoints.items())
        self._changed.clear()
        self._new_endpoints.clear()

    def _delete_old(self) -> None:
        """Deletes committed rows, oldest first, while the journal is too large or they are too old.

        While a cluster takes more than its share, its rows are emptied instead: so one cluster whose controller writes
        without end does not delete the history of all others.
        """
        self._retention_at_ms = self._newest_at_ms
        held_back = False
        with self._transaction() as database:
            excess_bytes = used_bytes(database) - self._keep_bytes
            first, committed = database.execute("SELECT first, committed FROM journal").fetchone()
            if excess_bytes > 0:
                excess_bytes -= self._empty_largest(database, excess_bytes, committed)
            query = "SELECT observed_at_ms, length(payload), cluster FROM observations ORDER BY sequence LIMIT ?"
            kept_from, released = first, Counter[str]()
            with closing(database.execute(query, (_DELETED_AT_ONCE,))) as oldest:
                for observed_at_ms, size, cluster in oldest:
                    if excess_bytes <= 0 and observed_at_ms >= self._newest_at_ms - self._keep_ms:
                        break
                    if kept_from >= committed:
                        held_back = True
                        break
                    kept_from += 1
                    excess_bytes -= size + ROW_BYTES
                    released[cluster] += size + ROW_BYTES
            if kept_from - first == _DELETED_AT_ONCE:
                self._retention_at_ms -= _RETENTION_EVERY_MS - _RETENTION_SOON_MS
            if kept_from > first:
                database.execute("DELETE FROM observations WHERE sequence < ?", (kept_from,))
                database.execute("UPDATE journal SET first = ?", (kept_from,))
                # The rows after the others are not all kept.
                database.execute("DELETE FROM snapshots WHERE sequence < ?", (kept_from - 1,))
            for cluster, size in released.items():
                self._released(cluster, size)
            self._save_progress(database)
        if held_back and not self._held_back:
            _LOG.warning(
                "The journal %s is larger or older than its retention limits (%d bytes): its reader has not committed "
                "row %d, and uncommitted rows are not deleted.",
                self._directory,
                self._keep_bytes,
                kept_from,
            )
        self._held_back = held_back

    def _empty_largest(self, database: sqlite3.Connection, excess_bytes: int, committed: int) -> int:
        """Empties the oldest large rows of the cluster that takes most, if it takes more than its share.

        The rows stay, so that the numbers of rows have no gap. Returns the bytes that are free then.
        """
        if len(self._positions) < 2:
            return 0
        cluster, largest = max(self._positions.items(), key=lambda one: one[1].kept_bytes)
        if largest.kept_bytes * len(self._positions) <= _SHARES * self._keep_bytes:
            return 0
        start = self._emptied_to.get(cluster, 0)
        query = (
            "SELECT sequence, observed_at_ms, length(payload) FROM observations "
            "WHERE sequence >= ? AND sequence < ? AND cluster = ? "
            f"AND length(payload) > {_EMPTIED_FROM_BYTES} ORDER BY sequence LIMIT ?"
        )
        free, emptied = 0, list[Observation]()
        with closing(database.execute(query, (start, committed, cluster, _DELETED_AT_ONCE))) as rows:
            for sequence, observed_at_ms, size in rows:
                if free >= excess_bytes:
                    break
                emptied.append(
                    Observation(
                        cluster=cluster,
                        kind=ObservationKind.FAILED,
                        observed_at_ms=observed_at_ms,
                        payload=_EMPTIED,
                        sequence=sequence,
                    )
                )
                free += size - len(_EMPTIED)
        self._emptied_to[cluster] = emptied[-1].sequence + 1 if emptied else committed
        if emptied:
            # Deleted first: a row that is made smaller keeps a page of its own.
            database.executemany("DELETE FROM observations WHERE sequence = ?", ((row.sequence,) for row in emptied))
            database.executemany(INSERT, map(values, emptied))
            self._positions[cluster] = replace(self._positions[cluster], emptied_end=emptied[-1].sequence + 1)
            self._released(cluster, free)
        return free

    def _released(self, cluster: str, size: int) -> None:
        before = self._positions.get(cluster)
        if before is not None:
            self._positions[cluster] = replace(before, kept_bytes=max(0, before.kept_bytes - size))
            self._changed.add(cluster)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Begins a transaction, which is committed at the end; after an error the writer is closed."""
        database = self._usable()
        try:
            with errors(self._path):
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
        except BaseException as error:
            # SQLite takes the transaction back.
            self._database = None
            self._unwritten = isinstance(error, UnwritableJournalError)
            database.close()
            raise

    def _open_again(self) -> None:
        """Opens the journal after a transaction that the disk did not take: it may have taken effect all the same."""
        with errors(self._path), ExitStack() as opened:
            database = opened.enter_context(closing(sqlite_file.connect(self._path)))
            (end,) = database.execute(f"SELECT {END} FROM journal").fetchone()
            opened.pop_all()
        del self._appended[: end - self.published_end]
        self.published_end = end
        # What was to be stored with those rows.
        self._changed, self._new_endpoints = {*self._positions}, {**self._endpoints}
        self._database, self._unwritten = database, False

    def _usable(self) -> sqlite3.Connection:
        if self._unwritten:
            self._open_again()
        if self._database is None:
            raise JournalError(
                f"The writer of the journal {self._directory} is closed or has failed: open the journal again."
            )
        return self._database

    def _release(self) -> None:
        if self._database is not None:
            self._database.close()
        if self._lock is not None:
            os.close(self._lock)
        self._database = self._lock = None


def _acquire(path: Path, timeout_s: float) -> int:
    """Takes the lock; returns the file descriptor that holds it until it is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if not lock(descriptor, timeout_s):
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise JournalInUseError(
            f"The journal {path.parent} is still in use after {timeout_s:g} s by process {holder or '?'}: "
            f"stop that process, or use another checkpoint folder."
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    return descriptor
