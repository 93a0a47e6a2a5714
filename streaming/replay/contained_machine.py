"""A machine to which recorded rows are applied without evaluating rules: a row that raises is skipped, as in the job.

The state after a row that raises is the one before it, with the recorded violation and the time: it is restored from a
stored form, and the rows since are applied again (`contained_replay`).
"""

from typing import Final

from rules.alert import Alert
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.contained_replay import FailedRow, observe_contained
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import Machine
from streaming.replay.observed_events import event_count

ROWS_TOGETHER: Final = 256
"""Most rows between two stored forms of the state."""
EVENTS_TOGETHER: Final = 20_000
"""Most events in these rows, but for the last one: they are kept in memory."""


class ContainedMachine:
    """Applies rows one by one; `machine` is the state after them."""

    def __init__(self, machine: Machine, blob: bytes | None = None) -> None:
        """`machine`: new, or restored from `blob`. After a row that raised, another one takes its place."""
        self.machine = machine
        self.blob = blob
        """The stored form of the state at the start or at the last `finish`; None: without observations."""
        self._kind = type(machine)
        self._since: list[DecodedRow] = []
        """Applied since the stored form."""
        self._events = 0
        """In these rows."""

    def apply(self, row: DecodedRow) -> tuple[FailedRow, ...]:
        """Applies a row; returns the rows that could not be applied: this one, or earlier ones that show only now."""
        self._since.append(row)
        self._events += event_count(row.events)
        try:
            self.machine.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms)
        except (MemoryError, OSError):
            raise
        except Exception:  # noqa: BLE001 - the rows are applied again, without the one that raises
            return self._contain()
        few = len(self._since) < ROWS_TOGETHER and self._events < EVENTS_TOGETHER
        return () if few else self.finish()

    def finish(self) -> tuple[FailedRow, ...]:
        """Stores the state; returns the rows after which it cannot be stored, which are skipped."""
        try:
            self.blob = self.machine.to_bytes()
        except (MemoryError, OSError):
            raise
        except Exception:  # noqa: BLE001 - the rows are applied again, without the one that brought this about
            return self._contain()
        self._since, self._events = [], 0
        return ()

    def _contain(self) -> tuple[FailedRow, ...]:
        rows, self._since, self._events = self._since, [], 0
        result = observe_contained(self._restored(self.blob), self.blob, rows, self._restored)
        self.machine, self.blob = result.monitor.machine, result.blob
        return result.failed

    def _restored(self, blob: bytes | None) -> "_UnevaluatedMonitor":
        own = self.machine
        monitor = _UnevaluatedMonitor(own.settings)
        monitor.machine = self._kind(own.settings) if blob is None else self._kind.from_bytes(blob, own.settings)
        return monitor


class _UnevaluatedMonitor(ClusterMonitor):
    """Applies rows, and evaluates no rule after them. Its stored form is that of its machine."""

    def _advance(self) -> tuple[Alert, ...]:
        return ()

    def advance_unevaluated(self, reason: str) -> tuple[Alert, ...]:
        """Advances nothing."""
        return ()

    def to_bytes(self) -> bytes:
        """Returns the machine's stored form."""
        return self.machine.to_bytes()
