"""Ledger: records every alert and its delivery to each sink, in one file beside the checkpoint.

An alert is on disk in the ledger before any sink is called. It is identified by `Alert.key`, so a batch that is
delivered again after a crash records nothing twice.

A ledger that is damaged on disk (`ledger_file`) is kept under another name and replaced by what can be read of it.
While the ledger is open, its content is in memory and nothing is lost; the file is checked once a minute. At start-up,
`restore` compares it with the alerts in Spark's state: a lost alert is recorded and sent, one that ended is resolved.
If a delivery's line is lost, the alert is sent again, which sinks tolerate.

The ledger is bounded: alerts that are too old or too many are dropped, delivered or not, but never the newest
transition of an alert that is firing.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from connectors.delivery import ledger_record
from connectors.delivery.ledger_file import LedgerFile
from connectors.delivery.ledger_index import LedgerIndex
from connectors.delivery.ledger_record import (
    AlertDelivered,
    IncidentNotified,
    LedgerDamaged,
    LedgerRecord,
    LedgerRestored,
    SinkAdded,
    SinkRemoved,
)
from connectors.delivery.ledger_restoration import EvaluatedCluster, lost_transitions, sinks_without_addition
from connectors.errors import LedgerError
from connectors.sinks.alert_json import Key
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.alert_history import TransitionStatus

_LOG = logging.getLogger(__name__)
_DAY_S = 86_400.0
_CHECK_EVERY_MS = 60_000
"""How often the content of the file is compared with what was written: a few milliseconds for the largest ledger."""
_REWRITE_FACTOR = 2
_REWRITE_SLACK = 1_000


def read_alerts(path: Path) -> Sequence[Alert]:
    """Reads the alerts of a ledger, oldest first, while another process may write to it. Changes nothing.

    Raises:
        OSError: the file does not exist or cannot be read.
    """
    records = map(ledger_record.from_line, path.read_bytes().splitlines())
    return tuple({one.number: one.alert for one in records if isinstance(one, ledger_record.AlertRecorded)}.values())


class Ledger:
    """Opened by one process at a time: the job that delivers."""

    def __init__(
        self, path: Path, *, keep_entries: int = 10_000, keep_s: float = 30 * _DAY_S, must_exist: bool = False
    ) -> None:
        """Reads the ledger, or creates it.

        Args:
            path: the file; its folder is created if it does not exist.
            keep_entries: the number of alerts that are kept, the newest ones.
            keep_s: how long an alert is kept, by the clock that `record` is given.
            must_exist: Spark has state, so that a missing or empty ledger was deleted or emptied.

        Raises:
            LedgerError: the file cannot be read or written.
        """
        self._path = path
        self._keep_entries = keep_entries
        self._keep_ms = round(keep_s * 1000)
        self._index = LedgerIndex()
        self._active_sinks: set[str] = set()
        """The sinks that are configured now; the index may know further sinks from before."""
        self._file = LedgerFile(path)
        self._checked_ms = Millis(0)
        self.damages: list[LedgerDamaged] = []
        """Every damage that was noticed since the ledger was opened."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._read(must_exist=must_exist)
            self._rewrite()
        except OSError as error:
            raise self._error(error) from error

    def add_sink(self, sink: str) -> None:
        """Adds a sink. For a new sink, everything that is firing is pending, and every later transition.

        Raises:
            LedgerError: the file cannot be written.
        """
        self._active_sinks.add(sink)
        if sink not in self._index.sinks:
            self._append([SinkAdded(sink=sink)])

    def deactivate_sink(self, sink: str) -> None:
        """Marks a sink as no longer configured.

        If it is added again, it receives what it missed, as far as the ledger still has it.
        """
        self._active_sinks.discard(sink)

    def record(self, alerts: Sequence[Alert], now_ms: Millis) -> Sequence[Alert]:
        """Records the alerts that are new, for every known sink; returns them in order, on disk.

        Raises:
            LedgerError: the file cannot be written; none of the alerts was recorded.
        """
        new: dict[Key, Alert] = {}
        for alert in alerts:
            if alert.key not in self._index:
                new.setdefault(alert.key, alert)
        self._append(self._index.new_records(tuple(new.values()), now_ms))
        if abs(now_ms - self._checked_ms) >= _CHECK_EVERY_MS:
            self._checked_ms = now_ms
            self._check_file(whole=True)
        self._drop_old(now_ms)
        return tuple(new.values())

    @property
    def change_count(self) -> int:
        """A number that changes whenever the content of the ledger changes."""
        return self._index.change_count

    def pending(self, sink: str) -> Sequence[Alert]:
        """Returns the transitions that are pending for a known sink, oldest first."""
        return [record.alert for record in self._index.pending(sink)]

    def pending_count(self, sink: str) -> int:
        """Returns how many transitions are pending for a known sink."""
        return len(self._index.pending(sink))

    def incidents(self, sink: str) -> Mapping[str, Sequence[TransitionStatus]]:
        """Returns, for a known sink, the incidents that are firing or have a pending transition."""
        return self._index.incidents(sink)

    def last_notified_ms(self, sink: str) -> Mapping[str, Millis]:
        """Returns when a sink was last notified, by incident."""
        return self._index.last_notified_ms(sink)

    def mark_delivered(
        self, sink: str, keys: Collection[Key], *, notified_ms: Mapping[str, Millis] | None = None
    ) -> None:
        """Records that a sink accepted these alerts.

        Args:
            sink: a known sink.
            keys: the keys of the alerts.
            notified_ms: the incidents that the sink was notified of, and when.

        Raises:
            LedgerError: the file cannot be written.
        """
        records: list[LedgerRecord] = [
            AlertDelivered(number=number, sink=sink) for number in self._index.pending_numbers(sink, keys)
        ]
        records += [
            IncidentNotified(sink=sink, incident=incident, at_ms=at_ms)
            for incident, at_ms in (notified_ms or {}).items()
        ]
        self._append(records)

    def discard(self, sink: str, keys: Collection[Key]) -> None:
        """Records that these alerts are never sent to a sink.

        Raises:
            LedgerError: the file cannot be written.
        """
        numbers = self._index.pending_numbers(sink, keys)
        self._append([AlertDelivered(number=number, sink=sink, discarded=True) for number in numbers])

    def firing(self) -> Sequence[Alert]:
        """Returns the newest transition of each alert that is firing, oldest first."""
        return [record.alert for record in self._index.firing()]

    def history(self) -> Sequence[Alert]:
        """Returns every transition in the ledger, oldest first."""
        return tuple(record.alert for record in self._index.records())

    def newest(self, fingerprint: str) -> Alert | None:
        """Returns the newest transition with this fingerprint; None if there is none."""
        record = self._index.newest(fingerprint)
        return None if record is None else record.alert

    @property
    def damage(self) -> LedgerDamaged | None:
        """The damage whose losses `restore` has not restored yet."""
        return self._index.damage

    def restore(self, clusters: Sequence[EvaluatedCluster], now_ms: Millis) -> Sequence[Alert]:
        """Records again what a damaged ledger has lost; nothing if it is not damaged.

        Args:
            clusters: the alerts that are firing in Spark's state, for every cluster that has state.
            now_ms: the wall clock.

        Returns:
            The transitions that were recorded again, or that were never recorded.

        Raises:
            LedgerError: the file cannot be written.
        """
        damage = self._index.damage
        if damage is None:
            return ()
        lost = lost_transitions(clusters, self.firing(), self._index.newest)
        self._append([*self._index.new_records(lost, now_ms), LedgerRestored(recorded=len(lost))])
        pending = sum(len(self._index.pending(sink)) for sink in self._active_sinks)
        _LOG.warning(
            "%s was damaged: %s. From Spark's state %d alerts were recorded again; %d notifications are sent, of which "
            "some may have been sent before.",
            self._path,
            damage.reason,
            len(lost),
            pending,
        )
        return lost

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _read(self, *, must_exist: bool) -> None:
        found = self._file.read(must_exist=must_exist)
        if found.damage is not None:
            self._keep_damaged(found.damage)
            # A sink whose own line is lost was there from the beginning, as far as the ledger can know.
            for sink in sinks_without_addition(found.records):
                self._index.apply(SinkAdded(sink=sink))
        for record in found.records:
            self._index.apply(record)
        for damage in self.damages:
            self._index.apply(damage)
        if self._index.damage is not None and not self.damages:
            # An earlier job noticed the damage and ended before it was restored.
            self.damages.append(self._index.damage)
        if found.unfinished:
            _LOG.info("%s ended with %d unfinished lines; they were removed.", self._path, found.unfinished)

    def _keep_damaged(self, reason: str) -> None:
        kept_as = self._file.keep_damaged()
        self.damages.append(LedgerDamaged(reason=reason, kept_as=kept_as))
        _LOG.error("The ledger %s is damaged: %s. Kept as: %s.", self._path, reason, kept_as or "-")

    def _append(self, records: Sequence[LedgerRecord]) -> None:
        if not records:
            return
        self._check_file(whole=False)
        try:
            self._file.append(records)
        except OSError as error:
            raise self._error(error) from error
        for each in records:
            self._index.apply(each)

    def _check_file(self, *, whole: bool) -> None:
        """Writes the file again if it is not as it was written; everything is in memory, so nothing is lost."""
        try:
            if self._file.torn:
                self._rewrite()
            elif (changed := self._file.outside_change(whole=whole)) is not None:
                self._keep_damaged(changed)
                self._rewrite()
        except OSError as error:
            raise self._error(error) from error

    def _drop_old(self, now_ms: Millis) -> None:
        """Drops alerts that are too old or too many; rewrites the file when most of its lines are obsolete."""
        excess = len(self._index) - self._keep_entries
        needed: set[int] | None = None
        undelivered, absent = 0, set[str]()
        ended: set[tuple[str, Millis]] = set()
        for position, record in enumerate(list(self._index.records())):
            if position >= excess and record.line.recorded_at_ms >= now_ms - self._keep_ms:
                break
            needed = self._index.needed() if needed is None else needed
            if record.number not in needed:
                if self._index.is_newest(record):
                    ended.add(record.alert_id)
                pending = set(self._index.drop(record))
                undelivered += not pending.isdisjoint(self._active_sinks)
                absent |= pending - self._active_sinks
        # A transition that was needed for the dropped end would make the alert fire again when the file is re-read.
        for record in [each for each in self._index.records() if each.alert_id in ended] if ended else ():
            self._index.drop(record)
        self._append([SinkRemoved(sink=sink) for sink in sorted(absent)])
        if undelivered:
            _LOG.warning("%d alerts were dropped undelivered: they exceed what the ledger keeps.", undelivered)
        if self._file.lines > _REWRITE_FACTOR * len(self._index) * (1 + len(self._index.sinks)) + _REWRITE_SLACK:
            try:
                self._rewrite()
            except OSError as error:
                raise self._error(error) from error

    def _rewrite(self) -> None:
        """Replaces the file by the shortest one with the same content."""
        self._file.replace(list(self._index.minimal_records()))

    def _error(self, error: OSError) -> LedgerError:
        return LedgerError(f"The ledger {self._path} cannot be used: {error.strerror}. Fix the cause and start again.")
