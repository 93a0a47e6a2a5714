"""The ledger: what is to be told and what was told, in one file beside the checkpoint.

An alert is in the ledger, on the disk, before any sink is asked. It is known by `Alert.key`, so a batch that comes
again after a crash records nothing new. Every line stands for itself: one that a crash tore or a disk damaged is
passed over. A lost alert comes again with its batch, and a lost "told" means telling it again, which sinks bear.

It stays bounded: alerts that are too old or too many are forgotten, told or not, but never the newest word on an
alert that is still firing.
"""

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from connectors.delivery import ledger_record
from connectors.delivery.ledger_index import Shelf
from connectors.delivery.ledger_record import Closed, Entry, Heard, Opened, Told
from connectors.durable_file import append, replaced
from connectors.errors import LedgerError
from connectors.sinks.alert_json import Key
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.alert_history import Filed

_LOG = logging.getLogger(__name__)
_DAY_S = 86_400.0
_REWRITE_FACTOR = 2
_REWRITE_SLACK = 1_000


def remembered(path: Path) -> Sequence[Alert]:
    """What a ledger holds, oldest first, read beside the job that writes it; nothing of it is changed.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    entries = map(ledger_record.from_line, path.read_bytes().splitlines())
    return tuple({one.number: one.alert for one in entries if isinstance(one, ledger_record.Recorded)}.values())


class Ledger:
    """Opened by one process at a time, the one that delivers."""

    def __init__(self, path: Path, *, keep_entries: int = 10_000, keep_s: float = 30 * _DAY_S) -> None:
        """Read the ledger, or begin it.

        Args:
            path: the file; its folder is made if it is not there.
            keep_entries: the newest so many alerts are remembered.
            keep_s: no alert is remembered longer, by the clock that `record` is given.

        Raises:
            LedgerError: the file cannot be read or written.
        """
        self._path = path
        self._keep_entries = keep_entries
        self._keep_ms = round(keep_s * 1000)
        self._shelf = Shelf()
        self._present: set[str] = set()
        """The sinks that are told now; others may be known from before."""
        self._lines = 0
        self._descriptor = -1
        self._torn = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._read()
            self._rewrite()
        except OSError as error:
            raise self._failed(error) from error

    def open_sink(self, sink: str) -> None:
        """Make a sink known. A new one is told what is still firing, and everything from now on.

        Raises:
            LedgerError: the file cannot be written.
        """
        self._present.add(sink)
        if sink not in self._shelf.sinks:
            self._append([Opened(sink=sink)])

    def leave_sink(self, sink: str) -> None:
        """It is not to be told any more. Should it come back, it is told what it missed, as far as that is kept."""
        self._present.discard(sink)

    def record(self, alerts: Sequence[Alert], now_ms: Millis) -> Sequence[Alert]:
        """Take in the alerts that are new, for every known sink; on the disk when this returns, in this order.

        Raises:
            LedgerError: the file cannot be written; none of them was taken in.
        """
        fresh: dict[Key, Alert] = {}
        for alert in alerts:
            if alert.key not in self._shelf:
                fresh.setdefault(alert.key, alert)
        self._append(self._shelf.recordings(tuple(fresh.values()), now_ms))
        self._forget(now_ms)
        return tuple(fresh.values())

    @property
    def changes(self) -> int:
        """Another number as soon as anything here is another."""
        return self._shelf.changes

    def pending(self, sink: str) -> Sequence[Alert]:
        """What a known sink is still to be told, oldest first."""
        return [self._shelf.alert(number) for number in self._shelf.untold(sink)]

    def incidents(self, sink: str) -> Mapping[str, Sequence[Filed]]:
        """The incidents that have something untold or firing, as a known sink stands to them."""
        return self._shelf.filed(sink)

    def heard(self, sink: str) -> Mapping[str, Millis]:
        """When a sink was last told of each incident."""
        return self._shelf.heard(sink)

    def told(self, sink: str, keys: Collection[Key], *, heard: Mapping[str, Millis] | None = None) -> None:
        """Note that a sink is done with these alerts: it has them, or refused them for good.

        Args:
            sink: a known one.
            keys: of the alerts.
            heard: the incidents that it was told of thereby, and when.

        Raises:
            LedgerError: the file cannot be written.
        """
        entries: list[Entry] = [Told(number=number, sink=sink) for number in self._waiting(sink, keys)]
        entries += [Heard(sink=sink, incident=incident, at_ms=at_ms) for incident, at_ms in (heard or {}).items()]
        self._append(entries)

    def forgotten(self, sink: str, keys: Collection[Key]) -> None:
        """Note that a sink need never be told of these alerts.

        Raises:
            LedgerError: the file cannot be written.
        """
        self._append([Told(number=number, sink=sink, forgotten=True) for number in self._waiting(sink, keys)])

    def firing(self) -> Sequence[Alert]:
        """The newest word on every alert that is not resolved, oldest first."""
        return [self._shelf.alert(number) for number in sorted(self._shelf.firing_numbers())]

    def history(self) -> Sequence[Alert]:
        """Every transition that is remembered, oldest first."""
        return tuple(self._shelf.alerts())

    def close(self) -> None:
        """Give the file back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _read(self) -> None:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        bad = 0
        for line in content.splitlines():
            found = ledger_record.from_line(line)
            if found is None:
                bad += 1
            else:
                self._shelf.take(found)
        if bad:
            _LOG.warning("%s had %d torn or damaged lines; they were passed over.", self._path, bad)

    def _waiting(self, sink: str, keys: Collection[Key]) -> Sequence[int]:
        """The numbers of those that the sink is still to be told."""
        untold = self._shelf.untold(sink)
        numbers = (self._shelf.number_of(key) for key in keys)
        return [number for number in numbers if number is not None and number in untold]

    def _append(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        content = b"".join(ledger_record.to_line(each) for each in entries)
        try:
            if self._torn:
                self._rewrite()
            self._torn = True
            append(self._descriptor, content, os.fstat(self._descriptor).st_size)
            self._torn = False
        except OSError as error:
            raise self._failed(error) from error
        self._lines += len(entries)
        for each in entries:
            self._shelf.take(each)

    def _forget(self, now_ms: Millis) -> None:
        """Drop what is too old or too many; write the file anew when most of its lines are of no more use."""
        excess = len(self._shelf) - self._keep_entries
        needed: set[int] | None = None
        given_up, gone = 0, set[str]()
        for at, (number, each) in enumerate(self._shelf.oldest()):
            if at >= excess and each.recorded_at_ms >= now_ms - self._keep_ms:
                break
            needed = self._shelf.needed() if needed is None else needed
            if number not in needed:
                waiting = set(self._shelf.drop(number))
                given_up += not waiting.isdisjoint(self._present)
                gone |= waiting - self._present
        self._append([Closed(sink=sink) for sink in sorted(gone)])
        if given_up:
            _LOG.warning("%d alerts could not be told for so long that they were given up.", given_up)
        if self._lines > _REWRITE_FACTOR * len(self._shelf) * (1 + len(self._shelf.sinks)) + _REWRITE_SLACK:
            try:
                self._rewrite()
            except OSError as error:
                raise self._failed(error) from error

    def _rewrite(self) -> None:
        """Replace the file by one that says the same in the fewest lines."""
        entries = list(self._shelf.entries())
        descriptor = replaced(self._path, b"".join(ledger_record.to_line(each) for each in entries))
        self.close()
        self._descriptor, self._lines, self._torn = descriptor, len(entries), False

    def _failed(self, error: OSError) -> LedgerError:
        return LedgerError(f"The ledger {self._path} cannot be used: {error.strerror}; mend that and start again.")
