"""JournalReader: reads published rows by sequence."""

import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.errors import JournalError
from connectors.observations.observation import Observation
from connectors.store.journal_file import (
    COLUMNS,
    EMPTIED_END,
    END,
    ROW_BYTES,
    damaged,
    journal_file,
    observation,
    opened,
    used_bytes,
)

_POLL_INTERVAL_S = 0.02
_LATEST_MS = 1 << 62
_ROWS_AT_ONCE = 1_000
_BYTES_AT_ONCE = 4 * 1024 * 1024
"""Of payload. Rows are read in short transactions: a long one would keep SQLite from reusing its write-ahead log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The rows that are wanted; None: any."""

    clusters: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    from_ms: int | None = None
    """When they were observed, both times included."""
    to_ms: int | None = None

    def condition(self) -> tuple[str, tuple[str | int, ...]]:
        """Returns an SQL condition that begins with AND, or nothing, and its values."""
        parts: list[str] = []
        values: list[str | int] = []
        for column, names in (("cluster", self.clusters), ("kind", self.kinds)):
            if names is not None:
                parts.append(f"AND {column} IN ({', '.join('?' * len(names))})")
                values += sorted(names)
        for compared, at_ms in ((">=", self.from_ms), ("<=", self.to_ms)):
            if at_ms is not None:
                parts.append(f"AND observed_at_ms {compared} ?")
                values.append(at_ms)
        return " ".join(parts), tuple(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSnapshot:
    """What a replay of all rows of a cluster up to one of them makes of them."""

    cluster: str
    sequence: int
    """The newest row in it."""
    observed_at_ms: int
    """The latest time of the rows in it."""
    state: bytes
    """As `streaming.replay.state_codec.snapshot_of` returns it."""


@dataclass(frozen=True, slots=True)
class JournalReader:
    """Reads published rows. It takes no lock and keeps no file open. It holds only the path, so it can be pickled.

    Each method raises JournalError if the journal cannot be read.
    """

    directory: Path

    @property
    def created(self) -> bool:
        """Whether a writer has created the journal. Before that, everything else raises JournalError."""
        try:
            return self._path.exists()
        except PermissionError:
            raise JournalError(f"{self.directory} cannot be read: permission denied; run as the job's user") from None

    @property
    def journal_id(self) -> str:
        """32 hex digits, random at creation. Positions of another journal have another id and are refused."""
        with self._reading() as connection:
            return str(_position(connection, "id", self._path))

    def published_end(self) -> int:
        """Returns the sequence after the last published row."""
        return self._number(END)

    def first_sequence(self) -> int:
        """Returns the sequence of the oldest row that is kept; of the next row if none is."""
        return self._number("first")

    def restarted_at(self) -> int | None:
        """Returns the sequence of the row from which on a repair had the logs read again; None if no repair had."""
        with self._reading() as connection:
            found = _position(connection, "restarted_at", self._path)
            return None if found is None else int(found)

    def beginning(self) -> int:
        """Returns the sequence from which on the rows hold everything about each cluster: its log from the start.

        It is the oldest row, or, after a repair, the row from which on the logs were read again.
        """
        return max(self.first_sequence(), self.restarted_at() or 0)

    @property
    def complete(self) -> bool:
        """Whether the rows from `beginning` on hold everything: retention has deleted or emptied none of them."""
        return max(self.first_sequence(), self._number(EMPTIED_END)) <= (self.restarted_at() or 0)

    def committed_end(self) -> int:
        """Returns the sequence below which all rows are committed; 0 if none is."""
        return self._number("committed")

    def endpoints(self) -> dict[str, str]:
        """Returns what the writer has stored of each cluster's endpoints, by cluster."""
        with self._reading() as connection:
            return dict(connection.execute("SELECT cluster, endpoints FROM endpoints"))

    def newest_times(self) -> dict[str, int]:
        """Returns the time of each cluster's newest row, also of one that is no longer kept."""
        with self._reading() as connection:
            return dict(connection.execute("SELECT cluster, json_extract(progress, '$.observed_at_ms') FROM progress"))

    def takes_more(self, start: int, size: int) -> bool:
        """Returns whether the rows from `start` on take more than `size` bytes, about."""
        query = f"SELECT coalesce(sum(length(payload) + {ROW_BYTES}), 0) FROM observations WHERE sequence >= ?"
        with self._reading() as connection:
            # The sum reads every page of these rows: not while the whole journal is smaller.
            return used_bytes(connection) > size and connection.execute(query, (start,)).fetchone()[0] > size

    def read(self, start: int, end: int) -> Iterator[Observation]:
        """Yields the rows with start <= sequence < end, in order. Reading them again gives the same rows."""
        published = self.published_end()
        if not 0 <= start <= end <= published:
            raise JournalError(
                f"Rows {start} to {end} of the journal {self.directory} were requested, but it ends at {published}: "
                "the checkpoint belongs to another journal, or an older copy of this journal was restored."
            )
        while start < end:
            with self._reading() as connection:
                rows = _some_rows(connection, start, end)
            if not rows or rows[0].sequence != start:
                first = self.first_sequence()
                if start < first:
                    raise JournalError(
                        f"Row {start} of the journal {self.directory} is no longer kept: it begins at {first}."
                    )
                raise damaged(self._path, f"row {start} is missing")
            for row in rows:
                if row.sequence != start:
                    raise damaged(self._path, f"row {start} is missing")
                yield row
                start += 1

    def select(self, start: int, end: int, wanted: RowFilter) -> Iterator[Observation]:
        """Yields the wanted ones of the rows that `read` yields; the others are not read."""
        condition, values = wanted.condition()
        with self._reading() as connection:
            counting = "SELECT count(*) FROM observations WHERE sequence >= ? AND sequence < ?"
            (count,) = connection.execute(counting, (start, end)).fetchone()
        if count != end - start or not condition:
            # Where rows are missing, it raises the reason.
            yield from self.read(start, end)
            return
        while start < end:
            with self._reading() as connection:
                rows = _some_rows(connection, start, end, condition, values)
            yield from rows
            start = rows[-1].sequence + 1 if rows else end

    def read_from(self, starts: Mapping[str, int], end: int) -> Iterator[Observation]:
        """Yields the rows of these clusters up to the sequence `end`, each one's from a sequence of its own on."""
        first = sorted((start, name) for name, start in starts.items())
        ends = [*(start for start, _ in first[1:]), end]
        for number, ((start, _), upto) in enumerate(zip(first, ends, strict=True)):
            names = frozenset(name for _, name in first[: number + 1])
            if start < (upto := min(upto, end)):
                yield from self.select(start, upto, RowFilter(clusters=names))

    def snapshots(self, cluster: str, until_ms: int | None = None) -> Iterator[JournalSnapshot]:
        """Yields the snapshots of a cluster whose rows are all up to a time, newest first, without damaged ones.

        The rows after each of them are kept.
        """
        query = (
            "SELECT sequence FROM snapshots WHERE cluster = ? AND observed_at_ms <= ? "
            "AND sequence >= (SELECT first - 1 FROM journal) ORDER BY sequence DESC"
        )
        with self._reading() as connection:
            if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'snapshots'").fetchone() is None:
                return
            found = connection.execute(query, (cluster, _LATEST_MS if until_ms is None else until_ms)).fetchall()
        query = "SELECT observed_at_ms, state, crc FROM snapshots WHERE cluster = ? AND sequence = ?"
        for (sequence,) in found:
            with self._reading() as connection:
                row = connection.execute(query, (cluster, sequence)).fetchone()
            # The writer may have deleted it meanwhile.
            if row is not None and zlib.crc32(row[1]) == row[2]:
                yield JournalSnapshot(cluster=cluster, sequence=sequence, observed_at_ms=row[0], state=row[1])

    def wait_beyond(self, sequence: int, timeout_s: float) -> int:
        """Waits until a row at or above `sequence` is published, or until the timeout.

        Asks SQLite every 20 ms, which costs about a third of a percent of a core.

        Returns:
            The sequence after the last published row.
        """
        deadline = time.monotonic() + timeout_s
        with self._reading() as connection:
            while True:
                published = int(_position(connection, END, self._path))
                left_s = deadline - time.monotonic()
                if published > sequence or left_s <= 0:
                    return published
                time.sleep(min(_POLL_INTERVAL_S, left_s))

    def commit(self, sequence: int) -> None:
        """Commits the rows below `sequence`: the writer may delete them. A lower value than before changes nothing.

        Not synced: after a power failure, rows are only kept longer, or sent again by a relay.
        """
        published = self.published_end()
        if sequence > published:
            raise JournalError(
                f"Row {sequence} of the journal {self.directory} was committed, but it ends at {published}."
            )
        with self._unsynced() as connection:
            connection.execute("UPDATE journal SET committed = ? WHERE committed < ?", (sequence, sequence))

    def keep_snapshots(self, snapshots: Iterable[JournalSnapshot]) -> None:
        """Stores snapshots, all or none. Not synced: after a power failure they may be missing."""
        rows = [
            (snapshot.cluster, snapshot.sequence, snapshot.observed_at_ms, snapshot.state, zlib.crc32(snapshot.state))
            for snapshot in snapshots
        ]
        with self._unsynced() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)", rows)
            connection.execute("COMMIT")

    @contextmanager
    def _unsynced(self) -> Iterator[sqlite3.Connection]:
        with opened(self._path, read_only=False) as connection:
            # The gatherer alone pays for what is synced, and moves pages from the log to the file.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            yield connection

    @property
    def _path(self) -> Path:
        return journal_file(self.directory)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if not self.created:
            raise JournalError(f"{self.directory} holds no journal: no observation was recorded there.")
        with opened(self._path, read_only=True) as connection:
            yield connection

    def _number(self, expression: str) -> int:
        # Converted inside, where a value that is no number is damage.
        with self._reading() as connection:
            return int(_position(connection, expression, self._path))


def _position(connection: sqlite3.Connection, expression: str, path: Path) -> Any:
    found = connection.execute(f"SELECT {expression} FROM journal").fetchone()
    if found is None:
        raise damaged(path, "it holds no position")
    return found[0]


def _some_rows(
    connection: sqlite3.Connection, start: int, end: int, condition: str = "", values: tuple[str | int, ...] = ()
) -> list[Observation]:
    where = f"sequence >= ? AND sequence < ? {condition}"
    query = f"SELECT {COLUMNS} FROM observations WHERE {where} ORDER BY sequence LIMIT ?"
    rows: list[Observation] = []
    size = 0
    try:
        for columns in connection.execute(query, (start, end, *values, _ROWS_AT_ONCE)):
            rows.append(observation(columns))
            size += len(rows[-1].payload)
            if size >= _BYTES_AT_ONCE:
                break
    except (sqlite3.Error, ValueError, TypeError):
        # The rows before the damage are returned; the next call raises.
        if not rows:
            raise
    return rows
