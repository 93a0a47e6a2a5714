"""`python -m streaming.data_quality.audit_process`: audits a sample in a separate process.

It reads one line of JSON from stdin, an AuditSample, and prints one: the result for each cluster.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from connectors.journal.reader import JournalReader
from connectors.observation_event import ObservationsAudited
from streaming.data_quality.alert_contracts import ledger_alerts
from streaming.data_quality.audit import Audit
from streaming.data_quality.contract import Suite
from streaming.data_quality.contract_table import Table
from streaming.data_quality.violations import Violations

ROWS_MAX = 5_000
"""Newest rows of the journal in a sample: a quarter of an hour of one cluster, at five rows a second."""
ALERTS_MAX = 500
"""Newest alerts of the ledger in a sample."""
_NICE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSample:
    """What to audit."""

    journal: str
    ledger: str
    statuses: Mapping[str, Any] = field(default_factory=dict)
    """The newest status of each cluster in the job, as JSON (`streaming.status.status_json`)."""
    rows: int = ROWS_MAX


SAMPLE = TypeAdapter(AuditSample)
AUDIT_RESULTS: TypeAdapter[dict[str, ObservationsAudited]] = TypeAdapter(dict[str, ObservationsAudited])
"""By cluster name."""


def audit_sample(sample: AuditSample) -> dict[str, ObservationsAudited]:
    """Evaluates every contract on a sample.

    Raises:
        JournalError: there is no journal.
    """
    # Imported here: the job imports this module for its types and must not load Great Expectations.
    from streaming.data_quality.expectations import Validator

    violations, validator = Violations(), Validator()
    # After that import, which takes seconds: the journal could delete the oldest of these rows meanwhile.
    journal = JournalReader(Path(sample.journal))
    end = journal.published_end()
    first = max(journal.first_sequence(), end - sample.rows)

    def evaluate(suite: Suite, table: Table) -> None:
        _, broken = validator.validate(suite, table)
        violations.add(suite, len(table), broken)

    audit = Audit(evaluate)
    # A replay from the middle of a journal gives no correct state: the job's own statuses are audited instead.
    audit.journal(journal.read(first, end), replay=False, restarted_at=journal.restarted_at())
    for status in sample.statuses.values():
        audit.states.add(status, None)
    audit.flush()
    audit.alerts([*ledger_alerts(Path(sample.ledger))][-ALERTS_MAX:])
    return {name: violations.result_of(name, rows=end - first, first=first, last=end - 1) for name in sample.statuses}


def main() -> int:
    """Reads a sample from stdin and prints the results."""
    os.nice(_NICE)
    found = audit_sample(SAMPLE.validate_json(sys.stdin.buffer.readline()))
    sys.stdout.write(json.dumps(AUDIT_RESULTS.dump_python(found, mode="json")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
