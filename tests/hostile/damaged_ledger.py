"""Damaged ledger files: a ledger that opens without noticing damage holds exactly what was written."""

import shutil
from pathlib import Path
from random import Random

from connectors.delivery.ledger import Ledger
from connectors.errors import LedgerError
from connectors.sinks.alert_json import Key
from rules.model.identifiers import Millis
from tests.hostile.byte_mutation import mutated
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

_SINK = "pagerduty"
_SUBJECTS = 12


class DamagedLedger:
    """A ledger with delivered and pending alerts. Each case damages a copy of its files."""

    def __init__(self, folder: Path) -> None:
        self._original = folder / "ledger"
        self._copy = folder / "damaged-ledger"
        ledger = Ledger(self._original / "ledger.jsonl")
        ledger.add_sink(_SINK)
        for number in range(_SUBJECTS):
            one = alert(f"voter {number}")
            ledger.record([one], Millis(NOON_MS + number))
            if number % 2:
                ledger.mark_delivered(_SINK, [one.key])
            if number % 3 == 0:
                ledger.record([alert(f"voter {number}", resolved=True)], Millis(NOON_MS + number))
        self._expected = _content(ledger)
        ledger.close()
        self._files = sorted(path.name for path in self._original.iterdir())

    def damage(self, rng: Random) -> str:
        """Damages a copy and opens it; returns `noticed`, `refused` or `read`.

        Raises:
            AssertionError: the ledger notices nothing, but alerts or deliveries are missing or others.
        """
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._original, self._copy)
        path = self._copy / rng.choice(self._files)
        match rng.randrange(8):
            case 0:
                path.unlink()
            case 1:
                path.write_bytes(b"")
            case 2 | 3:
                lines = path.read_bytes().splitlines(keepends=True)
                del lines[rng.randrange(len(lines))]
                path.write_bytes(b"".join(lines))
            case 4:
                lines = path.read_bytes().splitlines(keepends=True)
                rng.shuffle(lines)
                path.write_bytes(b"".join(lines))
            case _:
                path.write_bytes(mutated(path.read_bytes(), rng))
        try:
            ledger = Ledger(self._copy / "ledger.jsonl", must_exist=True)
        except LedgerError:
            return "refused"
        ledger.add_sink(_SINK)
        found, noticed = _content(ledger), ledger.damage is not None
        ledger.close()
        assert noticed or found == self._expected, f"unnoticed damage of {path.name}"
        return "noticed" if noticed else "read"


def _content(ledger: Ledger) -> tuple[list[Key], list[Key]]:
    return [each.key for each in ledger.history()], [each.key for each in ledger.pending(_SINK)]
