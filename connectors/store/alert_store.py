"""AlertStore: alerts, their delivery to each sink, and the incidents that sinks were notified of, in the database."""

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, Executable, bindparam, delete, insert, select, update

from connectors.errors import UnwritableStoreError
from connectors.store.alert_codec import ALERT
from connectors.store.database import Database
from connectors.store.lease import Lease
from connectors.store.stored_json import json_safe
from connectors.store.tables import ACKNOWLEDGEMENTS, ALERTS, DELIVERIES, NOTIFIED, SINKS
from rules.alert import Alert, AlertId
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notified

_LOG = logging.getLogger(__name__)
_RETRY_S: Final = 2.0
"""How often what could not be written is written again."""


class DeliveryStatus(StrEnum):
    """How far the delivery of one transition to one sink is."""

    PENDING = "pending"
    DELIVERED = "delivered"
    """The sink accepted it."""
    DISCARDED = "discarded"
    """It is never sent to this sink, and does not count as delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecord:
    """A transition of an alert."""

    number: int
    """A higher number is newer."""
    recorded_at_ms: Millis
    incident: str
    """The id of the alert's incident (`rules.notifications.incident`)."""
    escalations: int
    """How often the incident had escalated, this transition included."""
    alert: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord:
    """What is stored of one sink."""

    status: dict[int, DeliveryStatus]
    """By the number of the transition."""
    sent: set[int]
    """The transitions that it was sent, whether it confirmed them or not."""
    notified: dict[str, Notified]
    """Its last notification of each incident."""


_Step: TypeAlias = tuple[Executable, Sequence[Mapping[str, Any]]]
"""A statement and its parameters: it is executed with each of them."""


class AlertStore:
    """Written by one process: the job that delivers. A method that writes is one transaction.

    While the file cannot be written, because its disk is full for example, what is to be written is kept in memory, in
    its order, and written as soon as that is possible: no sink waits for it. What the ledger drops meanwhile is kept no
    longer.

    Each method raises StoreError, and changes nothing, if the database cannot be read or written, or is damaged.
    With a lease, a method that writes raises LeaseLostError, and changes nothing, once another job has it.
    """

    def __init__(self, database: Database, lease: Lease | None = None) -> None:
        self._database = database
        self._lease = lease
        self._unwritten: list[_Step] = []
        self._retry_at = 0.0

    def alerts(self) -> Iterator[AlertRecord]:
        """Yields every transition, oldest first."""
        if not self._database.exists:
            return
        with self._database.reading() as connection:
            yield from _alerts(connection)

    def content(self) -> tuple[Sequence[AlertRecord], Mapping[str, SinkRecord]]:
        """Returns every transition, oldest first, and what is stored of each known sink, by name."""
        self.write_rest()
        if not self._database.exists:
            return (), {}
        # One transaction: another job may drop alerts meanwhile.
        with self._database.reading() as connection:
            return tuple(_alerts(connection)), _sinks(connection)

    def add(self, records: Sequence[AlertRecord], sinks: Collection[str]) -> None:
        """Stores new transitions; each is pending for each sink. A higher severity ends an acknowledgement."""
        rows = [
            {**{name: getattr(record, name) for name in _PLAIN_COLUMNS}, "alert": _to_plain(record.alert)}
            for record in records
        ]
        pending = [
            {"sink": sink, "number": record.number, "status": DeliveryStatus.PENDING.value}
            for sink in sinks
            for record in records
        ]
        worse = [
            {**_of_alert(record.alert.alert_id), "of_severity": lower.value, "now_ms": record.recorded_at_ms}
            for record in records
            for lower in Severity
            if lower.rank < record.alert.severity.rank
        ]
        self._write((insert(ALERTS), rows), (insert(DELIVERIES), pending), (_end_acknowledgement(), worse))

    def rewrite(self, records: Sequence[AlertRecord]) -> None:
        """Stores the newer text of transitions."""
        rows = [{"of_number": record.number, "newest": _to_plain(record.alert)} for record in records]
        of_row = ALERTS.c.number == bindparam("of_number")
        self._write((update(ALERTS).where(of_row).values(alert=bindparam("newest", type_=ALERTS.c.alert.type)), rows))

    def add_sink(self, sink: str, status: Mapping[int, DeliveryStatus]) -> None:
        """Stores a new sink and the status of each transition for it."""
        rows = [{"sink": sink, "number": number, "status": each.value} for number, each in status.items()]
        self._write((insert(SINKS), [{"name": sink}]), (insert(DELIVERIES), rows))

    def note(
        self, sink: str, status: Mapping[int, DeliveryStatus], notified: Mapping[str, Notified] | None = None
    ) -> None:
        """Stores the new status of transitions for a sink, and its notifications by incident."""
        changed = [{"of_sink": sink, "of_number": number, "status": each.value} for number, each in status.items()]
        rows = [
            {"sink": sink, "incident": incident, "at_ms": one.at_ms, "acknowledged": one.acknowledged}
            for incident, one in (notified or {}).items()
        ]
        self._forget({("incident", sink, row["incident"]) for row in rows})
        self._write(
            (update(DELIVERIES).where(_OF_DELIVERY).values(status=bindparam("status")), changed),
            (_forget_incident(), [{"of_sink": sink, "of_incident": row["incident"]} for row in rows]),
            (insert(NOTIFIED), rows),
        )

    def mark_sent(self, numbers: Mapping[str, Iterable[int]]) -> None:
        """Stores which transitions are sent to each sink."""
        rows = [{"of_sink": sink, "of_number": number} for sink, sent in numbers.items() for number in sent]
        self._write((update(DELIVERIES).where(_OF_DELIVERY).values(sent=True), rows))

    def drop(
        self,
        numbers: Iterable[int],
        alerts: Iterable[AlertId],
        incidents: Iterable[tuple[str, str]],
        sinks: Iterable[str],
    ) -> None:
        """Removes transitions, the acknowledgements of alerts, the notes of (sink, incident), and sinks.

        What waits to be written of them waits no longer: no more is kept in memory than the ledger keeps.
        """
        numbers, alerts, incidents = {*numbers}, {*alerts}, {*incidents}
        unwritten = {row["number"] for _, rows in self._unwritten for row in rows if "alert" in row} & numbers
        if unwritten:
            gone: list[tuple[Any, ...]] = [("number", number) for number in unwritten]
            gone += [("alert", *alert) for alert in alerts]
            gone += [("incident", *incident) for incident in incidents]
            self._forget({*gone})
            numbers -= unwritten
            if not numbers:
                # Nothing of these alerts was ever written.
                alerts, incidents = set(), set()
        dropped = [{"of_number": number} for number in sorted(numbers)]
        absent = [{"of_sink": sink} for sink in sinks]
        self._write(
            (delete(ALERTS).where(ALERTS.c.number == bindparam("of_number")), dropped),
            (delete(DELIVERIES).where(DELIVERIES.c.number == bindparam("of_number")), dropped),
            (delete(ACKNOWLEDGEMENTS).where(_OF_ALERT), [_of_alert(alert) for alert in alerts]),
            (_forget_incident(), [{"of_sink": sink, "of_incident": incident} for sink, incident in incidents]),
            (delete(SINKS).where(SINKS.c.name == bindparam("of_sink")), absent),
            (delete(DELIVERIES).where(DELIVERIES.c.sink == bindparam("of_sink")), absent),
            (delete(NOTIFIED).where(NOTIFIED.c.sink == bindparam("of_sink")), absent),
        )

    def _forget(self, about: Collection[tuple[Any, ...]]) -> None:
        """Keeps nothing unwritten about these (`_about`)."""
        steps = [(statement, [row for row in rows if _about(row) not in about]) for statement, rows in self._unwritten]
        self._unwritten = [(statement, rows) for statement, rows in steps if rows]

    @property
    def is_behind(self) -> bool:
        """Whether something is kept that could not be written yet."""
        return bool(self._unwritten)

    def write_rest(self) -> None:
        """Writes what could not be written until now, if there is any; for as long as it cannot be, in vain."""
        if self._unwritten and time.monotonic() >= self._retry_at:
            self._write_or_keep(self._unwritten)

    def _write(self, *steps: _Step) -> None:
        due = [(statement, parameters) for statement, parameters in steps if parameters]
        if not due:
            return
        if self._unwritten and time.monotonic() < self._retry_at:
            self._unwritten += due
        else:
            self._write_or_keep([*self._unwritten, *due])

    def _write_or_keep(self, steps: list[_Step]) -> None:
        try:
            self._execute(steps)
        except UnwritableStoreError as problem:
            if not self._unwritten:
                _LOG.warning("%s; alerts are sent meanwhile, and recorded once it can be written", problem)
            self._unwritten = steps
            self._retry_at = time.monotonic() + _RETRY_S
        else:
            if self._unwritten:
                _LOG.warning("%s can be written again: everything is recorded", self._database.place)
            self._unwritten = []

    def _execute(self, steps: Sequence[_Step]) -> None:
        with self._database.transaction() as connection:
            if self._lease is not None:
                self._lease.fence(connection)
            for statement, parameters in steps:
                connection.execute(statement, parameters)


def _about(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns which transition, alert or note of (sink, incident) a row of a step adds something to."""
    if row.keys() == {"of_number"}:
        # It removes a transition that was written; its number may be used again.
        return ()
    if "number" in row or "of_number" in row:
        return "number", row.get("number", row.get("of_number"))
    if "of_fingerprint" in row:
        return "alert", row["of_fingerprint"], row["of_start"]
    if "incident" in row or "of_incident" in row:
        return "incident", row.get("sink", row.get("of_sink")), row.get("incident", row.get("of_incident"))
    return ()


_OF_ALERT = (ACKNOWLEDGEMENTS.c.fingerprint == bindparam("of_fingerprint")) & (
    ACKNOWLEDGEMENTS.c.started_at_ms == bindparam("of_start")
)
_OF_DELIVERY = (DELIVERIES.c.sink == bindparam("of_sink")) & (DELIVERIES.c.number == bindparam("of_number"))
_PLAIN_COLUMNS = ("number", "recorded_at_ms", "incident", "escalations")


def _alerts(connection: Connection) -> Iterator[AlertRecord]:
    for row in connection.execute(select(ALERTS).order_by(ALERTS.c.number)):
        yield AlertRecord(**{**row._mapping, "alert": ALERT.validate_python(row.alert)})


def _sinks(connection: Connection) -> Mapping[str, SinkRecord]:
    names = connection.scalars(select(SINKS.c.name).order_by(SINKS.c.number))
    found = {name: SinkRecord(status={}, sent=set(), notified={}) for name in names}
    for row in connection.execute(select(DELIVERIES).order_by(DELIVERIES.c.number)):
        found[row.sink].status[row.number] = DeliveryStatus(row.status)
        found[row.sink].sent.update([row.number] if row.sent else [])
    for row in connection.execute(select(NOTIFIED)):
        found[row.sink].notified[row.incident] = Notified(at_ms=Millis(row.at_ms), acknowledged=row.acknowledged or "")
    return found


def _forget_incident() -> Executable:
    return delete(NOTIFIED).where(
        NOTIFIED.c.sink == bindparam("of_sink"), NOTIFIED.c.incident == bindparam("of_incident")
    )


def _end_acknowledgement() -> Executable:
    ended = ACKNOWLEDGEMENTS.c.until_ms
    return (
        update(ACKNOWLEDGEMENTS)
        .where(
            _OF_ALERT,
            ACKNOWLEDGEMENTS.c.severity == bindparam("of_severity"),
            ended.is_(None) | (ended > bindparam("now_ms")),
        )
        .values(until_ms=bindparam("now_ms"))
    )


def _of_alert(alert: AlertId) -> dict[str, Any]:
    fingerprint, started_at_ms = alert
    return {"of_fingerprint": fingerprint, "of_start": started_at_ms}


def _to_plain(alert: Alert) -> dict[str, Any]:
    return {**ALERT.dump_python(alert), "evidence": json_safe(alert.evidence)}
