"""The journal's database: every observation once, in order, in `observations.db` in the journal's folder.

One process writes the rows, the gatherer; it holds the file `lock` beside the database. A row is in a transaction that
is synced when it is committed, and nobody sees it before that: so a row that was read is never lost and never changes.
The reader that processes the rows, Spark's planner or a relay, commits its position, up to which rows may be deleted.
Spark's driver adds snapshots: a past state is one of them and the rows since. They are deleted with the rows, and a
repaired journal begins without any.

The database is read and written without SQLAlchemy: three processes of a job would import nothing else of it.
"""

import secrets
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from connectors.errors import JournalError, OtherJournalError, UnwritableJournalError
from connectors.observations.observation import Observation, ObservationKind, Urgency
from connectors.store import sqlite_file
from connectors.store.durable_file import sync_path

FILE: Final = "observations.db"
VERSION: Final = 2
"""Of the tables and of what is in their rows, stored as SQLite's `user_version`. A newer one is refused; an older one
lacks rows of the kind `witness` only."""
SNAPSHOTS: Final = """
    CREATE TABLE IF NOT EXISTS snapshots (
        cluster TEXT NOT NULL, sequence INTEGER NOT NULL, observed_at_ms INTEGER NOT NULL, state BLOB NOT NULL,
        crc INTEGER NOT NULL, PRIMARY KEY (cluster, sequence)
    ) STRICT"""
"""The state of a cluster after a row, and the CRC-32 of it: a replay begins there. Older journals lack this table."""
SET_VERSION: Final = f"PRAGMA user_version = {VERSION}"
NEW_FOLDER: Final = (
    "give a new folder, with a copy of kraftwatch.db if there is one: without it, silences are lost, and what fires is "
    "sent again"
)
"""What to do with a folder that another version has written, as the end of a sentence."""
_TABLES: Final = (
    """
    CREATE TABLE observations (
        sequence INTEGER PRIMARY KEY, cluster TEXT NOT NULL, kind TEXT NOT NULL, observed_at_ms INTEGER NOT NULL,
        base_offset INTEGER, last_offset INTEGER, leader_epoch INTEGER, high_watermark INTEGER, payload BLOB NOT NULL,
        urgency INTEGER NOT NULL
    ) STRICT""",
    # One row. `first`: the oldest observation that is kept, or the next one. `committed`: those below are processed.
    # `restarted_at`: the observation from which on a repair had every log read again.
    """
    CREATE TABLE journal (
        id TEXT NOT NULL, first INTEGER NOT NULL, committed INTEGER NOT NULL, restarted_at INTEGER
    ) STRICT""",
    # Where to continue each cluster: `connectors.store.follow_progress`, as JSON.
    "CREATE TABLE progress (cluster TEXT PRIMARY KEY, progress TEXT NOT NULL) STRICT",
    # Where its nodes were last reported, as the gatherer's JSON.
    "CREATE TABLE endpoints (cluster TEXT PRIMARY KEY, endpoints TEXT NOT NULL) STRICT",
    SNAPSHOTS,
)
_NAMES: Final = (
    *("sequence", "cluster", "kind", "observed_at_ms", "base_offset", "last_offset", "leader_epoch", "high_watermark"),
    *("payload", "urgency"),
)
COLUMNS: Final = ", ".join(_NAMES)
values: Final = attrgetter(*_NAMES)
"""Returns the columns of a row, in the order of `COLUMNS`."""
END: Final = "coalesce((SELECT max(sequence) + 1 FROM observations), first)"
"""An expression for the sequence after the newest row, in a query of `journal`."""
EMPTIED_END: Final = "(SELECT coalesce(max(json_extract(progress, '$.emptied_end')), 0) FROM progress)"
"""An expression for the sequence after the newest row that was emptied, in a query of `journal`."""
SAVE_PROGRESS: Final = "INSERT OR REPLACE INTO progress VALUES (?, ?)"
SAVE_ENDPOINTS: Final = "INSERT OR REPLACE INTO endpoints VALUES (?, ?)"
INSERT: Final = f"INSERT INTO observations ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
ROW_BYTES: Final = 64
"""What a row takes beside its payload, about."""
_CLUSTERS = ("progress", "endpoints")
"""The tables with one row for each cluster."""
_CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def journal_file(directory: Path) -> Path:
    """Returns the path of the database in a journal's folder."""
    return directory / FILE


def create(path: Path, journal_id: str, *, first: int = 0) -> None:
    """Creates an empty journal; a file of this name is complete. Raises OSError or sqlite3.Error."""
    put_in_place(begin_file(path, journal_id, first=first), path)


def put_in_place(unfinished: Path, path: Path) -> None:
    """Gives a complete journal its name."""
    for suffix in sqlite_file.FILE_SUFFIXES:
        # SQLite would apply the log of a lost file to the new one.
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    unfinished.rename(path)
    sync_path(path.parent)


def begin_file(path: Path, journal_id: str, *, first: int) -> Path:
    """Creates an empty journal under the name that it has until it is complete, and returns that name."""
    unfinished = path.with_name(path.name + ".new")
    for each in path.parent.glob(f"{unfinished.name}*"):
        each.unlink()
    sqlite_file.create_private(unfinished)
    with closing(sqlite_file.connect(unfinished)) as connection:
        connection.execute("BEGIN")
        for table in _TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO journal VALUES (?, ?, ?, NULL)", (journal_id, first, first))
        connection.execute(SET_VERSION)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    return unfinished


def used_bytes(database: sqlite3.Connection) -> int:
    """Returns what the journal takes, without pages that are free again. The number of rows does not matter."""
    pages, free, page_bytes = (
        int(database.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * page_bytes


def observation(columns: tuple[Any, ...]) -> Observation:
    """Returns the row of these columns, in the order of `COLUMNS`.

    Raises ValueError if the kind or the urgency is unknown, TypeError if a column has another type.
    """
    found = dict(zip(_NAMES, columns, strict=True))
    expected = {"cluster": str, "observed_at_ms": int, "payload": bytes}
    if any(type(found[name]) is not kind for name, kind in expected.items()):
        raise TypeError("a column has another type")
    found["kind"], found["urgency"] = ObservationKind(found["kind"]), Urgency(found["urgency"])
    return Observation(**found)


@contextmanager
def opened(path: Path, *, read_only: bool) -> Iterator[sqlite3.Connection]:
    """Opens the database of a journal.

    Raises:
        JournalError: it cannot be read or written, or is damaged.
        OtherJournalError: it is of another version.
    """
    with errors(path), closing(sqlite_file.connect(path, read_only=read_only)) as connection:
        require_version(connection, path)
        yield connection


def require_version(connection: sqlite3.Connection, path: Path) -> int:
    """Returns the version of a journal. Raises OtherJournalError if it is a newer one."""
    found: int
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    # An empty file has 0: that it is damaged shows when it is read.
    if found > VERSION:
        raise OtherJournalError(
            f"{path} has version {found}, and this kraftwatch reads {VERSION}: use the kraftwatch that wrote it, or "
            f"{NEW_FOLDER}"
        )
    return found


@contextmanager
def errors(path: Path) -> Iterator[None]:
    """Turns the errors of SQLite, and of values that it returned, into one sentence.

    Raises:
        UnwritableJournalError: the disk does not take what was written.
        JournalError: names the file and what to do.
    """
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _CORRUPT:
            raise damaged(path, str(error)) from error
        kind = UnwritableJournalError if sqlite_file.is_unwritable(error) else JournalError
        raise kind(_unusable(path, str(error))) from error
    except OSError as error:
        raise JournalError(_unusable(path, (error.strerror or "unusable").lower())) from error
    except (ValueError, TypeError, LookupError) as error:
        # A damaged disk may change a value without a trace in the structure of the file.
        raise damaged(path, f"{error!r}") from error


def damaged(path: Path, reason: str) -> JournalError:
    """Returns the error that names the damaged file and the command that repairs it."""
    checkpoint = shlex.quote(str(path.parent.parent))
    return JournalError(
        f"{path} is damaged ({reason}): stop the job and run `kraftwatch repair --checkpoint {checkpoint}`"
    )


def _unusable(path: Path, reason: str) -> str:
    return f"{path} cannot be used: {reason}; fix the cause and try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableJournal:
    """The newest rows of a journal that can be read without a gap."""

    journal_id: str
    first: int
    """The oldest of them."""
    end: int
    """The sequence after the newest one."""
    complete: bool
    """They hold everything about each cluster."""


def journal_damage(directory: Path) -> str | None:
    """Returns what SQLite's integrity check finds in a journal, as part of a sentence; None if it is intact or absent.

    Raises:
        OSError: the folder cannot be read.
        OtherJournalError: it is of another version, which may repair it.
    """
    path = journal_file(directory)
    if not path.exists():
        return None
    with suppress(sqlite3.Error), closing(sqlite_file.connect(path, read_only=True)) as connection:
        require_version(connection, path)
    return "it is empty" if path.stat().st_size == 0 else sqlite_file.damage(path)


def readable_journal(directory: Path) -> ReadableJournal | None:
    """Reads all rows, from the newest to the first that is damaged; None if not even the positions can be read."""
    path = journal_file(directory)
    try:
        with closing(sqlite_file.connect(path, read_only=True)) as connection:
            journal_id, end, restarted_at, emptied_end = connection.execute(
                f"SELECT id, {END}, coalesce(restarted_at, 0), {EMPTIED_END} FROM journal"
            ).fetchone()
            for table in _CLUSTERS:
                connection.execute(f"SELECT * FROM {table}").fetchall()
    except (sqlite3.Error, TypeError):
        return None
    first = end
    try:
        with closing(sqlite_file.connect(path, read_only=True)) as connection:
            for columns in connection.execute(f"SELECT {COLUMNS} FROM observations ORDER BY sequence DESC"):
                if observation(columns).sequence != first - 1:
                    break
                first -= 1
    except (sqlite3.Error, ValueError, TypeError):
        pass
    return ReadableJournal(
        journal_id=journal_id, first=first, end=end, complete=max(first, emptied_end) <= restarted_at
    )


def replace_journal(
    directory: Path, readable: ReadableJournal | None, *, kept: Path, journal_id: str | None, at_least: int
) -> None:
    """Replaces a damaged journal by one of its readable rows, or, without any, by one whose numbers continue.

    Args:
        kept: the new name of the damaged file.
        journal_id: of a journal without readable rows; None: unknown.
        at_least: a sequence up to which rows are known to have been published: alerts contain their numbers.

    Raises:
        JournalError: a file cannot be written.
    """
    path = journal_file(directory)
    with errors(path):
        if readable is None:
            sqlite_file.set_aside(path, kept)
            create(path, journal_id or secrets.token_hex(16), first=at_least)
            return
        unfinished = begin_file(path, readable.journal_id, first=readable.first)
        with closing(sqlite_file.connect(unfinished)) as connection:
            connection.execute("ATTACH ? AS damaged", (str(path.absolute()),))
            connection.execute("BEGIN")
            connection.execute(
                f"INSERT INTO observations SELECT {COLUMNS} FROM damaged.observations ORDER BY sequence DESC LIMIT ?",
                (readable.end - readable.first,),
            )
            for table in _CLUSTERS:
                connection.execute(f"INSERT INTO {table} SELECT * FROM damaged.{table}")
            connection.execute(
                "UPDATE journal SET (committed, restarted_at) = "
                "(SELECT max(committed, ?), restarted_at FROM damaged.journal)",
                (readable.first,),
            )
            connection.execute("COMMIT")
        sqlite_file.set_aside(path, kept)
        put_in_place(unfinished, path)
