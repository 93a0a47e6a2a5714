"""The audit: evaluates the contracts on a journal's rows, their events and sent alerts, table by table.

Memory is bounded by the rows of a table. What a row is compared with is kept from one table to the next, so that the
size of the tables does not change the result.
"""

from collections.abc import Callable, Iterable, Iterator

from connectors.errors import JournalError
from connectors.observations.observation import Observation
from connectors.observations.partition_run import each_event
from streaming.data_quality.alert_table import AlertTable, SentAlert
from streaming.data_quality.contract import Validator
from streaming.data_quality.event_table import EventTable
from streaming.data_quality.observation_table import ObservationTable
from streaming.replay.decoded_row import decoded_row

TABLE_ROWS_MAX = 50_000
"""Most rows of one table: about 100 MB with Great Expectations' data."""

Progress = Callable[[int], None]
"""Called with the number of rows read so far."""


class Audit:
    """One run over rows and alerts."""

    def __init__(self, validator: Validator, *, table_rows: int = TABLE_ROWS_MAX) -> None:
        """`validator` evaluates each full table."""
        self._validator = validator
        self._table_rows = table_rows
        self._observations, self._events, self._alerts = ObservationTable(), EventTable(), AlertTable()

    def journal(
        self, rows: Iterable[Observation], *, restarted_at: int | None = None, progress: Progress = lambda _: None
    ) -> None:
        """Evaluates rows of a journal in their order.

        Args:
            rows: consecutive rows, from any position of a journal.
            restarted_at: the sequence of the row from which on a repair had the logs read again.
            progress: called every 1,000 rows.
        """
        count = 0
        for count, row in enumerate(self._readable(rows), start=1):
            if restarted_at is not None and row.sequence >= restarted_at:
                restarted_at = None
                self._observations.logs_read_again()
            events = tuple(each_event(decoded_row(row).events))
            self._observations.add(row, events[0] if events else None)
            self._events.add(row, events)
            self._flush(self._table_rows)
            if count % 1_000 == 0:
                progress(count)
        progress(count)
        self._flush()

    def alerts(self, lines: Iterable[SentAlert]) -> None:
        """Evaluates sent alerts in their order."""
        for line in lines:
            self._alerts.add(line)
            self._flush(self._table_rows)
        self._flush()

    def _readable(self, rows: Iterable[Observation]) -> Iterator[Observation]:
        """Yields the rows up to the first one that cannot be read."""
        try:
            yield from rows
        except JournalError as problem:
            self._observations.add_damaged(str(problem))

    def _flush(self, at_least: int = 1) -> None:
        """Evaluates the tables with so many rows."""
        for table in (self._observations.table, self._events.table, self._alerts.table):
            if len(table.rows) >= at_least:
                self._validator.evaluate(table)
