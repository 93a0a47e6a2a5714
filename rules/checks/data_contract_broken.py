"""Data of a cluster breaks a contract that is checked on every row: alerts may be wrong or missing.

What it means
    The quorum may be healthy. kraftwatch continues to alert.

    - Critical: rows were skipped, passed over or lost.
    - Warning: rows do not decode, or fewer alerts depend on the contract.

    Six contracts are checked on every row; `audit-violations` reports the others:

    - `every-record-decodes`: bytes are damaged, or a record holds values that no known Kafka writes.
    - `every-row-can-be-applied`: kraftwatch failed on a row and skipped it; the state lacks what the row reports.
    - `no-offset-is-passed-over`: rows of the metadata log are missing. It is applied up to there, and `monitor-blind`
      says that it is not current, until it is read again.
    - `every-rule-can-be-evaluated`: rules failed and are unknown; the other rules are evaluated.
    - `every-status-can-be-rendered`: alerts are sent; the page and /metrics show an older status.
    - `every-state-can-be-read`: the cluster's stored state was damaged, and the cluster started with a new one. Alerts
      that can still be read keep firing.

    With `source: kafka`, an alert with the subject `rows of NAME: WHAT` of the cluster `kraftwatch` is about the topic
    of a relay: rows of that cluster were refused and changed no state. `messages of topic NAME partition N`: messages
    of no monitored cluster.

What to do
    1. Run `kraftwatch data audit` with the job's --checkpoint: it checks all stored data against every contract.
    2. For rows that do not decode, run `kraftwatch data quarantine list` and `show`: they print the reason. After an
       upgrade of kraftwatch, `kraftwatch data quarantine replay` shows which rows decode.
    3. For a row, a rule or a status on which kraftwatch failed, report the place that the example names as a bug; the
       row is in the quarantine.
    4. For a state that cannot be read, stop the job and start it with a new --checkpoint, with a copy of kraftwatch.db
       from the old one: it reads the log again from the newest snapshot, and goes on with the alerts and silences.
       Check the disk of the monitor's host.
    5. For the subject `rows of NAME: WHAT`, correct the relay as the remedy says. If no relay of yours writes these
       rows, change the credential that does, and give each relay a topic of its own (`relay.topics`).
    6. For `no-offset-is-passed-over` with `source: kafka`, send SIGHUP to the relay that writes the cluster: it reads
       the log again, as it does every hour. Set retention.ms of the topic above the longest stop of the job.
       Otherwise take the cluster out of the configuration, and add it again once the job has reloaded it.
    7. For damaged bytes: check the disk of the monitor's host, and the controllers' own logs with
       `kraftwatch data decode`.

What not to do
    Do not remove the checkpoint before the audit has run: it holds the rows that show the cause. Do not restart
    controllers: the alert is about the monitor.
"""

from collections.abc import Iterable

from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import plural, utc_text
from rules.model.monitoring import ContractViolation, Reason
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.rule import Rule

STANDS = Threshold(
    name="stands",
    default=1_800.0,
    meaning="the alert fires this long after the contract was last found broken; at most an hour is remembered",
)
_DECODES = "every-record-decodes"
_READS = "every-state-can-be-read"
_PASSED_OVER = "no-offset-is-passed-over"
_FAILURES = ("every-row-can-be-applied", "every-rule-can-be-evaluated", "every-status-can-be-rendered")
"""The contracts that break where kraftwatch itself failed."""
_CONSEQUENCES = {
    _READS: "The cluster started with a new state.",
    _PASSED_OVER: "The metadata log is not evaluated beyond them until it is read again.",
}


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each contract that was found broken recently."""
    quorum = facts.quorum
    since_ms = quorum.now_ms - thresholds.ms(STANDS.name)
    # What is missing since then is read again when another controller leads.
    damaged = any(failure.reason is Reason.LOG_DAMAGED for failure in quorum.failures)
    for violation in sorted(quorum.contract_violations, key=lambda each: each.contract):
        if violation.last_at_ms < since_ms:
            continue
        if violation.contract == _DECODES and damaged:
            yield UnknownResult(
                subject=Subject(_DECODES), why="metadata-log-damaged reports what a controller's disk damaged"
            )
        else:
            yield _finding(quorum, violation)


def _finding(quorum: Quorum, violation: ContractViolation) -> Finding:
    return Finding(
        subject=Subject(violation.contract),
        severity=Severity.CRITICAL if violation.grave else Severity.WARNING,
        summary=f"Recorded data breaks contract {violation.contract} in {plural(violation.rows, 'row')}. "
        f"{_CONSEQUENCES.get(violation.contract, 'Alerts may be wrong or missing.')} Contract: {violation.promise}. "
        f"Example: {violation.example}.",
        evidence={
            "contract": violation.contract,
            "promise": violation.promise,
            "rows": violation.rows,
            "example": violation.example,
            "journal_row": violation.sequence,
            "first_found_broken": utc_text(violation.first_at_ms),
            "last_found_broken": utc_text(violation.last_at_ms),
            "last_committed_offset": quorum.last_offset,
        },
        remedy=_remedy(violation),
    )


def _remedy(violation: ContractViolation) -> tuple[str, ...]:
    audit = "# Check all stored data against every contract: kraftwatch data audit, with the job's --checkpoint"
    if violation.contract in _FAILURES:
        return (
            "# Report the place that the example names as a bug of kraftwatch: other rows and rules are not affected",
            "# List the rows that were skipped: kraftwatch data quarantine list, with the job's --checkpoint",
        )
    if violation.contract == _READS:
        return (
            "# Restart the job with a new --checkpoint: it reads the log again from the newest snapshot",
            "# Check the disk of the monitor's host; keep the old checkpoint, whose quarantine holds the damaged state",
        )
    if violation.contract == _PASSED_OVER:
        return (
            "# With source: kafka, send SIGHUP to the relay that writes the cluster: it reads the log again",
            "# Otherwise take the cluster out of the configuration, and add it again once the job has reloaded it: its "
            "log is then read from the start; a job of this cluster alone: start it with a new --checkpoint",
            audit,
        )
    return (
        "# List the rows that did not decode and why: kraftwatch data quarantine list, with the job's --checkpoint",
        "# After an upgrade of kraftwatch, kraftwatch data quarantine replay shows what decodes then",
        audit,
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    return f"Contract {subject} was not found broken again."


RULE = Rule(
    title="Data that kraftwatch recorded breaks a data contract",
    resolved=_resolved,
    hold=hold(0.0, "no later row corrects an earlier one"),
    further_thresholds=(STANDS,),
    without_leader=True,
)
