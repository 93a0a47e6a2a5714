"""What kraftwatch itself recorded, decoded or told is not what it must be: its word on the quorum may be wrong.

What it means
    The quorum may be well. Alerts go on, but what rests on the rows named here may be wrong or missing, so neither an
    alert nor the want of one is certain.

    - Critical: a secret stands where none may, or what every alert rests on is broken.
    - Warning: rows that do not decode, or a promise that fewer alerts rest on.

    `every-record-decodes` is seen at once: a Kafka newer than this kraftwatch wrote a record that it does not know, or
    bytes are damaged. The other contracts are held against samples by an audit, every few minutes. One alert for each
    contract; it stays for half an hour after the contract was last found broken, because no later row mends an earlier
    one.

Evidence
    What the contract promises, how many rows broke it, one of them in words and its place in the journal, and when it
    was first and last found broken.

What to do
    1. Run `kraftwatch audit` with the job's --checkpoint: it holds all that is kept against every contract, and writes
       pages to read with --docs.
    2. What did not decode: `kraftwatch quarantine list` and `show` explain it. Where the Kafka is newer, upgrade
       kraftwatch; `kraftwatch quarantine replay` then says what decodes.
    3. A secret in a checkpoint: restrict who reads the folder, change the secret, and remove the checkpoint.
    4. Damaged bytes: look at the disk of the monitor's host, and at the controllers' own with `kraftwatch decode`.

What not to do
    Do not remove the checkpoint before the audit has run: it holds the rows that tell what went wrong. Do not restart
    controllers because of this alert alone: it speaks of the monitor.

Thresholds
    hold (0 s) and clear (10 s). stands (1800 s): longer than the pause between two audits, so that what stays broken
    does not resolve in between.
"""

from collections.abc import Iterable

from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, clear, hold
from rules.formatting import counted, spelled
from rules.model.monitoring import ContractViolation
from rules.model.quorum import Quorum

ID = "data-contract-broken"
STANDS = Threshold(
    name="stands",
    default=1_800.0,
    unit="s",
    meaning="the alert stands this long after the contract was last found broken; at most an hour is remembered",
)
_DECODES = "every-record-decodes"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a contract that was found broken lately."""
    since_ms = quorum.now_ms - thresholds.ms(STANDS.name)
    for breach in sorted(quorum.breaches, key=lambda each: each.contract):
        if breach.last_at_ms >= since_ms:
            yield _finding(quorum, breach)


def _finding(quorum: Quorum, breach: ContractViolation) -> Finding:
    rows = counted(breach.rows, "row") + (" breaks it" if breach.rows == 1 else " break it")
    return Finding(
        rule=ID,
        subject=breach.contract,
        severity=Severity.CRITICAL if breach.grave else Severity.WARNING,
        summary=f"kraftwatch's own data is not what it must be: {breach.promise}, and {rows}; {breach.example}",
        evidence={
            "contract": breach.contract,
            "promise": breach.promise,
            "rows": breach.rows,
            "example": breach.example,
            "journal_row": breach.sequence,
            "first_found": f"{spelled(quorum.now_ms - breach.first_at_ms)} ago",
            "last_found": f"{spelled(quorum.now_ms - breach.last_at_ms)} ago",
            "last_committed_offset": quorum.last_offset,
        },
        remedy=_remedy(breach),
    )


def _remedy(breach: ContractViolation) -> tuple[str, ...]:
    look = "# Hold all that is kept against every contract: kraftwatch audit, with the job's --checkpoint"
    if breach.contract != _DECODES:
        return (look, "# Keep the checkpoint until then, and report what it says as a fault of kraftwatch")
    return (
        "# See what did not decode and why: kraftwatch quarantine list, with the job's --checkpoint",
        "# If a record is of a newer Kafka, upgrade kraftwatch: kraftwatch quarantine replay says what then decodes",
        look,
    )


RULE = Rule(
    id=ID,
    title="kraftwatch's own data is not what it must be",
    text=__doc__ or "",
    thresholds=(hold(0.0), clear(), STANDS),
    evaluate=evaluate,
)
