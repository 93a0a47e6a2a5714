"""`python -m streaming.data_quality.audit_process`: audits a sample in a process of its own, prints what it found.

It reads one line of JSON from stdin, a Sample, and prints one, the verdict on each cluster.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from connectors.event import Audited
from connectors.journal.reader import Journal
from streaming.data_quality.alert_contracts import of_the_ledger
from streaming.data_quality.audit import Audit
from streaming.data_quality.contract import Suite
from streaming.data_quality.contract_table import Table
from streaming.data_quality.violations import Tally

ROWS_MAX = 5_000
"""The newest rows of the journal that are held: at five rows a second and cluster, a quarter of an hour of one."""
ALERTS_MAX = 500
"""The newest alerts of the ledger."""
_NICE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is to be held."""

    journal: str
    ledger: str
    portraits: Mapping[str, Any] = field(default_factory=dict)
    """The newest state of each cluster as the job has it (`streaming.status.cluster_status`)."""
    rows: int = ROWS_MAX


SAMPLE = TypeAdapter(Sample)
VERDICTS: TypeAdapter[dict[str, Audited]] = TypeAdapter(dict[str, Audited])
"""By cluster."""


def verdicts(sample: Sample) -> dict[str, Audited]:
    """Hold a sample against every contract.

    Raises:
        JournalError: there is no journal.
    """
    # Here, where it is paid for: the module itself is also what the job speaks to this process with.
    from streaming.data_quality.expectations import Validator

    tally, validator = Tally(), Validator()
    # After the seconds that this takes: what is asked for would else be deleted meanwhile, and be taken for damaged.
    journal = Journal(Path(sample.journal))
    end = journal.published()
    first = max(journal.first(), end - sample.rows)

    def evaluate(suite: Suite, table: Table) -> None:
        _, broken = validator.validate(suite, table)
        tally.add(suite, len(table), broken)

    audit = Audit(evaluate)
    # From the middle of a journal no true state is come to: the job's own are held instead.
    audit.journal(journal.read(first, end), replay=False)
    for portrait in sample.portraits.values():
        audit.states.add(portrait, None)
    audit.flush()
    audit.alerts([*of_the_ledger(Path(sample.ledger))][-ALERTS_MAX:])
    return {name: tally.verdict(name, rows=end - first, first=first, last=end - 1) for name in sample.portraits}


def main() -> int:
    """Read, hold, say."""
    os.nice(_NICE)
    found = verdicts(SAMPLE.validate_json(sys.stdin.buffer.readline()))
    sys.stdout.write(json.dumps(VERDICTS.dump_python(found, mode="json")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
