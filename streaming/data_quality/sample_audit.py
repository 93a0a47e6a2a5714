"""`python -m streaming.data_quality.sample_audit JOURNAL LEDGER`: audits the newest rows and alerts.

Prints the result of each cluster as one JSON object, by name. The job starts it once a day (`daily_audit`).
"""

import os
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from connectors.observations.observation_event import BrokenContract, ObservationsAudited
from connectors.store.journal_reader import JournalReader
from rules.finding import Severity
from streaming.data_quality.alert_table import ledger_alerts
from streaming.data_quality.audit import Audit
from streaming.data_quality.contract import Validator, ViolatedContract, cell, row_text
from streaming.data_quality.daily_audit import AUDIT_RESULTS
from streaming.replay.contract_violations import DECODES

ROWS_MAX = 5_000
"""Newest rows of the journal in a sample: a quarter of an hour of one cluster, at five rows a second."""
ALERTS_MAX = 500
"""Newest alerts of the ledger in a sample."""
_EXAMPLE_CHARACTERS = 160
_REPORTED_MAX = 8
"""Most broken contracts of a cluster, the most severe first: its result must fit into one pipe write (4,096 bytes)."""
_NICE = 10


def audit_sample(journal: JournalReader, checkpoint: Path) -> Mapping[str, ObservationsAudited]:
    """Evaluates every contract on a sample; returns the result of each cluster in it.

    Raises:
        JournalError: there is no journal.
    """
    end = journal.published_end()
    first = max(journal.first_sequence(), end - ROWS_MAX)
    names = {row.cluster for row in journal.read(first, end)}
    validator = Validator()
    audit = Audit(validator)
    audit.journal(journal.read(first, end), restarted_at=journal.restarted_at())
    audit.alerts([*ledger_alerts(checkpoint)][-ALERTS_MAX:])
    # The replay itself reports what does not decode.
    broken = [one for one in validator.broken if one.contract.name != DECODES]
    return {
        name: ObservationsAudited(
            rows=end - first,
            first_sequence=first,
            last_sequence=end - 1,
            broken=tuple(islice((_recorded(own) for one in broken if (own := one.of(name))), _REPORTED_MAX)),
        )
        for name in sorted(names)
    }


def _recorded(broken: ViolatedContract) -> BrokenContract:
    sequence = cell(broken.examples[-1].get("sequence"))
    return BrokenContract(
        contract=broken.contract.name,
        promise=broken.contract.promise,
        grave=broken.contract.severity is Severity.CRITICAL,
        rows=broken.rows,
        example=row_text(broken.examples[-1])[:_EXAMPLE_CHARACTERS],
        sequence=sequence if isinstance(sequence, int) else None,
    )


def main() -> int:
    """Prints the results."""
    os.nice(_NICE)
    journal, checkpoint = map(Path, sys.argv[1:])
    sys.stdout.buffer.write(AUDIT_RESULTS.dump_json(dict(audit_sample(JournalReader(journal), checkpoint))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
