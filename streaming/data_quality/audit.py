"""The audit: evaluates the contracts on a journal's rows, their events and sent alerts, table by table.

`python -m streaming.data_quality.audit JOURNAL CHECKPOINT` audits the newest rows and alerts and prints the result of
each cluster as one JSON object, by name. The job starts it once a day (`daily_audit`).
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from connectors.errors import JournalError
from connectors.observations.observation import Observation
from connectors.observations.observation_event import BrokenContract, ObservationsAudited
from connectors.observations.partition_run import each_event
from connectors.store.journal_reader import JournalReader
from rules.finding import Severity
from streaming.data_quality.contract import JOURNAL, ROW_KEYS, Row, Validator, ViolatedContract, row_text
from streaming.data_quality.daily_audit import AUDIT_RESULTS
from streaming.data_quality.suite_rows import AlertRows, ObservationRows, damaged_row, event_rows, ledger_alerts
from streaming.replay.contract_violations import DECODES
from streaming.replay.decoded_row import decoded_row

TABLE_ROWS_MAX = 50_000
"""Most rows of one table: about 100 MB with Great Expectations' data."""
SAMPLE_ROWS_MAX = 5_000
"""Newest rows of the journal in a sample: a quarter of an hour of one cluster, at five rows a second."""
SAMPLE_ALERTS_MAX = 500
"""Newest alerts of the ledger in a sample."""
_EXAMPLE_CHARACTERS = 160
_REPORTED_MAX = 8
"""Most broken contracts of a cluster, the most severe first: its result must fit into one pipe write (4,096 bytes)."""
_NICE = 10


class Audit:
    """One run over rows and alerts.

    Memory is bounded by the rows of a table. What a row is compared with is kept from one table to the next, so that
    the size of the tables does not change the result.
    """

    def __init__(self) -> None:
        self.validator = Validator()
        self._observations, self._alerts = ObservationRows(), AlertRows()
        self._tables: dict[str, list[Row]] = {suite: [] for suite in ROW_KEYS}

    def journal(self, rows: Iterable[Observation], restarted_at: int | None) -> None:
        """Evaluates consecutive rows of a journal up to the first one that cannot be read.

        Args:
            rows: in their order, from any position of the journal.
            restarted_at: the sequence of the row from which on a repair had the logs read again; None: there was none.
        """
        try:
            for row in rows:
                if restarted_at is not None and row.sequence >= restarted_at:
                    restarted_at = None
                    self._observations.logs_read_again()
                events = tuple(each_event(decoded_row(row).events))
                self._tables["observations"].append(self._observations.row(row, events[0] if events else None))
                self._tables["events"] += event_rows(row, events)
                self._evaluate(TABLE_ROWS_MAX)
        except JournalError as problem:
            self._tables["observations"].append(damaged_row(str(problem)))
        self._evaluate()

    def alerts(self, alerts: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Evaluates sent alerts in their order: the number and the fields of each."""
        for number, fields in alerts:
            self._tables["alerts"].append(self._alerts.row(number, fields))
            self._evaluate(TABLE_ROWS_MAX)
        self._evaluate()

    def _evaluate(self, at_least: int = 1) -> None:
        """Evaluates the tables with so many rows."""
        for suite, rows in self._tables.items():
            if len(rows) >= at_least:
                self.validator.evaluate(suite, rows)
                rows.clear()


def audit_sample(journal: JournalReader, checkpoint: Path) -> Mapping[str, ObservationsAudited]:
    """Evaluates every contract on a sample; returns the result of each cluster in it.

    Raises:
        JournalError: there is no journal.
    """
    end = journal.published_end()
    first = max(journal.first_sequence(), end - SAMPLE_ROWS_MAX)
    names = {row.cluster for row in journal.read(first, end)}
    audit = Audit()
    audit.journal(journal.read(first, end), journal.restarted_at())
    audit.alerts([*ledger_alerts(checkpoint)][-SAMPLE_ALERTS_MAX:])
    # The replay itself reports what does not decode.
    violated = [one for one in audit.validator.broken if one.contract.name != DECODES]
    return {
        name: ObservationsAudited(
            rows=end - first,
            first_sequence=first,
            last_sequence=end - 1,
            broken=tuple(filter(None, (_broken(one, name) for one in violated)))[:_REPORTED_MAX],
        )
        for name in sorted(names)
    }


def _broken(violated: ViolatedContract, cluster: str) -> BrokenContract | None:
    """Returns what is recorded of one cluster's rows in the examples; None if there is none."""
    own = [one for one in violated.examples if one["cluster"] in (cluster, JOURNAL)]
    if not own:
        return None
    sequence = own[-1].get("sequence")
    return BrokenContract(
        contract=violated.contract.name,
        promise=violated.contract.promise,
        grave=violated.contract.severity is Severity.CRITICAL,
        rows=len(own),
        example=row_text(own[-1])[:_EXAMPLE_CHARACTERS],
        sequence=sequence if isinstance(sequence, int) else None,
    )


if __name__ == "__main__":
    os.nice(_NICE)
    results = audit_sample(JournalReader(Path(sys.argv[1])), Path(sys.argv[2]))
    sys.stdout.buffer.write(AUDIT_RESULTS.dump_json(dict(results)))
