"""Database: a transaction that is committed survives every crash; one that is not has no effect.

Tables and queries are SQLAlchemy's. What is special to one database system is in its subclass: `SqliteDatabase`, a file
beside the job, or `PostgresDatabase`, a server that several machines share.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection, Engine, MetaData, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError

from connectors.errors import StoreError
from connectors.store import sqlite_file

Prepare = Callable[[Connection], None]
"""Creates the tables, or brings them to this version of the program."""


class Database(ABC):
    """Any thread may use it; several processes may open it. Raises StoreError if it cannot be read or written."""

    def __init__(self, place: str) -> None:
        """`place`: where it is, for a sentence: without a secret."""
        self.place = place

    @property
    def exists(self) -> bool:
        """Whether there is something to read. Of a server only a query shows it."""
        return True

    def create(self) -> None:
        """Creates the database and its tables where they do not exist."""
        with self.transaction():
            pass

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Begins a transaction that may write; it is committed, and durable, when the block ends without an error."""
        with self._errors(), self._engine(writes=True).begin() as connection:
            yield connection

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
    """One file. The first transaction creates it, readable for its owner alone."""

    def __init__(self, path: Path, tables: MetaData, prepare: Prepare, *, read_only: bool = False) -> None:
        """Opens nothing yet. `prepare`, which creates `tables`, is called once, before anything is written."""
        super().__init__(str(path))
        self.path = path
        self._tables = tables
        self._prepare = prepare
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
        """Returns what SQLite's integrity check finds, as part of a sentence; None for an intact or absent file."""
        if not self.exists:
            return None
        return sqlite_file.damage(self.path)

    def copy_readable(self, damaged: "SqliteDatabase") -> None:
        """Adds each row of a damaged database that SQLite can still read."""
        with self.transaction() as connection:
            for table in self._tables.sorted_tables:
                adding = f"INSERT OR IGNORE INTO {table.name} VALUES ({', '.join('?' * len(table.columns))})"
                for row in sqlite_file.readable_rows(damaged.path, table.name):
                    connection.exec_driver_sql(adding, tuple(row))

    def close(self) -> None:
        """Closes the file."""
        if "_opened" in self.__dict__:
            self._opened.dispose()

    def _engine(self, *, writes: bool) -> Engine:
        return self._opened.execution_options(writes=writes)

    @cached_property
    def _opened(self) -> Engine:
        if not self._read_only:
            sqlite_file.create_private(self.path)
        engine = create_engine(
            "sqlite://", creator=lambda: sqlite_file.connect(self.path, read_only=self._read_only), poolclass=QueuePool
        )
        event.listen(engine, "begin", _begin)
        if not self._read_only:
            with engine.execution_options(writes=True).begin() as connection:
                self._prepare(connection)
            with closing(sqlite_file.connect(self.path)) as raw:
                raw.execute("PRAGMA journal_mode = WAL")
        return engine

    def _error(self, error: DBAPIError) -> StoreError:
        return sqlite_file.unusable(self.path, str(error.orig))


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later could not wait for another writer.
    immediate = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
