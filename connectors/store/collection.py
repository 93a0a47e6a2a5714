"""Collection: a small set of named values in a database, such as silences or the messages of a Slack sink."""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select

from connectors.store.database import Database
from connectors.store.tables import ENTRIES

ValueT = TypeVar("ValueT")


class Collection(Generic[ValueT]):
    """Values of one type by name, in the order in which they were put.

    Each method raises StoreError, and changes nothing, if the database cannot be read or written.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        values: TypeAdapter[ValueT],
        *,
        keep: int = 1_000,
        keep_newest: bool = True,
    ) -> None:
        """Names a part of a database.

        Args:
            database: has the table `ENTRIES`.
            name: of the collection.
            values: writes and reads the type of its values.
            keep: the number of values that are kept.
            keep_newest: whether a value that exceeds `keep` replaces the oldest one, or is dropped.
        """
        self._database = database
        self._name = name
        self._values = values
        self._keep = keep
        self._keep_newest = keep_newest

    def get(self, name: str) -> ValueT | None:
        """Returns a value; None if there is none of this name."""
        if not self._database.exists:
            return None
        with self._database.reading() as connection:
            found = connection.scalar(select(ENTRIES.c.value).where(self._mine, ENTRIES.c.name == name))
            return None if found is None else self._values.validate_python(found)

    def items(self) -> dict[str, ValueT]:
        """Returns all values, in order."""
        if not self._database.exists:
            return {}
        query = select(ENTRIES.c.name, ENTRIES.c.value).where(self._mine).order_by(ENTRIES.c.number)
        with self._database.reading() as connection:
            return {row.name: self._values.validate_python(row.value) for row in connection.execute(query)}

    def __len__(self) -> int:
        if not self._database.exists:
            return 0
        with self._database.reading() as connection:
            return self._count(connection)

    def put(self, values: Mapping[str, ValueT], *, without: Iterable[str] = ()) -> None:
        """Stores values, in order, as the newest; former values of these names are replaced.

        Args:
            values: by name.
            without: names that are removed.
        """
        replaced = [{"replaced": name} for name in (*values, *without)]
        if not replaced:
            return
        new = [
            {"collection": self._name, "name": name, "value": self._values.dump_python(value, mode="json")}
            for name, value in values.items()
        ]
        with self._database.transaction() as connection:
            connection.execute(delete(ENTRIES).where(self._mine, ENTRIES.c.name == bindparam("replaced")), replaced)
            if new:
                connection.execute(insert(ENTRIES), new)
            self._drop_excess(connection)

    def _drop_excess(self, connection: Connection) -> None:
        excess = self._count(connection) - self._keep
        if excess > 0:
            order = ENTRIES.c.number.asc() if self._keep_newest else ENTRIES.c.number.desc()
            dropped = select(ENTRIES.c.number).where(self._mine).order_by(order).limit(excess)
            connection.execute(delete(ENTRIES).where(ENTRIES.c.number.in_(dropped)))

    def _count(self, connection: Connection) -> int:
        return connection.scalar(select(func.count()).select_from(ENTRIES).where(self._mine)) or 0

    @property
    def _mine(self) -> ColumnElement[bool]:
        return ENTRIES.c.collection == self._name


def quarantine_of(database: Database, *, keep: int = 10_000) -> Collection[dict[str, Any]]:
    """Returns the quarantine: the fields of each description by name, `CLUSTER-SEQUENCE-ORDINAL` for a row or record.

    There may be hundreds of thousands of bad records: the first ones are kept. The bytes stay in the journal.
    """
    return Collection(database, "quarantine", TypeAdapter(dict[str, Any]), keep=keep, keep_newest=False)
