"""The audit: evaluates the contracts on a journal's rows, their events and the resulting states, table by table.

Memory is bounded by the rows of a table. What a row is compared with is kept from one table to the next, so that the
size of the tables does not change the result.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from connectors.errors import JournalError
from connectors.observation import Observation
from rules.evaluate import thresholds_for
from streaming.data_quality.alert_contracts import AlertTable, SentAlert
from streaming.data_quality.contract import Suite
from streaming.data_quality.contract_table import Table
from streaming.data_quality.event_contracts import EventTable
from streaming.data_quality.observation_contracts import ObservationTable
from streaming.data_quality.state_contracts import StateTable
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contained_machine import ContainedMachine
from streaming.replay.contained_replay import FailedRow
from streaming.replay.decoded_row import DecodedRow, decoded_row
from streaming.replay.failure_reason import failure_reason
from streaming.replay.machine import Machine
from streaming.replay.observed_events import each_event
from streaming.status.build_status import job_cluster_status
from streaming.status.status_json import status_json

TABLE_ROWS_MAX = 50_000
"""Most rows of one table, events or observations: about 100 MB with Great Expectations' data."""
STATE_EVERY_ROWS = 2_000
"""Rows between two states of a cluster; one more state is added at the end. A state costs as much as many rows."""

Progress = Callable[[int], None]
"""Called with the number of rows read so far."""


class EvaluateTable(Protocol):
    """Evaluates the contracts of a suite on a table, such as `expectations.Validator`, and keeps the result."""

    def __call__(self, suite: Suite, table: Table) -> None:
        """Evaluates the suite on the table."""


class Audit:
    """One run over rows and alerts."""

    def __init__(
        self, evaluate: EvaluateTable, *, table_rows: int = TABLE_ROWS_MAX, state_every: int = STATE_EVERY_ROWS
    ) -> None:
        """`evaluate` is called with each full table."""
        self._evaluate = evaluate
        self._table_rows = table_rows
        self._state_every = state_every
        self._observations = ObservationTable()
        self._events = EventTable()
        self.states = StateTable()
        self._alerts = AlertTable()
        self._machines: dict[str, ContainedMachine] = {}
        self._thresholds = thresholds_for({})

    def journal(
        self,
        rows: Iterable[Observation],
        *,
        replay: bool = True,
        restarted_at: int | None = None,
        progress: Progress = lambda _: None,
    ) -> None:
        """Evaluates rows of a journal in their order.

        Args:
            rows: consecutive rows, from any position of a journal.
            replay: also evaluates the replayed states; they are correct only for rows from the journal's beginning.
            restarted_at: the sequence of the row from which on a repair had the logs read again.
            progress: called every 1,000 rows.
        """
        count = 0
        for count, row in enumerate(self._readable(rows), start=1):
            if restarted_at is not None and row.sequence >= restarted_at:
                restarted_at = None
                self._logs_read_again()
            decoded = decoded_row(row)
            events = tuple(each_event(decoded.events))
            self._observations.add(row, events[0] if events else None)
            self._events.add(row, events)
            if replay:
                machine = self._machine(row.cluster)
                if row.sequence >= 0:
                    self._not_applied(
                        row.cluster, machine.apply(DecodedRow(row.sequence, decoded.observed_at_ms, events))
                    )
                if count % self._state_every == 0:
                    self._state(machine.machine)
            if max(len(self._observations.table), len(self._events.table)) >= self._table_rows:
                self.flush()
            if count % 1_000 == 0:
                progress(count)
        self._final_states()
        progress(count)
        self.flush()

    def _final_states(self) -> None:
        for cluster, machine in self._machines.items():
            self._not_applied(cluster, machine.finish())
            self._state(machine.machine)

    def _logs_read_again(self) -> None:
        """Begins with new states, as the job does after the repair."""
        self._observations.logs_read_again()
        self._final_states()
        self._machines.clear()

    def _readable(self, rows: Iterable[Observation]) -> Iterator[Observation]:
        """Yields the rows up to the first one that cannot be read."""
        try:
            yield from rows
        except JournalError as problem:
            self._observations.add_damaged(str(problem))

    def alerts(self, lines: Iterable[SentAlert]) -> None:
        """Evaluates sent alerts in their order."""
        for line in lines:
            self._alerts.add(line)
            if len(self._alerts.table) >= self._table_rows:
                self.flush()
        self.flush()

    def flush(self) -> None:
        """Evaluates the rows that wait in the tables."""
        tables = {
            Suite.OBSERVATIONS: self._observations.table,
            Suite.EVENTS: self._events.table,
            Suite.STATES: self.states.table,
            Suite.ALERTS: self._alerts.table,
        }
        for suite, table in tables.items():
            if len(table):
                self._evaluate(suite, table)
                table.clear()

    def _machine(self, cluster: str) -> ContainedMachine:
        if cluster not in self._machines:
            self._machines[cluster] = ContainedMachine(Machine(ClusterSettings(name=cluster)))
        return self._machines[cluster]

    def _not_applied(self, cluster: str, failed: Iterable[FailedRow]) -> None:
        for one in failed:
            self.states.add_not_applied(cluster, one.sequence, one.reason)

    def _state(self, machine: Machine) -> None:
        try:
            status = status_json(job_cluster_status(machine.quorum(), self._thresholds))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a state that cannot be rendered is what the audit is to find
            self.states.add_not_rendered(machine.cluster, machine.sequence, failure_reason(error))
        else:
            self.states.add(status, machine.sequence)
