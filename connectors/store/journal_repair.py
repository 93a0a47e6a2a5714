"""What of a damaged journal can be read, and the journal that replaces it. No process has it open."""

import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from connectors.store import sqlite_file
from connectors.store.journal_file import (
    COLUMNS,
    END,
    begin_file,
    create,
    errors,
    journal_file,
    observation,
    put_in_place,
)

_CLUSTERS = ("progress", "endpoints")
"""The tables with one row for each cluster."""


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
    """
    path = journal_file(directory)
    if not path.exists():
        return None
    return "it is empty" if path.stat().st_size == 0 else sqlite_file.damage(path)


def readable_journal(directory: Path) -> ReadableJournal | None:
    """Reads all rows, from the newest to the first that is damaged; None if not even the positions can be read."""
    path = journal_file(directory)
    try:
        with closing(sqlite_file.connect(path, read_only=True)) as connection:
            journal_id, end, restarted_at = connection.execute(
                f"SELECT id, {END}, coalesce(restarted_at, 0) FROM journal"
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
    return ReadableJournal(journal_id=journal_id, first=first, end=end, complete=first <= restarted_at)


def replace_journal(
    directory: Path, readable: ReadableJournal | None, *, kept: Path, journal_id: str | None, at_least: int
) -> None:
    """Replaces a damaged journal by one of its readable rows, or, without any, by one whose numbers continue.

    Args:
        directory: the journal's folder.
        readable: as `readable_journal` has returned it.
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
