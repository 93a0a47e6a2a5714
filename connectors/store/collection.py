"""Collection: a small set of named values in a database: silences, the quarantine, the messages of a Slack sink."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select

from connectors.errors import StoreError, UsageError
from connectors.store.database import Database
from connectors.store.tables import ENTRIES
from rules.model.identifiers import Millis
from rules.notifications.route import Silence, SilenceOfService

ValueT = TypeVar("ValueT")
_LOG = logging.getLogger(__name__)
_KEEP_SILENCES_MS = 30 * 86_400_000
"""How long a silence is still listed after its end."""
_MAX_SILENCES = 100_000


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
        """`keep`: the number of values that are kept; with `keep_newest` a further one replaces the oldest one."""
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
        """Stores values by name, in order, as the newest; removes former values of these names, and of `without`."""
        replaced = [{"replaced": name} for name in (*values, *without)]
        if not replaced:
            return
        new = [
            {"collection": self._name, "name": name, "value": self._values.dump_python(value, mode="json")}
            for name, value in values.items()
        ]
        with self._database.transaction() as connection:
            self._database.wait_for_writers(connection)
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


MOST_QUARANTINED: Final = 10_000
"""So many bad rows and records are kept, the first ones: there may be hundreds of thousands."""


def quarantine_of(database: Database, *, keep: int = MOST_QUARANTINED) -> Collection[dict[str, Any]]:
    """Returns the quarantine: the fields of each description by name, `CLUSTER-SEQUENCE-ORDINAL` for a row or record.

    The bytes stay in the journal.
    """
    return Collection(database, "quarantine", TypeAdapter(dict[str, Any]), keep=keep, keep_newest=False)


class LastRead(Generic[ValueT]):
    """What a job reads in each round: while the database cannot be read, what was read before."""

    def __init__(self, read: Callable[[], ValueT], nothing: ValueT, what: str) -> None:
        """`what` it reads, for a sentence in the log."""
        self._read, self._value, self._what = read, nothing, what
        self._failing = False

    def __call__(self) -> ValueT:
        """Reads, and returns what was read last."""
        try:
            self._value = self._read()
            self._failing = False
        except StoreError as problem:
            # It remains active: a full disk must not page people.
            if not self._failing:
                _LOG.warning("%s; %s that were read before remain active", problem, self._what)
            self._failing = True
        return self._value


class SilenceStore:
    """The silences of one job. Its methods raise StoreError if the database cannot be read or written."""

    def __init__(self, database: Database) -> None:
        self._stored = Collection(database, "silences", TypeAdapter(Silence), keep=_MAX_SILENCES)
        self._current = LastRead[tuple[Silence, ...]](lambda: self.read(), (), "the silences")

    def read(self) -> tuple[Silence, ...]:
        """Returns all silences, in the order of their beginning."""
        return tuple(sorted(self._stored.items().values(), key=lambda one: one.starts_at_ms))

    def current(self) -> tuple[Silence, ...]:
        """Returns the silences for a job; those that were read before if the database cannot be read."""
        return self._current()

    def add(self, *silences: Silence, now_ms: Millis) -> None:
        """Adds silences; those that belong together have one id."""
        over = [
            name for name, silence in self._stored.items().items() if silence.ends_at_ms <= now_ms - _KEEP_SILENCES_MS
        ]
        self._stored.put({f"{silence.id}/{at}": silence for at, silence in enumerate(silences)}, without=over)

    def end(self, id_: str, *, now_ms: Millis) -> tuple[Silence, ...]:
        """Ends all silences of an id now and returns them as they were.

        Raises UsageError if no silence of that id is active or in the future.
        """
        unended = {name: silence for name, silence in self._stored.items().items() if silence.ends_at_ms > now_ms}
        found = {name: silence for name, silence in unended.items() if silence.id == id_}
        if not found:
            running = ", ".join(dict.fromkeys(silence.id for silence in unended.values())) or "none"
            raise UsageError(f"no silence '{id_}' to end; active or future silences: {running}")
        self._stored.put(
            # A silence in the future never begins.
            {
                name: replace(silence, starts_at_ms=min(silence.starts_at_ms, now_ms), ends_at_ms=now_ms)
                for name, silence in found.items()
            }
        )
        return tuple(found.values())


class ServiceSilenceStore:
    """The silences in the services of sinks, as they were read last: a job that starts or takes over begins with them.

    Its methods raise StoreError if the database cannot be read or written.
    """

    def __init__(self, database: Database) -> None:
        self._stored = Collection(database, "silences in services", TypeAdapter(tuple[SilenceOfService, ...]))
        self._current = LastRead[tuple[SilenceOfService, ...]](lambda: self._read(), (), "the silences in services")

    def current(self) -> tuple[SilenceOfService, ...]:
        """Returns the silences for a job, as `SilenceStore.current`; each ends by itself where it is not read again."""
        return self._current()

    def put(self, sink: str, silences: Sequence[SilenceOfService]) -> None:
        """Stores those in the service of a sink, in place of its former ones."""
        if tuple(silences) != (self._stored.get(sink) or ()):
            self._stored.put({sink: tuple(silences)})

    def _read(self) -> tuple[SilenceOfService, ...]:
        return tuple(service for each in self._stored.items().values() for service in each)
