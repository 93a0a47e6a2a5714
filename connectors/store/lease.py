"""Lease: which of several jobs that share a store may do something. The clock of the database decides, and no other.

One job has the lease `NOTIFY` and notifies people. One job has that of a checkpoint's URI and runs a query on it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, DateTime, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from connectors.errors import LeaseLostError
from connectors.store.database import Database
from connectors.store.tables import JOBS, LEASES

LEASE_S: Final = 15.0
"""How long a lease lasts after it was renewed: longer than a call to a sink may take."""
_FORGOTTEN_S: Final = 86_400.0
NOTIFY: Final = "notify"
_NOW: Final[ColumnElement[Any]] = func.clock_timestamp(type_=DateTime(timezone=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What a job reports of itself."""

    evaluated_ms: int
    """The time of the newest row that it has evaluated of a cluster of which it observes something."""
    sinks_fail: bool
    """Whether a sink for people does not accept its notifications."""


class Lease:
    """One job's view of the lease. Any thread may use it. Each method raises StoreError if it cannot use the database.

    Each lease has a token, which grows with each new owner. The owner's writes check the token and renew the lease in
    their own transaction, so a job that was stopped or cut off meanwhile cannot write once another job has the lease;
    and what a sink is sent after such a write is sent while the lease lasts.
    """

    def __init__(self, database: Database, job: str, name: str = NOTIFY) -> None:
        """Takes nothing yet.

        `job`: the id of this job, the same after a restart and different for each job; `name`: which lease it is.
        """
        self._database = database
        self._job = job
        self._name = name
        self._token: int | None = None
        self._valid_until = 0.0

    @property
    def owned(self) -> bool:
        """Whether this job took the lease and does not know that another job has it."""
        return self._token is not None

    @property
    def held(self) -> bool:
        """Whether no other job can have it now."""
        return self.owned and time.monotonic() < self._valid_until

    def report(self, state: JobReport) -> Sequence[JobReport]:
        """Stores this job's state; returns those of the other jobs that run."""
        values = {"seen_at": _NOW, "evaluated_ms": state.evaluated_ms, "sinks_fail": state.sinks_fail}
        mine = insert(JOBS).values(id=self._job, **values)
        alive = select(JOBS).where(JOBS.c.id != self._job, JOBS.c.seen_at > _ago(LEASE_S))
        with self._database.transaction() as connection:
            connection.execute(mine.on_conflict_do_update(index_elements=[JOBS.c.id], set_=values))
            connection.execute(delete(JOBS).where(JOBS.c.seen_at < _ago(_FORGOTTEN_S)))
            return [
                JobReport(evaluated_ms=row.evaluated_ms, sinks_fail=row.sinks_fail) for row in connection.execute(alive)
            ]

    def take(self) -> bool:
        """Takes the lease if no other job has it; returns whether this job has it now."""
        began = time.monotonic()
        values = {"owner": self._job, "expires_at": _ago(-LEASE_S)}
        taken = insert(LEASES).values(name=self._name, token=1, **values)
        # It ends much later than one that is renewed now: the database's clock was ahead then.
        from_future = LEASES.c.expires_at > _ago(-2 * LEASE_S)
        free = (LEASES.c.expires_at < _NOW) | from_future | (LEASES.c.owner == self._job)
        taken = taken.on_conflict_do_update(
            index_elements=[LEASES.c.name], set_={**values, "token": LEASES.c.token + 1}, where=free
        )
        with self._database.transaction() as connection:
            token = connection.scalar(taken.returning(LEASES.c.token))
        if token is not None:
            self._token, self._valid_until = token, began + LEASE_S
        return token is not None

    def renew(self) -> None:
        """Extends the lease. Raises LeaseLostError if another job has it."""
        with self._database.transaction() as connection:
            self.fence(connection)

    def fence(self, connection: Connection) -> None:
        """Extends the lease in a transaction that writes as its owner.

        Raises LeaseLostError if another job has it: the transaction must not be committed.
        """
        began = time.monotonic()
        mine = (LEASES.c.name == self._name) & (LEASES.c.token == self._token)
        done = connection.execute(update(LEASES).where(mine).values(expires_at=_ago(-LEASE_S)))
        if self._token is None or done.rowcount != 1:
            self._token = None
            raise LeaseLostError(f"another job that shares the store has the lease {self._name} now")
        self._valid_until = began + LEASE_S

    def give_up(self) -> None:
        """Ends the lease at once, so that another job can take it."""
        token, self._token = self._token, None
        if token is not None:
            with self._database.transaction() as connection:
                mine = (LEASES.c.name == self._name) & (LEASES.c.token == token)
                connection.execute(update(LEASES).where(mine).values(expires_at=_NOW, owner=""))


def _ago(seconds: float) -> ColumnElement[Any]:
    return _NOW - timedelta(seconds=seconds)
