"""SinkState: what a sink remembers of its incidents over restarts, in the job's database."""

import logging
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter

from connectors.errors import StoreError

_LOG = logging.getLogger(__name__)
ValueT = TypeVar("ValueT")


class SinkState(Generic[ValueT]):
    """A value for each of the newest thousand incidents."""

    def __init__(self, folder: Path, sink: str, values: TypeAdapter[ValueT], *, if_lost: str) -> None:
        """Opens nothing yet.

        Args:
            if_lost: what happens after a restart if a value could not be stored, as part of a sentence.
        """
        # Commands that only read the configuration import this module: they do without SQLAlchemy (0.3 s).
        from connectors.store.collection import Collection
        from connectors.store.tables import job_database

        self._stored = Collection(job_database(folder), f"sink {sink}", values)
        self._if_lost = if_lost
        self._unstored: dict[str, ValueT] = {}
        self._failed = False

    def get(self, incident: str) -> ValueT | None:
        """Returns the value of an incident; None if there is none or it cannot be read."""
        if incident in self._unstored:
            return self._unstored[incident]
        try:
            return self._stored.get(incident)
        except StoreError as problem:
            self._report(problem)
            return None

    def put(self, incident: str, value: ValueT) -> None:
        """Stores the value of an incident, on disk if possible: the notification was sent, and is not sent again."""
        if self.get(incident) == value and incident not in self._unstored:
            return
        self._unstored[incident] = value
        try:
            self._stored.put(self._unstored)
        except StoreError as problem:
            self._report(problem)
        else:
            self._unstored, self._failed = {}, False

    def _report(self, problem: StoreError) -> None:
        if not self._failed:
            _LOG.warning("%s; after a restart, %s.", problem, self._if_lost)
        self._failed = True
