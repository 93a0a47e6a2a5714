"""Ledger: records every alert and its delivery to each sink, in the job's database.

An alert is on disk in the ledger before any sink is called. It is identified by `Alert.key`, so a batch that is
delivered again after a crash records nothing twice. The content is also in memory: every change is committed first and
then applied there.

The ledger is bounded: alerts that ended too long ago are dropped unless they are what has escalated an open incident,
or a sink still has to get them; those that ended too many alerts ago also then.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice, takewhile

from connectors.errors import StoreError
from connectors.store.alert_store import AlertRecord, AlertStore, DeliveryStatus, SinkRecord
from connectors.store.database import Database
from connectors.store.lease import Lease
from rules.alert import Alert, AlertKey, AlertState
from rules.evaluate import ALL_RULES
from rules.finding import Severity
from rules.firing import Firing, reconciled
from rules.model.identifiers import Millis
from rules.notifications.incident import IncidentGrouper, deduplication_key
from rules.notifications.notification import Notified, TransitionStatus

_LOG = logging.getLogger(__name__)
TEXT_S = 10.0
"""How often newer texts of firing alerts are stored: they change with each evaluation."""
_KEEP_MS = 30 * 86_400_000
"""How long an alert is kept, by the clock that `record` is given."""


class _Views:
    """What follows from which transitions are recorded and delivered; each view is computed when it is read first.

    A view has keys, because the text of a recorded transition changes with each evaluation.
    """

    def __init__(self, records: Mapping[AlertKey, AlertRecord], sinks: Mapping[str, SinkRecord]) -> None:
        self._records, self._sinks = records, sinks
        self._pending: dict[str, Sequence[AlertKey]] = {}

    def pending(self, sink: str) -> Sequence[AlertKey]:
        """Returns the transitions that are pending for a sink, oldest first."""
        if sink not in self._pending:
            self._pending[sink] = self._pending_of(sink, self._records.items())
        return self._pending[sink]

    def forget_pending(self, sink: str) -> None:
        """A transition may have become pending for this sink."""
        self._pending.pop(sink, None)

    def settle(self, sink: str) -> None:
        """Transitions are no longer pending for this sink: only those that were are looked at."""
        before = self._pending.get(sink)
        if before is not None:
            self._pending[sink] = self._pending_of(sink, ((key, self._records[key]) for key in before))

    def _pending_of(self, sink: str, records: Iterable[tuple[AlertKey, AlertRecord]]) -> Sequence[AlertKey]:
        status = self._sinks[sink].status
        return [key for key, record in records if status[record.number] is DeliveryStatus.PENDING]

    @cached_property
    def newest(self) -> Mapping[str, Mapping[tuple[str, str], AlertKey]]:
        """By cluster, then by rule and subject: the newest transition of each alert."""
        found: dict[str, dict[tuple[str, str], AlertKey]] = {}
        for key, record in self._records.items():
            found.setdefault(record.alert.cluster, {})[record.alert.rule, record.alert.subject] = key
        return found

    @cached_property
    def firing(self) -> Mapping[AlertKey, int]:
        """The newest transition of each alert that is firing, with its number, oldest first."""
        newest = [self._records[key] for of_cluster in self.newest.values() for key in of_cluster.values()]
        firing = [record for record in newest if record.alert.state is AlertState.FIRING]
        return {record.alert.key: record.number for record in sorted(firing, key=lambda record: record.number)}

    @cached_property
    def incidents(self) -> Mapping[str, Sequence[AlertKey]]:
        """The transitions of each incident, oldest first."""
        found: dict[str, list[AlertKey]] = {}
        for key, record in self._records.items():
            found.setdefault(record.incident, []).append(key)
        return found


class Ledger:
    """Opened by one process at a time: the job that delivers.

    Each method that reads or writes the database raises StoreError if it cannot; then the content is as it was. A disk
    that is full, or fails, is no error: what it does not take is written later (`AlertStore`).
    """

    def __init__(self, database: Database, lease: Lease | None = None, *, keep_entries: int = 10_000) -> None:
        """Reads the ledger; `lease`: under which this job notifies, None where it is the only one."""
        self._store = AlertStore(database, lease)
        self._lease = lease
        self._keep_entries = keep_entries
        self._active_sinks: set[str] = set()
        """The sinks that are configured now."""
        self._earlier: dict[str, Mapping[str, Sequence[Alert]]] = {}
        """By sink that this process added, and by incident that was open then: the transitions that it does not get."""
        self._texts_due_at = 0.0
        self.refresh()

    def refresh(self) -> None:
        """Reads the ledger again: whether a write took effect whose answer was lost, or what another job wrote."""
        records, sinks = self._store.content()
        self._records: dict[AlertKey, AlertRecord] = {record.alert.key: record for record in records}
        """Every transition, oldest first."""
        self._sinks: dict[str, SinkRecord] = dict(sinks)
        """The known sinks, also those that are not configured now."""
        self._unstored_texts: set[AlertKey] = set()
        """Transitions that have another text in memory than in the database."""
        self._views = _Views(self._records, self._sinks)
        self._grouper = self._grouped()

    def _grouped(self) -> IncidentGrouper:
        grouper = IncidentGrouper(ALL_RULES)
        for record in self._records.values():
            grouper.add(record.alert, record.incident, at_ms=record.recorded_at_ms, escalations=record.escalations)
        return grouper

    def add_sink(self, sink: str, takes: Callable[[Alert], bool] = lambda _: False) -> None:
        """Adds a sink. For a new sink, everything that is firing is pending, and every later transition.

        For a known one, the firing alerts are pending again that were discarded, and that its route `takes` by now.
        """
        self._active_sinks.add(sink)
        stored, firing = self._sinks.get(sink), self._views.firing
        if stored is None:
            # Discarded, not delivered: else the sink would be notified that an alert it does not know resolved.
            status = {
                record.number: DeliveryStatus.PENDING if key in firing else DeliveryStatus.DISCARDED
                for key, record in self._records.items()
            }
            self._store.add_sink(sink, status)
            self._sinks[sink] = SinkRecord(status=status, sent=set(), notified={})
            self._earlier[sink] = {
                incident: [self._records[key].alert for key in self._views.incidents[incident] if key not in firing]
                for incident in {self._records[key].incident for key in firing}
            }
        else:
            again = {
                number: DeliveryStatus.PENDING
                for key, number in firing.items()
                if stored.status[number] is DeliveryStatus.DISCARDED and takes(self._records[key].alert)
            }
            self._store.note(sink, again)
            stored.status.update(again)
        self._views.forget_pending(sink)

    def deactivate_sink(self, sink: str) -> None:
        """Marks a sink as no longer configured.

        If it is added again, it receives what it missed, as far as the ledger still has it.
        """
        self._active_sinks.discard(sink)

    def reconcile(self, firings: Iterable[Firing], now_ms: Millis) -> int:
        """Records what changed in each cluster, so that the alerts that fire here are those that fire there.

        Returns how many transitions were recorded, or alerts got another text. Texts are stored every TEXT_S seconds:
        one that is lost is found again.
        """
        rewritten = 0
        new: dict[AlertKey, Alert] = {}
        newest: dict[str, dict[tuple[str, str], Alert]] = {}
        for firing in firings:
            if firing.cluster not in newest:
                recorded = self._views.newest.get(firing.cluster, {})
                newest[firing.cluster] = {about: self._records[key].alert for about, key in recorded.items()}
            known = newest[firing.cluster]
            found = reconciled(firing, known, now_ms=now_ms)
            known.update({(one.rule, one.subject): one for one in (*found.transitions, *found.rewritten)})
            new.update({transition.key: transition for transition in found.transitions})
            for alert in found.rewritten:
                if alert.key in new:
                    new[alert.key] = alert
                else:
                    self._rewrite(alert)
            rewritten += len(found.rewritten)
        recorded_count = len(self.record([*new.values()], now_ms))
        self._store_texts()
        return rewritten + recorded_count

    def record(self, alerts: Sequence[Alert], now_ms: Millis) -> Sequence[Alert]:
        """Records the alerts that are new, for every known sink; returns them in order, with their lateness."""
        new: dict[AlertKey, Alert] = {}
        for alert in alerts:
            if alert.key not in self._records:
                new.setdefault(alert.key, alert.recorded(now_ms))
        records = self._numbered([*new.values()], now_ms)
        try:
            self._store.add(records, self._sinks.keys())
        except StoreError:
            self._grouper = self._grouped()
            raise
        if records:
            self._records.update({record.alert.key: record for record in records})
            self._views = _Views(self._records, self._sinks)
            for stored in self._sinks.values():
                stored.status.update({record.number: DeliveryStatus.PENDING for record in records})
        self._drop_old(now_ms)
        return tuple(new.values())

    def pending(self, sink: str) -> Sequence[Alert]:
        """Returns the transitions that are pending for a known sink, oldest first."""
        return [record.alert for record in self._pending(sink)]

    def pending_count(self, sink: str) -> int:
        """Returns how many transitions are pending for a known sink."""
        return len(self._views.pending(sink))

    def incidents(self, sink: str) -> Mapping[str, Sequence[TransitionStatus]]:
        """Returns the transitions of each incident that is firing or has a pending transition, for a known sink.

        Discarded transitions are left out.
        """
        stored = self._sinks[sink]
        status = stored.status
        incident_of = {
            record.number: record.incident
            for record in (*self._pending(sink), *(self._records[key] for key in self._views.firing))
        }
        return {
            incident: [
                TransitionStatus(
                    alert=record.alert,
                    delivered=status[record.number] is DeliveryStatus.DELIVERED,
                    maybe_delivered=status[record.number] is DeliveryStatus.PENDING and record.number in stored.sent,
                    escalations=record.escalations,
                )
                for record in self._of_incident(incident)
                if status[record.number] is not DeliveryStatus.DISCARDED
            ]
            for incident in dict.fromkeys(incident_of[number] for number in sorted(incident_of))
        }

    def earlier(self, sink: str) -> Mapping[str, Sequence[Alert]]:
        """Returns the transitions from before a sink was added, by incident that was open then.

        They are known to the process that added it: they only say what its first notifications are about.
        """
        return self._earlier.get(sink, {})

    def last_notified(self, sink: str) -> Mapping[str, Notified]:
        """Returns the last notification of each incident that a known sink was sent."""
        return self._sinks[sink].notified

    def begin_calls(self, alerts: Mapping[str, Iterable[AlertKey]]) -> None:
        """Records what each of these sinks, which are known, is sent now: whatever happens then, it may have it.

        Raises LeaseLostError if another job notifies now: no sink must be called.
        """
        new = {
            sink: {self._records[key].number for key in keys} - self._sinks[sink].sent for sink, keys in alerts.items()
        }
        self._store.mark_sent(new)
        for sink, numbers in new.items():
            self._sinks[sink].sent.update(numbers)
        if self._lease is not None:
            self._lease.renew()

    def mark_delivered(
        self, sink: str, keys: Collection[AlertKey], *, notified: Mapping[str, Notified] | None = None
    ) -> None:
        """Records that a known sink accepted these alerts, and what it was notified of by incident."""
        self._note(sink, keys, DeliveryStatus.DELIVERED, notified or {})

    def discard(self, sink: str, keys: Collection[AlertKey]) -> None:
        """Records that these alerts are never sent to a sink."""
        self._note(sink, keys, DeliveryStatus.DISCARDED, {})

    def firing(self) -> Sequence[Alert]:
        """Returns the newest transition of each alert that is firing, oldest first."""
        return [self._records[key].alert for key in self._views.firing]

    def history(self) -> Sequence[Alert]:
        """Returns every transition in the ledger, oldest first."""
        return tuple(record.alert for record in self._records.values())

    def _pending(self, sink: str) -> Sequence[AlertRecord]:
        return [self._records[key] for key in self._views.pending(sink)]

    def _of_incident(self, incident: str) -> Sequence[AlertRecord]:
        return [self._records[key] for key in self._views.incidents[incident]]

    def _rewrite(self, alert: Alert) -> None:
        self._records[alert.key] = replace(self._records[alert.key], alert=alert)
        self._unstored_texts.add(alert.key)

    def _store_texts(self) -> None:
        self._store.write_rest()
        # While the disk is full, the newest text of each alert waits here: in the store, each one would.
        if self._unstored_texts and not self._store.is_behind and time.monotonic() >= self._texts_due_at:
            self._store.rewrite([self._records[key] for key in self._unstored_texts])
            self._unstored_texts = set()
            self._texts_due_at = time.monotonic() + TEXT_S

    def _note(
        self, sink: str, keys: Collection[AlertKey], status: DeliveryStatus, notified: Mapping[str, Notified]
    ) -> None:
        stored = self._sinks[sink]
        numbers = [self._records[key].number for key in keys if key in self._records]
        changed = {number: status for number in numbers if stored.status[number] is DeliveryStatus.PENDING}
        if not changed and not notified:
            return
        self._store.note(sink, changed, notified)
        stored.status.update(changed)
        stored.notified.update(notified)
        self._views.settle(sink)

    def _numbered(self, alerts: Sequence[Alert], at_ms: Millis) -> Sequence[AlertRecord]:
        """Returns the records of new alerts, with numbers and incidents; they are neither stored nor applied yet."""
        keys = self._open_keys() if alerts else set()
        newest = next((record.number for record in reversed(self._records.values())), 0)
        records = []
        for number, alert in enumerate(alerts, start=newest + 1):
            incident = self._grouper.assign(alert, at_ms=at_ms, keys_in_use=keys)
            keys.add(deduplication_key(incident))
            records.append(
                AlertRecord(
                    number=number,
                    recorded_at_ms=at_ms,
                    incident=incident,
                    escalations=self._grouper.escalations(incident),
                    alert=alert,
                )
            )
        return records

    def _open_keys(self) -> set[str]:
        """Returns the keys of the incidents that are firing, or of which a sink was not sent everything."""
        firing = (self._records[key] for key in self._views.firing)
        pending = (record for sink in self._sinks for record in self._pending(sink))
        return {deduplication_key(record.incident) for record in (*firing, *pending)}

    def _drop_old(self, now_ms: Millis) -> None:
        """Drops alerts whose end is too old, or too many ago, with all their transitions."""
        excess = max(0, len(self._records) - self._keep_entries)
        old = [*islice(self._records.values(), excess)]
        others = islice(self._records.values(), excess, None)
        # By a clock that is ahead everything is old.
        aged = [*takewhile(lambda one: one.recorded_at_ms < now_ms - _KEEP_MS, others)]
        firing = [self._records[key] for key in self._views.firing] if old or aged else []
        if aged:
            pending = {record.alert.alert_id for sink in self._active_sinks for record in self._pending(sink)}
            # What was critical in an open incident that has escalated: it names its newest page.
            open_ = {record.incident for record in firing}
            escalated = {
                record.alert.alert_id
                for record in aged
                if record.escalations and record.alert.severity is Severity.CRITICAL and record.incident in open_
            }
            old += [record for record in aged if record.alert.alert_id not in pending | escalated]
        still_firing = {record.alert.alert_id for record in firing}
        candidates = [record for record in old if record.alert.alert_id not in still_firing]
        # All transitions of an alert are in one incident.
        near = [
            record
            for incident in {candidate.incident for candidate in candidates}
            for record in self._of_incident(incident)
        ]
        newest = {record.alert.alert_id: record.number for record in near}
        ended = {
            candidate.alert.alert_id for candidate in candidates if newest[candidate.alert.alert_id] == candidate.number
        }
        if ended:
            self._drop([record for record in near if record.alert.alert_id in ended])

    def _drop(self, dropped: Sequence[AlertRecord]) -> None:
        numbers, keys = {record.number for record in dropped}, {record.alert.key for record in dropped}
        empty = {record.incident for record in dropped if keys.issuperset(self._views.incidents[record.incident])}
        waiting = {sink: numbers.intersection(record.number for record in self._pending(sink)) for sink in self._sinks}
        undelivered = {number for sink in self._active_sinks for number in waiting[sink]}
        absent = {sink for sink in self._sinks if sink not in self._active_sinks and waiting[sink]}
        ended = [(sink, one) for sink, stored in self._sinks.items() for one in empty & stored.notified.keys()]
        self._store.drop(numbers, {record.alert.alert_id for record in dropped}, ended, absent)
        for sink in absent:
            del self._sinks[sink]
        for key in keys:
            del self._records[key]
        self._unstored_texts -= keys
        self._views = _Views(self._records, self._sinks)
        for stored in self._sinks.values():
            for number in numbers:
                del stored.status[number]
            stored.sent.difference_update(numbers)
            for incident in empty:
                stored.notified.pop(incident, None)
        if undelivered:
            _LOG.warning("%d alerts were dropped undelivered: they exceed what the ledger keeps.", len(undelivered))


def firing_alerts(database: Database) -> Sequence[Alert]:
    """Returns the alerts that fire in a ledger, oldest first, as `stored_alerts`."""
    newest = {alert.fingerprint: alert for alert in stored_alerts(database)}
    return [alert for alert in newest.values() if alert.state is AlertState.FIRING]


def stored_alerts(database: Database) -> Sequence[Alert]:
    """Returns the alerts of a ledger, oldest first, while a job may write to it; raises StoreError as a Ledger."""
    return tuple(record.alert for record in AlertStore(database).alerts())
