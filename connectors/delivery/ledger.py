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
        self._records: dict[int, AlertRecord] = {}
        """By number, oldest first: the other mappings refer to these records."""
        self._by_key: dict[AlertKey, AlertRecord] = {}
        self._newest: dict[str, dict[tuple[str, str], AlertRecord]] = {}
        """By cluster, then by rule and subject: the newest transition of each alert."""
        self._unstored_texts: dict[int, AlertRecord] = {}
        """By number: alerts that have another text in memory than in the database."""
        self._firing: dict[int, AlertRecord] = {}
        """By number: the newest transition of each alert that is firing."""
        self._by_incident: dict[str, dict[int, AlertRecord]] = {}
        self._sinks: dict[str, SinkRecord] = {}
        """The known sinks, also those that are not configured now."""
        self._pending: dict[str, dict[int, AlertRecord]] = {}
        """By sink and number, oldest first."""
        for record in records:
            self._apply(record)
        self._grouper = self._grouped()
        for sink, stored in sinks.items():
            self._apply_sink(sink, stored)

    def _grouped(self) -> IncidentGrouper:
        grouper = IncidentGrouper(ALL_RULES)
        for one in self._records.values():
            grouper.add(one.alert, one.incident, at_ms=one.recorded_at_ms, escalations=one.escalations)
        return grouper

    def add_sink(self, sink: str, takes: Callable[[Alert], bool] = lambda _: False) -> None:
        """Adds a sink. For a new sink, everything that is firing is pending, and every later transition.

        For a known one, the firing alerts are pending again that were discarded, and that its route `takes` by now.
        """
        self._active_sinks.add(sink)
        stored = self._sinks.get(sink)
        if stored is None:
            # Discarded, not delivered: else the sink would be notified that an alert it does not know resolved.
            status = {
                number: DeliveryStatus.PENDING if number in self._firing else DeliveryStatus.DISCARDED
                for number in self._records
            }
            self._store.add_sink(sink, status)
            stored = SinkRecord(status=status, notified={})
            still = {record.incident for record in self._firing.values()}
            self._earlier[sink] = {
                each: [one.alert for number, one in self._by_incident[each].items() if number not in self._firing]
                for each in still
            }
        else:
            again = {
                number: DeliveryStatus.PENDING
                for number, record in self._firing.items()
                if stored.status[number] is DeliveryStatus.DISCARDED and takes(record.alert)
            }
            self._store.note(sink, again)
            stored.status.update(again)
        self._apply_sink(sink, stored)

    def deactivate_sink(self, sink: str) -> None:
        """Marks a sink as no longer configured.

        If it is added again, it receives what it missed, as far as the ledger still has it.
        """
        self._active_sinks.discard(sink)

    def reconcile(self, firings: Iterable[Firing], now_ms: Millis) -> int:
        """Records what changed in each cluster, so that the alerts that fire here are those that fire there.

        Returns how many transitions were recorded, or alerts got another text. Texts are
        stored every TEXT_S seconds: one that is lost is found again.
        """
        changed = 0
        for firing in firings:
            newest = self._newest.get(firing.cluster, {})
            of_ended = ((one.resolved.rule, one.resolved.subject) for one in firing.ended)
            of_alerts = ((one.rule, one.subject) for one in firing.alerts)
            of_recorded = (about for about, one in newest.items() if one.number in self._firing)
            known = {about: newest[about].alert for about in (*of_ended, *of_alerts, *of_recorded) if about in newest}
            found = reconciled(firing, known, now_ms=now_ms)
            for alert in found.rewritten:
                self._rewrite(newest[alert.rule, alert.subject], alert)
            changed += len(found.rewritten) + len(self.record(found.transitions, now_ms))
        self._store_texts()
        return changed

    def record(self, alerts: Sequence[Alert], now_ms: Millis) -> Sequence[Alert]:
        """Records the alerts that are new, for every known sink; returns them in order, with their lateness."""
        new: dict[AlertKey, Alert] = {}
        for alert in alerts:
            if alert.key not in self._by_key:
                new.setdefault(alert.key, alert.recorded(now_ms))
        records = self._numbered([*new.values()], now_ms)
        try:
            self._store.add(records, self._sinks.keys())
        except StoreError:
            self._grouper = self._grouped()
            raise
        for record in records:
            self._apply(record)
            for sink, stored in self._sinks.items():
                stored.status[record.number] = DeliveryStatus.PENDING
                self._pending[sink][record.number] = record
        self._drop_old(now_ms)
        return tuple(new.values())

    def pending(self, sink: str) -> Sequence[Alert]:
        """Returns the transitions that are pending for a known sink, oldest first."""
        return [record.alert for record in self._pending[sink].values()]

    def pending_count(self, sink: str) -> int:
        """Returns how many transitions are pending for a known sink."""
        return len(self._pending[sink])

    def incidents(self, sink: str) -> Mapping[str, Sequence[TransitionStatus]]:
        """Returns the transitions of each incident that is firing or has a pending transition, for a known sink.

        Discarded transitions are left out.
        """
        active, status = {**self._pending[sink], **self._firing}, self._sinks[sink].status
        return {
            incident: [
                TransitionStatus(
                    alert=record.alert,
                    delivered=status[number] is DeliveryStatus.DELIVERED,
                    escalations=record.escalations,
                )
                for number, record in self._by_incident[incident].items()
                if status[number] is not DeliveryStatus.DISCARDED
            ]
            for incident in dict.fromkeys(active[number].incident for number in sorted(active))
        }

    def earlier(self, sink: str) -> Mapping[str, Sequence[Alert]]:
        """Returns the transitions from before a sink was added, by incident that was open then.

        They are known to the process that added it: they only say what its first notifications are about.
        """
        return self._earlier.get(sink, {})

    def last_notified(self, sink: str) -> Mapping[str, Notified]:
        """Returns the last notification of each incident that a known sink was sent."""
        return self._sinks[sink].notified

    def begin_call(self, sink: str, notified: Mapping[str, Notified]) -> None:
        """Records the incidents that a known sink is about to be notified of.

        Raises LeaseLostError if another job notifies now: the sink must not be called.
        """
        self._note(sink, (), DeliveryStatus.DELIVERED, notified)
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
        return [self._firing[number].alert for number in sorted(self._firing)]

    def history(self) -> Sequence[Alert]:
        """Returns every transition in the ledger, oldest first."""
        return tuple(record.alert for record in self._records.values())

    def _apply(self, record: AlertRecord) -> None:
        number, alert = record.number, record.alert
        self._records[number] = self._by_key[alert.key] = record
        self._by_incident.setdefault(record.incident, {})[number] = record
        newest = self._newest.setdefault(alert.cluster, {})
        before = newest.get((alert.rule, alert.subject))
        if before is not None:
            self._firing.pop(before.number, None)
        newest[alert.rule, alert.subject] = record
        if alert.state is AlertState.FIRING:
            self._firing[number] = record

    def _rewrite(self, before: AlertRecord, alert: Alert) -> None:
        record = replace(before, alert=alert)
        self._apply(record)
        for pending in self._pending.values():
            if record.number in pending:
                pending[record.number] = record
        self._unstored_texts[record.number] = record

    def _store_texts(self) -> None:
        self._store.write_rest()
        # While the disk is full, the newest text of each alert waits here: in the store, each one would.
        if self._unstored_texts and not self._store.is_behind and time.monotonic() >= self._texts_due_at:
            self._store.rewrite([*self._unstored_texts.values()])
            self._unstored_texts = {}
            self._texts_due_at = time.monotonic() + TEXT_S

    def _apply_sink(self, sink: str, stored: SinkRecord) -> None:
        self._sinks[sink] = stored
        self._pending[sink] = {
            number: record
            for number, record in self._records.items()
            if stored.status[number] is DeliveryStatus.PENDING
        }

    def _note(
        self, sink: str, keys: Collection[AlertKey], status: DeliveryStatus, notified: Mapping[str, Notified]
    ) -> None:
        pending, stored = self._pending[sink], self._sinks[sink]
        known = (self._by_key.get(key) for key in keys)
        changed = {record.number: status for record in known if record is not None and record.number in pending}
        if not changed and not notified:
            return
        self._store.note(sink, changed, notified)
        stored.status.update(changed)
        stored.notified.update(notified)
        for number in changed:
            del pending[number]

    def _numbered(self, alerts: Sequence[Alert], at_ms: Millis) -> Sequence[AlertRecord]:
        """Returns the records of new alerts, with numbers and incidents; they are neither stored nor applied yet."""
        keys = self._open_keys() if alerts else set()
        records = []
        for number, alert in enumerate(alerts, start=max(self._records, default=0) + 1):
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
        in_use = [*self._firing.values(), *(each for pending in self._pending.values() for each in pending.values())]
        return {deduplication_key(record.incident) for record in in_use}

    def _drop_old(self, now_ms: Millis) -> None:
        """Drops alerts whose end is too old, or too many ago, with all their transitions."""
        excess = max(0, len(self._records) - self._keep_entries)
        old = [*islice(self._records.values(), excess)]
        others = islice(self._records.values(), excess, None)
        # By a clock that is ahead everything is old.
        aged = [*takewhile(lambda one: one.recorded_at_ms < now_ms - _KEEP_MS, others)]
        if aged:
            pending = {one.alert.alert_id for sink in self._active_sinks for one in self._pending[sink].values()}
            # What was critical in an open incident that has escalated: it names its newest page.
            open_ = {one.incident for one in self._firing.values()}
            escalated = {
                one.alert.alert_id
                for one in aged
                if one.escalations and one.alert.severity is Severity.CRITICAL and one.incident in open_
            }
            old += [one for one in aged if one.alert.alert_id not in pending | escalated]
        firing = {one.alert.alert_id for one in self._firing.values()} if old else set()
        candidates = [record for record in old if record.alert.alert_id not in firing]
        # All transitions of an alert are in one incident.
        incidents = {each.incident for each in candidates}
        near = {number: one for each in incidents for number, one in self._by_incident[each].items()}
        newest = {one.alert.alert_id: one for one in near.values()}
        ended = {one.alert.alert_id for one in candidates if newest[one.alert.alert_id] is one}
        if ended:
            self._drop({number: one for number, one in near.items() if one.alert.alert_id in ended})

    def _drop(self, dropped: Mapping[int, AlertRecord]) -> None:
        incidents = {record.incident for record in dropped.values()}
        empty = {one for one in incidents if self._by_incident[one].keys() <= dropped.keys()}
        undelivered = {number for sink in self._active_sinks for number in self._pending[sink].keys() & dropped.keys()}
        absent = {
            sink
            for sink, pending in self._pending.items()
            if sink not in self._active_sinks and not pending.keys().isdisjoint(dropped)
        }
        ended = [(sink, one) for sink, stored in self._sinks.items() for one in empty & stored.notified.keys()]
        alerts = {record.alert.alert_id for record in dropped.values()}
        self._store.drop(dropped, alerts, ended, absent)
        for sink in absent:
            del self._sinks[sink], self._pending[sink]
        for number, record in dropped.items():
            del self._records[number], self._by_key[record.alert.key], self._by_incident[record.incident][number]
            about, newest = (record.alert.rule, record.alert.subject), self._newest[record.alert.cluster]
            if newest[about].number == number:
                del newest[about]
            for sink, stored in self._sinks.items():
                del stored.status[number]
                self._pending[sink].pop(number, None)
        for incident in empty:
            del self._by_incident[incident]
            for stored in self._sinks.values():
                stored.notified.pop(incident, None)
        if undelivered:
            _LOG.warning("%d alerts were dropped undelivered: they exceed what the ledger keeps.", len(undelivered))


def firing_alerts(database: Database) -> Sequence[Alert]:
    """Returns the alerts that fire in a ledger, oldest first, as `stored_alerts`."""
    newest = {one.fingerprint: one for one in stored_alerts(database)}
    return [one for one in newest.values() if one.state is AlertState.FIRING]


def stored_alerts(database: Database) -> Sequence[Alert]:
    """Returns the alerts of a ledger, oldest first, while a job may write to it; raises StoreError as a Ledger."""
    return tuple(record.alert for record in AlertStore(database).alerts())
