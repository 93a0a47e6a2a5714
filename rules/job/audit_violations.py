"""The newest audit found recorded data that breaks a data contract: alerts may have been wrong or missing.

What it means
    `kraftwatch data audit --record`, which a timer runs, checked the newest rows that the job has recorded and the
    alerts that it has sent. The subject names the contract, for the cluster `kraftwatch`, which is the job itself.
    The quorums may be healthy, and kraftwatch continues to alert.

    - Critical: a secret was recorded where none is allowed, or data is invalid on which every alert depends.
    - Warning: fewer alerts depend on the contract.

    What is checked on every row is reported at once, for its cluster: `data-contract-broken`.

    The alert fires until a later audit does not find the contract broken.

What to do
    1. Run `kraftwatch data audit` with the job's --checkpoint, or its --config: it checks all stored data and prints
       each contract, its reason and an example.
    2. For a secret in a checkpoint: restrict who can read the folder, change the secret, and remove the checkpoint.
    3. Report any other contract as a bug of kraftwatch, with what the audit printed.
    4. Run `kraftwatch data audit --newest 5000 --record` to have the result reported before the timer's next run.

What not to do
    Do not remove the checkpoint before an audit of all data has run: it holds the rows that show the cause. Do not
    restart controllers: the alert is about the monitor.
"""

from collections.abc import Iterable

from rules.finding import Finding, FindingFacts, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import plural, utc_text
from rules.model.identifiers import Millis
from rules.model.job_state import AuditedContract, JobState
from rules.model.subject import Subject
from rules.rule import JobRule

_AT_ONCE = frozenset({"every-record-decodes"})
"""Contracts that are checked on every row: `data-contract-broken` reports them."""
_SECRETS = "secrets-are-blanked"


def evaluate(job: JobState, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each contract that the newest audit found broken."""
    if job.audit is None:
        yield UnknownResult(subject=None, why="the results of the newest audit cannot be read")
        return
    for contract in job.audit.broken:
        if contract.name not in _AT_ONCE:
            yield _finding(contract, job.audit.at_ms)


def _finding(contract: AuditedContract, at_ms: Millis) -> Finding:
    secret = contract.name == _SECRETS
    effect = "A secret may be readable in the checkpoint." if secret else "Alerts may be wrong or missing."
    example = "" if contract.example is None else f" Example: {contract.example}."
    return Finding(
        subject=Subject("contract", contract.name),
        severity=Severity.CRITICAL if contract.grave else Severity.WARNING,
        summary=f"Recorded data breaks contract {contract.name} in {plural(contract.rows, 'row')}. {effect} The audit "
        f"of {utc_text(at_ms)} checked {plural(contract.checked_rows, 'row')} of {contract.suite}.{example}",
        evidence={
            **({"clusters": [*contract.clusters]} if contract.clusters else {}),
            "contract": contract.name,
            "suite": contract.suite,
            "rows": contract.rows,
            "checked_rows": contract.checked_rows,
            "example": contract.example,
            "audited_at_ms": at_ms,
        },
        facts=FindingFacts(clusters=contract.clusters),
        remedy=(
            "# Check all stored data, and read the contract's reason: kraftwatch data audit, with the job's "
            "--checkpoint or --config",
            "# Restrict who can read the checkpoint, change the secret, and remove the checkpoint"
            if secret
            else "# Keep the checkpoint until that audit has run, and report its result as a bug of kraftwatch",
        ),
    )


def _resolved(_job: JobState, subject: Subject) -> str:
    return f"The newest audit did not find {subject} broken."


RULE = JobRule(
    title="Recorded data breaks a data contract, an audit found",
    resolved=_resolved,
    hold=hold(0.0, "a row that was recorded never changes"),
)
