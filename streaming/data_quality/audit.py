"""The audit: a journal's rows, what they decode to and the states they lead to, held against the contracts in tables.

Memory is bounded by a table's rows: what a row is held against goes on from one table to the next, so that cutting
a journal into tables changes nothing of what is found.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from connectors.decode_observation import decode_observation
from connectors.errors import JournalError
from connectors.observation import Observation
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from streaming.data_quality.alert_contracts import Alerts, Line
from streaming.data_quality.contract import Suite
from streaming.data_quality.contract_table import Table
from streaming.data_quality.event_contracts import Events
from streaming.data_quality.observation_contracts import Observations
from streaming.data_quality.state_contracts import States
from streaming.replay.machine import Machine
from streaming.status.build_status import job_cluster_status
from streaming.status.status_json import status_json

TABLE_ROWS_MAX = 50_000
"""Rows of one table, events or observations: about 100 MB with all that Great Expectations makes of it."""
STATE_EVERY_ROWS = 2_000
"""A state of each cluster is taken this often, and at the end: judging one costs as much as reading many rows."""

Progress = Callable[[int], None]
"""Is told how many rows were read so far."""


class Judge(Protocol):
    """What holds a table against its suite: `expectations.Validator`, and who keeps its result."""

    def __call__(self, suite: Suite, table: Table) -> None:
        """Hold it."""


class Audit:
    """One run over rows and alerts."""

    def __init__(self, judge: Judge, *, table_rows: int = TABLE_ROWS_MAX, state_every: int = STATE_EVERY_ROWS) -> None:
        """`judge` is given each full table."""
        self._judge = judge
        self._table_rows = table_rows
        self._state_every = state_every
        self._observations = Observations()
        self._events = Events()
        self.states = States()
        self._alerts = Alerts()
        self._machines: dict[str, Machine] = {}
        self._thresholds = thresholds_for({})

    def journal(self, rows: Iterable[Observation], *, replay: bool = True, progress: Progress = lambda _: None) -> None:
        """Hold a journal's rows, in their order.

        Args:
            rows: from anywhere in a journal on.
            replay: come to states as well; only rows from the journal's beginning lead to true ones.
            progress: told every thousand rows.
        """
        count = 0
        for count, row in enumerate(self._whole(rows), start=1):
            events = tuple(decode_observation(row).events())
            self._observations.add(row, events[0] if events else None)
            self._events.add(row, events)
            if replay:
                machine = self._machine(row.cluster)
                if row.sequence >= 0:
                    machine.apply(events, sequence=row.sequence, observed_at_ms=Millis(row.observed_at_ms))
                if count % self._state_every == 0:
                    self._state(machine)
            if max(len(self._observations.table), len(self._events.table)) >= self._table_rows:
                self.flush()
            if count % 1_000 == 0:
                progress(count)
        for machine in self._machines.values():
            self._state(machine)
        progress(count)
        self.flush()

    def _whole(self, rows: Iterable[Observation]) -> Iterator[Observation]:
        """The rows, as far as they can be read."""
        try:
            yield from rows
        except JournalError as problem:
            self._observations.add_damaged(str(problem))

    def alerts(self, lines: Iterable[Line]) -> None:
        """Hold what was told, in its order."""
        for line in lines:
            self._alerts.add(line)
            if len(self._alerts.table) >= self._table_rows:
                self.flush()
        self.flush()

    def flush(self) -> None:
        """Have judged what waits."""
        tables = {
            Suite.OBSERVATIONS: self._observations.table,
            Suite.EVENTS: self._events.table,
            Suite.STATES: self.states.table,
            Suite.ALERTS: self._alerts.table,
        }
        for suite, table in tables.items():
            if len(table):
                self._judge(suite, table)
                table.clear()

    def _machine(self, cluster: str) -> Machine:
        if cluster not in self._machines:
            self._machines[cluster] = Machine(cluster, None, (), Vantage.INSIDE)
        return self._machines[cluster]

    def _state(self, machine: Machine) -> None:
        self.states.add(status_json(job_cluster_status(machine.quorum(), self._thresholds)), machine.sequence)
