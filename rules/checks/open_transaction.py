"""A metadata transaction was begun and does not end.

What it means
    The log holds a BeginTransactionRecord without its end (KIP-868). Whatever was written since, within it, is kept
    back by every controller and broker: topics, registrations and partition changes that stand in the log and do not
    count. No metric and no tool shows it.

    Kafka uses such transactions at a cluster's first start and while it migrates from ZooKeeper, and ends them within
    moments; a migration's may take minutes. A controller that becomes active aborts what its predecessor left open, so
    a transaction that lasts belongs to one that still leads and is stuck.

Evidence
    Its name, where it begins and how old it is by the log's own time; how many of the records we judge by it holds.

What to do
    1. If the cluster migrates from ZooKeeper, look in the active controller's log whether the migration makes progress:
       then wait.
    2. If not, restart the active controller: the next one aborts the transaction.

What not to do
    Do not restart the active controller in the middle of a migration from ZooKeeper that still makes progress.

Thresholds
    hold (60 s), counted from the transaction's beginning, and clear (10 s). seen_age (10 s): the log must have
    answered this recently.
"""

from collections.abc import Iterable

from rules.analysis.freshness import SEEN_AGE
from rules.analysis.log_freshness import unread
from rules.finding import Finding, Rule, RuleResult, Severity, Thresholds, clear, hold
from rules.formatting import counted, spelled
from rules.model.history import OpenTransaction
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "open-transaction"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding about the log, while a transaction is open."""
    hindrance = unread(ID, quorum, thresholds)
    if hindrance is not None:
        yield hindrance
    elif quorum.open_transaction is not None:
        yield _finding(quorum, quorum.open_transaction)


def _finding(quorum: Quorum, opened: OpenTransaction) -> Finding:
    newest = quorum.newest_timestamp_ms
    age = Millis(max(0, newest - opened.since_timestamp_ms)) if newest is not None else Millis(0)
    name = f"transaction '{opened.name}'" if opened.name else "a transaction"
    leader = f"controller {quorum.leader_id}" if quorum.leader_id is not None else "the active controller"
    return Finding(
        rule=ID,
        subject="metadata log",
        severity=Severity.WARNING,
        summary=f"{name} is open in the metadata log since offset {opened.since_offset}, for {spelled(age)}: what it "
        f"holds ({counted(opened.records, 'record')} that we judge by) does not count",
        evidence={
            "transaction": opened.name,
            "since_offset": opened.since_offset,
            "since_ms_by_the_log": opened.since_timestamp_ms,
            "open_for": spelled(age),
            "records_kept_back": opened.records,
            "last_committed_offset": quorum.last_offset,
            "leader": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
        },
        remedy=(
            f"# Read the log of {leader} for what it does and why it does not end the transaction",
            "# If a migration from ZooKeeper is under way and makes progress, wait for it",
            f"# Else restart {leader}: the next active controller aborts the transaction",
            "# See who leads",
            describe_status(quorum),
        ),
        standing_ms=age,
    )


RULE = Rule(
    id=ID,
    title="A metadata transaction does not end",
    text=__doc__ or "",
    thresholds=(hold(60.0), clear(), SEEN_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader", "high-watermark-stalled", "committed-metadata-lost"),
)
