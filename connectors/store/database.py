"""Database: one SQLite file. A transaction that is committed is on the disk; one that is not has no effect.

Tables and queries are SQLAlchemy's; what is special to SQLite is in `sqlite_file`.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection, Engine, MetaData, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError

from connectors.errors import StoreError
from connectors.store import sqlite_file


class Database:
    """One file. Any thread may use it; several processes may open it."""

    def __init__(self, path: Path, tables: MetaData, *, read_only: bool = False) -> None:
        """Opens nothing yet.

        Args:
            path: the file; the first transaction creates it, readable for its owner alone.
            tables: are created where they do not exist.
            read_only: nothing is written, not even an empty file.
        """
        self.path = path
        self._tables = tables
        self._read_only = read_only

    @property
    def exists(self) -> bool:
        """Whether there is something to read."""
        # A file has its tables from its first byte on.
        return self.path.is_file() and self.path.stat().st_size > 0

    def create(self) -> None:
        """Creates the file and its tables where they do not exist.

        Raises:
            StoreError: the database cannot be written.
        """
        with self.transaction():
            pass

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Begins a transaction that may write; it is committed, and on the disk, when the block ends without an error.

        Raises:
            StoreError: the database cannot be written; nothing was changed.
        """
        if "_engine" in self.__dict__ and not self.exists:
            raise self._error("it was deleted while it was in use")
        with self._errors(), self._writing.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Begins a transaction that only reads: all its queries see one state.

        Raises:
            StoreError: the database cannot be read.
        """
        try:
            with self._errors(), self._engine.begin() as connection:
                yield connection
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            # A damaged disk may change a value without a trace in the structure of the file.
            raise self._error(f"it is damaged: {error!r}") from error

    def damage(self) -> str | None:
        """Returns what SQLite's integrity check finds, as part of a sentence; None for an intact or absent file."""
        if not self.exists:
            return None
        return sqlite_file.damage(self.path)

    def copy_to(self, path: Path) -> None:
        """Copies what is committed now to a new file, while others may write.

        Raises:
            StoreError: the database cannot be read, or the copy cannot be written.
        """
        with self._errors():
            sqlite_file.copy(self.path, path)

    def copy_readable(self, damaged: "Database") -> None:
        """Adds each row of a damaged database that SQLite can still read.

        Raises:
            StoreError: this database cannot be written.
        """
        with self.transaction() as connection:
            for table in self._tables.sorted_tables:
                adding = f"INSERT OR IGNORE INTO {table.name} VALUES ({', '.join('?' * len(table.columns))})"
                for row in sqlite_file.readable_rows(damaged.path, table.name):
                    connection.exec_driver_sql(adding, tuple(row))

    def close(self) -> None:
        """Closes the file."""
        if "_engine" in self.__dict__:
            self._engine.dispose()

    @cached_property
    def _engine(self) -> Engine:
        if not self._read_only:
            sqlite_file.create_private(self.path)
        engine = create_engine(
            "sqlite://", creator=lambda: sqlite_file.connect(self.path, read_only=self._read_only), poolclass=QueuePool
        )
        event.listen(engine, "begin", _begin)
        if not self._read_only:
            with engine.execution_options(writes=True).begin() as connection:
                self._tables.create_all(connection)
            with closing(sqlite_file.connect(self.path)) as raw:
                raw.execute("PRAGMA journal_mode = WAL")
        return engine

    @cached_property
    def _writing(self) -> Engine:
        return self._engine.execution_options(writes=True)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._error(str(error.orig)) from error
        except OSError as error:
            raise self._error((error.strerror or "unusable").lower()) from error

    def _error(self, reason: str) -> StoreError:
        return sqlite_file.unusable(self.path, reason)


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later could not wait for another writer.
    immediate = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
