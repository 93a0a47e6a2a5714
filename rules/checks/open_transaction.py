"""A metadata transaction is open and does not end.

What it means
    The metadata log holds a BeginTransactionRecord without an EndTransactionRecord or AbortTransactionRecord (KIP-868).
    Controllers and brokers do not apply the records inside an open transaction: topics, registrations and partition
    changes are written to the log and have no effect.

    Kafka uses such transactions at the first start of a cluster and during a migration from ZooKeeper. They end within
    moments; those of a migration may take minutes. A controller that becomes active aborts the transaction that its
    predecessor left open. A transaction that stays open therefore belongs to an active controller that is stuck.

What to do
    1. If the cluster is being migrated from ZooKeeper, check in the active controller's log whether the migration makes
       progress. If it does, wait.
    2. If not, restart the active controller, if `kraftwatch safe-to-restart` permits it: the next active controller
       aborts the transaction.

What not to do
    Do not restart the active controller during a migration from ZooKeeper that still makes progress.
"""

from collections.abc import Iterable

from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, hold
from rules.formatting import plural, utc_text
from rules.model.history import OpenTransaction
from rules.model.identifiers import Millis, NodeId
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.remedies.step import restart_if_safe
from rules.rule import Rule


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the metadata log while a transaction is open."""
    if facts.quorum.open_transaction is not None:
        yield _finding(facts, facts.quorum.open_transaction)


def _finding(facts: Facts, opened: OpenTransaction) -> Finding:
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms
    age = Millis(max(0, newest - opened.since_timestamp_ms)) if newest is not None else Millis(0)
    name = f"Metadata transaction '{opened.name}'" if opened.name else "A metadata transaction"
    leader = f"controller {quorum.leader_id}" if quorum.leader_id is not None else "the active controller"
    return Finding(
        subject=Subject("metadata log"),
        severity=Severity.WARNING,
        summary=f"{name} has been open since {utc_text(opened.since_timestamp_ms)}. "
        f"It begins at offset {opened.since_offset} and holds "
        f"{plural(opened.records, 'record')} that kraftwatch evaluates. Controllers and brokers do not apply its "
        "records until it ends.",
        evidence={
            "transaction": opened.name,
            "since_offset": opened.since_offset,
            "since_timestamp_ms": opened.since_timestamp_ms,
            "records_not_applied": opened.records,
            "last_committed_offset": quorum.last_offset,
            "leader": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
        },
        remedy=(
            f"# Check in the log of {leader} why it does not end the transaction",
            "# If a migration from ZooKeeper is running and makes progress, wait until it ends",
            _restart(quorum.leader_id),
            "# Check which controller is the leader",
            describe_status(facts),
        ),
        condition_age_ms=age,
    )


def _restart(leader: NodeId | None) -> str:
    then = "the next active controller aborts the transaction"
    if leader is None:
        return f"# Otherwise restart the active controller, if `kraftwatch safe-to-restart` permits it: {then}"
    return restart_if_safe(
        f"# Otherwise restart controller {leader}, if `kraftwatch safe-to-restart {leader}` permits it: {then}", leader
    )


RULE = Rule(
    title="A metadata transaction does not end",
    resolved="No metadata transaction is open: controllers and brokers apply all committed records.",
    hold=hold(60.0, "counted from the beginning of the transaction, which ends within moments"),
    further_thresholds=(),
    needs=(Need.CURRENT_LOG,),
)
