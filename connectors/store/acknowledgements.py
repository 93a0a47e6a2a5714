"""AcknowledgementStore: who works on which alert, as the commands, the page and the services of sinks say it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from sqlalchemy import delete, insert, select, tuple_, update

from connectors.store.collection import LastRead
from connectors.store.database import Database
from connectors.store.tables import ACKNOWLEDGEMENTS
from rules.alert import Alert, AlertId
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement

_OF_ALERT = tuple_(ACKNOWLEDGEMENTS.c.fingerprint, ACKNOWLEDGEMENTS.c.started_at_ms)


class AcknowledgementStore:
    """The newest acknowledgement of each alert of one job. Its methods raise StoreError as those of `Database`.

    Any process writes: the ledger (`AlertStore`) ends those of an alert that gets worse, and drops those of alerts that
    it drops.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._current = LastRead[tuple[Acknowledgement, ...]](self.read, (), "the acknowledgements")

    def read(self) -> tuple[Acknowledgement, ...]:
        """Returns all acknowledgements, also those that have ended, oldest first."""
        if not self._database.exists:
            return ()
        query = select(ACKNOWLEDGEMENTS).order_by(ACKNOWLEDGEMENTS.c.at_ms)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
            return tuple(Acknowledgement(**{**row._mapping, "severity": Severity(row.severity)}) for row in rows)

    def current(self) -> tuple[Acknowledgement, ...]:
        """Returns them for a job; those that were read before if the database cannot be read."""
        return self._current()

    def add(
        self, alerts: Iterable[Alert], *, by: str, now_ms: Millis, until_ms: Millis | None = None, comment: str = ""
    ) -> Sequence[Acknowledgement]:
        """Acknowledges firing alerts, in place of their former acknowledgements; returns the new ones."""
        new = [
            Acknowledgement(
                fingerprint=alert.fingerprint,
                started_at_ms=alert.started_at_ms,
                severity=alert.severity,
                by=by,
                at_ms=now_ms,
                until_ms=until_ms,
                comment=comment,
            )
            for alert in alerts
        ]
        if new:
            with self._database.transaction() as connection:
                self._database.wait_for_writers(connection)
                connection.execute(
                    delete(ACKNOWLEDGEMENTS).where(_OF_ALERT.in_([acknowledgement.alert_id for acknowledgement in new]))
                )
                rows = [
                    {**asdict(acknowledgement), "severity": acknowledgement.severity.value} for acknowledgement in new
                ]
                connection.execute(insert(ACKNOWLEDGEMENTS), rows)
        return new

    def end(self, alerts: Iterable[AlertId], *, now_ms: Millis) -> None:
        """Ends the acknowledgements of alerts now, if they are active."""
        known, ends = [*alerts], ACKNOWLEDGEMENTS.c.until_ms
        if known:
            unended = ends.is_(None) | (ends > now_ms)
            with self._database.transaction() as connection:
                connection.execute(
                    update(ACKNOWLEDGEMENTS).where(_OF_ALERT.in_(known), unended).values(until_ms=now_ms)
                )
