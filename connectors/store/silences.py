"""Silences: those that people have made, written by `kraftwatch silence` and read by the job."""

import logging
from dataclasses import replace

from pydantic import TypeAdapter

from connectors.errors import StoreError, UsageError
from connectors.store.collection import Collection
from connectors.store.database import Database
from rules.model.identifiers import Millis
from rules.notifications.route import Silence

_LOG = logging.getLogger(__name__)
_KEEP_MS = 30 * 86_400_000
"""How long a silence is still listed after its end."""
_KEEP = 100_000


class SilenceStore:
    """The silences of one job. Its methods raise StoreError if the database cannot be read or written."""

    def __init__(self, database: Database) -> None:
        self._stored = Collection(database, "silences", TypeAdapter(Silence), keep=_KEEP)
        self._current: tuple[Silence, ...] = ()
        self._failing = False

    def read(self) -> tuple[Silence, ...]:
        """Returns all silences, in the order of their beginning."""
        return tuple(sorted(self._stored.items().values(), key=lambda one: one.starts_at_ms))

    def current(self) -> tuple[Silence, ...]:
        """Returns the silences for a job; those that were read before if the database cannot be read."""
        try:
            self._current = self.read()
            self._failing = False
        except StoreError as problem:
            # They remain active: a full disk must not page people.
            if not self._failing:
                _LOG.warning("%s; the silences that were read before remain active", problem)
            self._failing = True
        return self._current

    def add(self, *silences: Silence, now_ms: Millis) -> None:
        """Adds silences; those that belong together have one id."""
        over = [name for name, one in self._stored.items().items() if one.ends_at_ms <= now_ms - _KEEP_MS]
        self._stored.put({f"{one.id}/{at}": one for at, one in enumerate(silences)}, without=over)

    def end(self, id_: str, *, now_ms: Millis) -> tuple[Silence, ...]:
        """Ends all silences of an id now and returns them as they were.

        Raises:
            UsageError: no silence of that id is active or in the future.
            StoreError: the database cannot be read or written.
        """
        unended = {name: one for name, one in self._stored.items().items() if one.ends_at_ms > now_ms}
        found = {name: one for name, one in unended.items() if one.id == id_}
        if not found:
            running = ", ".join(dict.fromkeys(one.id for one in unended.values())) or "none"
            raise UsageError(f"no silence '{id_}' to end; active or future silences: {running}")
        self._stored.put(
            # A silence in the future never begins.
            {
                name: replace(one, starts_at_ms=min(one.starts_at_ms, now_ms), ends_at_ms=now_ms)
                for name, one in found.items()
            }
        )
        return tuple(found.values())
