"""The shelf: what a ledger's lines come to, in memory: alerts by number, and where each sink stands with them."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from connectors.delivery.ledger_record import Closed, Entry, Heard, Opened, Recorded, Told
from connectors.sinks.alert_json import Key
from rules.alert import Alert, AlertState
from rules.evaluate import RULES
from rules.model.identifiers import Millis
from rules.notifications.alert_history import Filed
from rules.notifications.incident import Incidents


class Shelf:
    """Takes entries in, in their order, and says what stands."""

    def __init__(self) -> None:
        self._incidents = Incidents(RULES)
        self.next_number = 0
        self.changes = 0
        """How often something was taken in or dropped."""
        self._alerts: dict[int, Recorded] = {}
        self._number_of: dict[Key, int] = {}
        self._newest_of: dict[str, int] = {}
        self._members: dict[str, dict[int, None]] = {}
        """The numbers of each incident."""
        self._untold: dict[str, dict[int, None]] = {}
        """By sink."""
        self._forgotten: dict[str, set[int]] = {}
        """By sink."""
        self._heard: dict[str, dict[str, Millis]] = {}
        """By sink and incident."""

    def __len__(self) -> int:
        return len(self._alerts)

    def __contains__(self, key: Key) -> bool:
        return key in self._number_of

    @property
    def sinks(self) -> Collection[str]:
        """Those that are known."""
        return self._untold.keys()

    def take(self, entry: Entry) -> None:
        """Take one entry in."""
        self.changes += 1
        match entry:
            case Recorded(number=number, recorded_at_ms=at_ms, alert=alert, incident=incident):
                self.next_number = max(self.next_number, number + 1)
                self._alerts[number] = entry
                self._number_of[alert.key] = number
                self._newest_of[alert.fingerprint] = number
                self._members.setdefault(incident, {})[number] = None
                self._incidents.take(alert, incident, at_ms=at_ms)
                for untold in self._untold.values():
                    untold[number] = None
            case Told(number=number, sink=sink, forgotten=forgotten):
                self.next_number = max(self.next_number, number + 1)
                self._untold.get(sink, {}).pop(number, None)
                if forgotten:
                    self._forgotten.setdefault(sink, set()).add(number)
            case Heard(sink=sink, incident=incident, at_ms=at_ms):
                self._heard.setdefault(sink, {})[incident] = at_ms
            case Opened(sink=sink):
                firing = self.firing_numbers()
                self._untold[sink] = dict.fromkeys(sorted(firing))
                # Not told, else the end of what it never heard of would be meant for it.
                self._forgotten[sink] = self._alerts.keys() - firing
            case Closed(sink=sink):
                for known in (self._untold, self._forgotten, self._heard):
                    known.pop(sink, None)

    def recordings(self, alerts: Sequence[Alert], at_ms: Millis) -> Sequence[Recorded]:
        """The entries for alerts that are new, numbered and placed; they are not taken in yet."""
        # Where one belongs may depend on the one before it.
        trial = self._incidents.copy() if alerts else self._incidents
        return [
            Recorded(
                number=self.next_number + at,
                recorded_at_ms=at_ms,
                incident=trial.place(alert, at_ms=at_ms),
                alert=alert,
            )
            for at, alert in enumerate(alerts)
        ]

    def number_of(self, key: Key) -> int | None:
        """The number of an alert that is kept."""
        return self._number_of.get(key)

    def untold(self, sink: str) -> Collection[int]:
        """The numbers of what a known sink is still to be told, oldest first."""
        return self._untold[sink].keys()

    def alert(self, number: int) -> Alert:
        """The alert of a number that is kept."""
        return self._alerts[number].alert

    def alerts(self) -> Iterator[Alert]:
        """Everything kept, oldest first."""
        return (recorded.alert for recorded in self._alerts.values())

    def firing_numbers(self) -> set[int]:
        """The newest word on every alert that is not resolved."""
        newest = self._newest_of.values()
        return {number for number in newest if self._alerts[number].alert.state is AlertState.FIRING}

    def filed(self, sink: str) -> Mapping[str, Sequence[Filed]]:
        """Each incident that has something untold or firing, as this sink stands to it; what was forgotten left out."""
        untold, forgotten = self._untold[sink], self._forgotten.get(sink, set())
        live = {self._alerts[number].incident: None for number in sorted({*untold, *self.firing_numbers()})}
        return {
            incident: [
                Filed(alert=self._alerts[number].alert, told=number not in untold)
                for number in self._members[incident]
                if number not in forgotten
            ]
            for incident in live
        }

    def heard(self, sink: str) -> Mapping[str, Millis]:
        """When a sink was last told of each incident."""
        return self._heard.get(sink, {})

    def oldest(self) -> Iterator[tuple[int, Recorded]]:
        """Everything kept, oldest first; it may be dropped meanwhile."""
        return iter(list(self._alerts.items()))

    def needed(self) -> set[int]:
        """What must not be dropped, however old it is.

        The newest word on what fires; and of what has an end that a sink is still to be told, the word before that it
        was told: by that it knows that it began.
        """
        needed = self.firing_numbers()
        for sink, untold in self._untold.items():
            lives = {_life(self._alerts[number].alert) for number in untold}
            unheard = untold.keys() | self._forgotten.get(sink, set())
            before: dict[tuple[str, Millis], int] = {}
            for number, recorded in self._alerts.items() if lives else ():
                if (life := _life(recorded.alert)) in lives and number not in unheard:
                    before[life] = number
            needed.update(before.values())
        return needed

    def drop(self, number: int) -> Collection[str]:
        """Forget one alert altogether; the sinks that were still to be told."""
        self.changes += 1
        gone = self._alerts.pop(number)
        del self._number_of[gone.alert.key]
        if self._newest_of[gone.alert.fingerprint] == number:
            del self._newest_of[gone.alert.fingerprint]
        members = self._members[gone.incident]
        del members[number]
        if not members:
            del self._members[gone.incident]
            for heard in self._heard.values():
                heard.pop(gone.incident, None)
        for forgotten in self._forgotten.values():
            forgotten.discard(number)
        waiting = [sink for sink, untold in self._untold.items() if number in untold]
        for sink in waiting:
            del self._untold[sink][number]
        return waiting

    def entries(self) -> Iterator[Entry]:
        """The fewest entries that say all this."""
        # Sinks first, so that every alert after them is to be told to all, and what is told is said last.
        yield from (Opened(sink=sink) for sink in self._untold)
        yield from self._alerts.values()
        for sink, untold in self._untold.items():
            forgotten = self._forgotten.get(sink, set())
            for number in self._alerts:
                if number not in untold:
                    yield Told(number=number, sink=sink, forgotten=number in forgotten)
        for sink, heard in self._heard.items():
            yield from (Heard(sink=sink, incident=incident, at_ms=at_ms) for incident, at_ms in heard.items())


def _life(alert: Alert) -> tuple[str, Millis]:
    return alert.fingerprint, alert.started_at_ms
