"""LedgerIndex: the content of a ledger in memory, one `AlertRecord` for each transition."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from connectors.delivery.ledger_record import (
    AlertDelivered,
    AlertRecorded,
    IncidentNotified,
    LedgerDamaged,
    LedgerRecord,
    LedgerRestored,
    SinkAdded,
    SinkRemoved,
)
from connectors.sinks.alert_json import Key
from rules.alert import Alert, AlertState
from rules.evaluate import RULES
from rules.model.identifiers import Millis
from rules.notifications.alert_history import TransitionStatus
from rules.notifications.incident import IncidentGrouper, deduplication_key, incident_id


class DeliveryStatus(Enum):
    """How far the delivery of one transition to one sink is."""

    PENDING = auto()
    DELIVERED = auto()
    """The sink accepted it."""
    DISCARDED = auto()
    """It is never sent to this sink, and does not count as delivered."""


@dataclass(slots=True, eq=False)
class AlertRecord:
    """One transition and its delivery status for each known sink."""

    line: AlertRecorded
    status: dict[str, DeliveryStatus]
    """By sink."""

    @property
    def number(self) -> int:
        """The number of the transition in the ledger: a higher number is newer."""
        return self.line.number

    @property
    def alert(self) -> Alert:
        """The transition."""
        return self.line.alert

    @property
    def firing(self) -> bool:
        """Whether this transition is `firing`."""
        return self.line.alert.state is AlertState.FIRING

    @property
    def alert_id(self) -> tuple[str, Millis]:
        """The same for all transitions of one alert from firing to resolved."""
        return self.line.alert.fingerprint, self.line.alert.started_at_ms


@dataclass(slots=True)
class _SinkState:
    """What is pending for one sink, and when it was last notified."""

    pending: dict[int, AlertRecord] = field(default_factory=dict)
    """By number, oldest first."""
    last_notified_ms: dict[str, Millis] = field(default_factory=dict)
    """By incident."""


class LedgerIndex:
    """Applies ledger records in order and answers queries about the result."""

    def __init__(self) -> None:
        self._grouper = IncidentGrouper(RULES)
        self._records: dict[int, AlertRecord] = {}
        """By number, oldest first: the other mappings refer to these records."""
        self._by_key: dict[Key, AlertRecord] = {}
        self._newest: dict[str, AlertRecord] = {}
        """By fingerprint."""
        self._firing: dict[int, AlertRecord] = {}
        """By number: the newest transition of each alert that is firing."""
        self._by_incident: dict[str, dict[int, AlertRecord]] = {}
        self._sinks: dict[str, _SinkState] = {}
        self.next_number = 0
        self.change_count = 0
        """How many changes were applied."""
        self.damage: LedgerDamaged | None = None
        """Damage whose losses are not restored yet."""

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    @property
    def sinks(self) -> Collection[str]:
        """The names of the known sinks."""
        return self._sinks.keys()

    def apply(self, record: LedgerRecord) -> None:
        """Applies one ledger record."""
        self.change_count += 1
        match record:
            case AlertRecorded():
                self._add_alert(record)
            case AlertDelivered():
                self._mark_delivered(record)
            case IncidentNotified(sink=sink, incident=incident, at_ms=at_ms):
                if sink in self._sinks:
                    self._sinks[sink].last_notified_ms[incident] = at_ms
            case SinkAdded(sink=sink):
                self._add_sink(sink)
            case SinkRemoved(sink=sink):
                self._sinks.pop(sink, None)
                for each in self._records.values():
                    each.status.pop(sink, None)
            case LedgerDamaged():
                self.damage = record
            case LedgerRestored():
                self.damage = None

    def _add_alert(self, line: AlertRecorded) -> None:
        number, alert = line.number, line.alert
        self.next_number = max(self.next_number, number + 1)
        record = AlertRecord(line, dict.fromkeys(self._sinks, DeliveryStatus.PENDING))
        self._records[number] = self._by_key[alert.key] = record
        self._by_incident.setdefault(line.incident, {})[number] = record
        for sink in self._sinks.values():
            sink.pending[number] = record
        before = self._newest.get(alert.fingerprint)
        if before is not None:
            self._firing.pop(before.number, None)
        self._newest[alert.fingerprint] = record
        if record.firing:
            self._firing[number] = record
        self._grouper.add(alert, line.incident, at_ms=line.recorded_at_ms, escalations=line.escalations)

    def _mark_delivered(self, delivered: AlertDelivered) -> None:
        # The line of the alert itself may be damaged: its number must not be used again.
        self.next_number = max(self.next_number, delivered.number + 1)
        sink, record = self._sinks.get(delivered.sink), self._records.get(delivered.number)
        if sink is None or record is None:
            return
        sink.pending.pop(delivered.number, None)
        status = DeliveryStatus.DISCARDED if delivered.discarded else DeliveryStatus.DELIVERED
        record.status[delivered.sink] = status

    def _add_sink(self, sink: str) -> None:
        state = self._sinks.setdefault(sink, _SinkState())
        # While a damaged ledger is not restored, the line that added this sink may be lost: everything may be pending.
        known = self._firing if self.damage is None else self._records
        state.pending = {number: known[number] for number in sorted(known)}
        for number, record in self._records.items():
            # Discarded, not delivered: else the sink would be notified that an alert it does not know resolved.
            pending = number in state.pending
            record.status[sink] = DeliveryStatus.PENDING if pending else DeliveryStatus.DISCARDED

    def new_records(self, alerts: Sequence[Alert], at_ms: Millis) -> Sequence[AlertRecorded]:
        """Returns ledger records for new alerts, with numbers and incidents; they are not applied yet."""
        # The incident of an alert may depend on the alert before it.
        grouper = self._grouper.copy() if alerts else self._grouper
        new: dict[str, str] = {}
        records = []
        for number, alert in enumerate(alerts, start=self.next_number):
            incident = grouper.assign(alert, at_ms=at_ms)
            escalations = grouper.escalations(incident)
            if incident not in self._by_incident and incident not in new:
                new[incident] = self._new_id(alert, incident, new.values())
            incident = new.get(incident, incident)
            records.append(
                AlertRecorded(
                    number=number, recorded_at_ms=at_ms, incident=incident, alert=alert, escalations=escalations
                )
            )
        return records

    def _new_id(self, alert: Alert, unique: str, new: Collection[str]) -> str:
        """Returns the id of a new incident.

        Without the key that jobs share while another incident with it is firing or pending: a service would take the
        resolution of one for that of the other.
        """
        key = alert.fingerprint
        in_use = [*self._firing.values(), *(each for sink in self._sinks.values() for each in sink.pending.values())]
        open_incidents = {*new, *(record.line.incident for record in in_use)}
        return unique if key in map(deduplication_key, open_incidents) else incident_id(alert, unique)

    def pending(self, sink: str) -> Collection[AlertRecord]:
        """Returns what is pending for a known sink, oldest first."""
        return self._sinks[sink].pending.values()

    def pending_numbers(self, sink: str, keys: Collection[Key]) -> Sequence[int]:
        """Returns the numbers of those of these alerts that are pending for a known sink."""
        pending = self._sinks[sink].pending
        records = (self._by_key.get(key) for key in keys)
        return [record.number for record in records if record is not None and record.number in pending]

    def records(self) -> Collection[AlertRecord]:
        """Returns every record, oldest first."""
        return self._records.values()

    def firing(self) -> Sequence[AlertRecord]:
        """Returns the newest transition of each alert that is firing, oldest first."""
        return [self._firing[number] for number in sorted(self._firing)]

    def incidents(self, sink: str) -> Mapping[str, Sequence[TransitionStatus]]:
        """Returns the transitions of each incident that is firing or has a pending transition, for a known sink.

        Discarded transitions are left out.
        """
        active = {**self._sinks[sink].pending, **self._firing}
        incidents = {active[number].line.incident: None for number in sorted(active)}
        return {
            incident: [
                TransitionStatus(
                    alert=record.alert,
                    delivered=status is DeliveryStatus.DELIVERED,
                    escalations=record.line.escalations,
                )
                for record in self._by_incident[incident].values()
                if (status := record.status[sink]) is not DeliveryStatus.DISCARDED
            ]
            for incident in incidents
        }

    def last_notified_ms(self, sink: str) -> Mapping[str, Millis]:
        """Returns when a sink was last notified, by incident."""
        state = self._sinks.get(sink)
        return {} if state is None else state.last_notified_ms

    def needed(self) -> set[int]:
        """Returns the numbers of the records that must not be dropped, whatever their age.

        These are the newest transition of each firing alert, and, for each alert with a pending transition, the
        newest transition that was delivered to that sink: it says that the sink was notified of the alert.
        """
        needed = set(self._firing)
        for sink, state in self._sinks.items():
            pending = {record.alert_id for record in state.pending.values()}
            last_delivered: dict[tuple[str, Millis], int] = {}
            for number, record in self._records.items() if pending else ():
                if record.alert_id in pending and record.status[sink] is DeliveryStatus.DELIVERED:
                    last_delivered[record.alert_id] = number
            needed.update(last_delivered.values())
        return needed

    def newest(self, fingerprint: str) -> AlertRecord | None:
        """Returns the newest transition with this fingerprint."""
        return self._newest.get(fingerprint)

    def is_newest(self, record: AlertRecord) -> bool:
        """Returns whether no newer transition with the same fingerprint was recorded."""
        return self._newest.get(record.alert.fingerprint) is record

    def drop(self, record: AlertRecord) -> Collection[str]:
        """Removes one record and returns the sinks for which it was pending."""
        self.change_count += 1
        number, alert, incident = record.number, record.alert, record.line.incident
        del self._records[number]
        del self._by_key[alert.key]
        self._firing.pop(number, None)
        if self.is_newest(record):
            del self._newest[alert.fingerprint]
        members = self._by_incident[incident]
        del members[number]
        if not members:
            del self._by_incident[incident]
            for state in self._sinks.values():
                state.last_notified_ms.pop(incident, None)
        return [sink for sink, state in self._sinks.items() if state.pending.pop(number, None) is not None]

    def minimal_records(self) -> Iterator[LedgerRecord]:
        """Yields the fewest ledger records that give this index when they are applied."""
        # Sinks come first, so that every alert after them is pending for every sink until a later record changes it.
        yield from (SinkAdded(sink=sink) for sink in self._sinks)
        yield from (record.line for record in self._records.values())
        for sink in self._sinks:
            for number, record in self._records.items():
                status = record.status[sink]
                if status is not DeliveryStatus.PENDING:
                    discarded = status is DeliveryStatus.DISCARDED
                    yield AlertDelivered(number=number, sink=sink, discarded=discarded)
        for sink, state in self._sinks.items():
            for incident, at_ms in state.last_notified_ms.items():
                yield IncidentNotified(sink=sink, incident=incident, at_ms=at_ms)
        if self.damage is not None:
            yield self.damage
