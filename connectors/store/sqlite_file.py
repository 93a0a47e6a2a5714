"""One SQLite file: how it is opened, checked and copied.

The file is in WAL mode: readers, also those of other processes, neither wait for the writer nor delay it.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from connectors.errors import StoreError, UnwritableStoreError

FILE_SUFFIXES = ("-wal", "-shm")
"""Of the files that SQLite keeps beside a database."""
SYNCHRONOUS = "FULL"
"""Every commit is synced to the disk, also in WAL mode."""
_UNWRITABLE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY}
)
"""Results that a disk gives that is full, fails or is read-only, and another process that holds a lock."""
LOCK_WAIT_S = 30.0
"""How long a transaction waits for the one of another process."""
_WAL_RETRY_S = 0.02


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Opens an existing file for any thread; each statement outside a transaction is one of its own."""
    mode = "mode=ro" if read_only else "mode=rw"
    if read_only and not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists():
        # SQLite keeps its locks in a file beside the database; where none can be created, nobody writes either.
        mode = "immutable=1"
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{mode}",
        uri=True,
        timeout=LOCK_WAIT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
    except BaseException:
        connection.close()
        raise
    return connection


def create_private(path: Path) -> None:
    """Creates an empty file, readable for its owner alone, if there is none."""
    # SQLite itself would create it with the permissions of the umask. An existing file is not opened: to close it would
    # release the locks that SQLite has on it in this process, and another process would delete its write-ahead log.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def use_wal(path: Path) -> None:
    """Sets WAL mode, which a file keeps.

    Another connection may be writing to the file. SQLite waits for it in every other statement, and not in this one,
    which has begun to read before it writes (`sqlite3BtreeSetVersion`). Raises sqlite3.Error after LOCK_WAIT_S.
    """
    until = time.monotonic() + LOCK_WAIT_S
    with closing(connect(path)) as connection:
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                    raise
                time.sleep(_WAL_RETRY_S)
            else:
                return


def damage(path: Path) -> str | None:
    """Returns what SQLite's integrity check finds, as part of a sentence; None for an intact file."""
    try:
        with closing(connect(path, read_only=True)) as connection:
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        return str(error)
    # The first line names the database of the connection.
    return None if found == "ok" else str(found).splitlines()[-1]


def copy(path: Path, target: Path) -> None:
    """Copies what is committed now to a new file, while others may write.

    Raises StoreError if the file cannot be read, or the copy cannot be written.
    """
    try:
        with closing(connect(path, read_only=True)) as connection:
            connection.execute("VACUUM INTO ?", (str(target),))
    except sqlite3.Error as error:
        raise unusable(path, str(error)) from error


def readable_rows(path: Path, table: str) -> Iterator[Sequence[Any]]:
    """Yields the rows before the first damaged page, and those after the last one."""
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error), closing(connect(path, read_only=True)) as connection:
            yield from connection.execute(f"SELECT * FROM {table} ORDER BY rowid {order}")
            return


def unusable(path: Path, reason: str) -> StoreError:
    """Returns the error about a file."""
    return StoreError(_sentence(path, reason))


def failed(path: Path, error: BaseException) -> StoreError:
    """Returns the error about a file, by what SQLite has raised."""
    return (UnwritableStoreError if is_unwritable(error) else StoreError)(_sentence(path, str(error)))


def is_unwritable(error: BaseException) -> bool:
    """Returns whether SQLite has raised this because the disk does not take what was written: it may later."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNWRITABLE


def _sentence(path: Path, reason: str) -> str:
    return f"{path} cannot be used: {reason}; fix the cause and try again"


def set_aside(path: Path, kept: Path) -> None:
    """Renames a file that no process has open, with the files beside it."""
    # The file itself last: SQLite would apply the log of another one to a file of this name.
    for suffix in (*FILE_SUFFIXES, ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(kept.with_name(kept.name + suffix))
