"""Database: a transaction that is committed survives every crash; one that is not has no effect.

Tables and queries are SQLAlchemy's. What is special to one database system is in its subclass: `SqliteDatabase`, a file
beside the job, or `PostgresDatabase`, a server that several machines share.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from weakref import finalize

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, inspect
from sqlalchemy.exc import DBAPIError

from connectors.errors import StoreError
from connectors.store import sqlite_file
from connectors.store.revisions import REVISIONS, check_revision, migrate, require_known

LACKS_TABLES = "it lacks tables of this version of kraftwatch: start its job once, which creates and upgrades them"
_LACKS = ("no such table", "no such column")
"""Beginnings of SQLite's messages."""


class Database(ABC):
    """Any thread may use it; several processes may open it. Raises StoreError if it cannot be read or written.

    The first transaction that may write creates its tables. Only `create` upgrades older ones; others use them as they
    are, as far as they can. With tables of a newer version, all raise OtherTablesError.
    """

    def __init__(self, place: str) -> None:
        """`place`: where it is, for a sentence: without a secret."""
        self.place = place

    @property
    def exists(self) -> bool:
        """Whether there is something to read. Of a server only a query shows it."""
        return True

    def create(self) -> None:
        """Creates the database and its tables where they do not exist, and upgrades older tables."""
        with self.transaction() as connection:
            self._migrate(connection)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Begins a transaction that may write; it is committed, and durable, when the block ends without an error."""
        with self._errors(), self._engine(writes=True).begin() as connection:
            yield connection

    @abstractmethod
    def wait_for_writers(self, connection: Connection) -> None:
        """Waits, in a transaction that replaces rows, until no other one that calls this runs.

        Two that insert the same row would otherwise be refused, or wait for each other.
        """

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Begins a transaction that only reads: all its queries see one state."""
        try:
            with self._errors(), self._engine(writes=False).begin() as connection:
                yield connection
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            # A damaged disk may change a value without a trace in the structure of a file.
            reason = " ".join(repr(error).split())
            raise StoreError(f"{self.place} cannot be used: it is damaged: {reason}") from error

    @abstractmethod
    def close(self) -> None:
        """Closes its connections; a later transaction opens one again."""

    @abstractmethod
    def _engine(self, *, writes: bool) -> Engine:
        """Returns the engine of transactions that may write, or of those that only read."""

    def _migrate(self, connection: Connection) -> None:
        migrate(connection, self.place)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._error(error) from error
        except OSError as error:
            raise StoreError(f"{self.place} cannot be used: {(error.strerror or 'unusable').lower()}") from error

    @abstractmethod
    def _error(self, error: DBAPIError) -> StoreError:
        """Returns the error that says what is wrong and what to do."""


class SqliteDatabase(Database):
    """One file. The first transaction creates it, readable for its owner alone.

    It is closed by `close`, or when nothing refers to the database any more.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Opens nothing yet."""
        super().__init__(str(path))
        self.path = path
        self._read_only = read_only

    @property
    def exists(self) -> bool:
        """Whether there is something to read."""
        # A file has its tables from its first byte on.
        return self.path.is_file() and self.path.stat().st_size > 0

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """As `Database.transaction`."""
        if "_opened" in self.__dict__ and not self.exists:
            raise sqlite_file.unusable(self.path, "it was deleted while it was in use")
        with super().transaction() as connection:
            yield connection

    def damage(self) -> str | None:
        """Returns what SQLite's integrity check finds, as part of a sentence; None for an intact or absent file.

        Raises OtherTablesError if its tables are of a newer version, which may repair it.
        """
        if not self.exists:
            return None
        require_known(self._readable_revision(), self.place)
        return sqlite_file.damage(self.path)

    def wait_for_writers(self, connection: Connection) -> None:
        """Waits for nothing: a file has one transaction that writes at a time."""

    def copy_readable(self, damaged: "SqliteDatabase") -> None:
        """Creates this file with the tables of a damaged one, of its revision, and each row that can still be read."""
        engine = self._new_engine()
        with self._errors(), engine.execution_options(writes=True).begin() as connection:
            migrate(connection, self.place, damaged._readable_revision())
            for table in inspect(connection).get_table_names():
                for row in sqlite_file.readable_rows(damaged.path, table):
                    adding = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})"
                    connection.exec_driver_sql(adding, tuple(row))
        engine.dispose()

    def _readable_revision(self) -> str | None:
        """Returns the revision of a damaged file's tables; None if it cannot be read."""
        return next((str(row[0]) for row in sqlite_file.readable_rows(self.path, REVISIONS.name)), None)

    def close(self) -> None:
        """Closes the file."""
        if "_opened" in self.__dict__:
            self._opened.dispose()

    def _engine(self, *, writes: bool) -> Engine:
        return self._opened.execution_options(writes=writes)

    @cached_property
    def _opened(self) -> Engine:
        engine = self._new_engine()
        with engine.execution_options(writes=not self._read_only).begin() as connection:
            if check_revision(connection, self.place) is None and not self._read_only:
                self._migrate(connection)
        if not self._read_only:
            sqlite_file.use_wal(self.path)
        return engine

    def _new_engine(self) -> Engine:
        if not self._read_only:
            sqlite_file.create_private(self.path)
        engine = create_engine(
            "sqlite://", creator=partial(sqlite_file.connect, self.path, read_only=self._read_only), poolclass=QueuePool
        )
        event.listen(engine, "begin", _begin)
        # A command that reads once has no moment at which to close it: the file is closed with its last use. Not at the
        # exit, where a forked process would close the connections of its parent.
        finalize(self, engine.dispose).atexit = False
        return engine

    def _error(self, error: DBAPIError) -> StoreError:
        reason = str(error.orig)
        if reason.startswith(_LACKS):
            return StoreError(f"{self.path} cannot be used: {LACKS_TABLES}")
        return sqlite_file.failed(self.path, error.orig or error)


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later could not wait for another writer.
    immediate = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
