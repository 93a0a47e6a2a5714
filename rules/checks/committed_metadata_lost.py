"""Committed metadata is missing from the metadata log.

What it means
    The log was truncated below an offset that a majority had already acknowledged, or was rewritten there in a newer
    epoch. Raft does not allow this (KIP-595), so something outside Kafka caused it: a controller's disk was restored
    from an older copy, a majority of the disks was wiped, or the quorum was rebuilt by hand.

    Topics, configurations and ACLs that were created since then may no longer exist, although Kafka confirmed them to
    the clients. The quorum looks healthy, and Kafka itself does not report the loss. The alert fires for an hour.

What to do
    1. Leave every node as it is, and copy the `__cluster_metadata-0` directory of each controller and broker: one of
       them may still hold the lost records.
    2. Find out which controller was restored or rebuilt, and who did it.
    3. Compare the copies: `kraftwatch rescue plan` prints where each log ends and which one is the most complete,
       `kraftwatch decode` the records from the reported offset on. Create again what is missing.

What not to do
    Do not restart or format any further node: a node that truncates its log to follow the new leader destroys a copy.
"""

from collections.abc import Iterable

from rules.analysis.start_conditions import COPY_METADATA_FIRST
from rules.finding import Finding, Rule, RuleResult, Severity, Thresholds, hold
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from rules.remedies.remedy_commands import describe_status


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the metadata log while a loss is remembered."""
    losses = sorted(
        (each for each in quorum.failures if each.reason is Reason.METADATA_LOST),
        key=lambda each: (each.last_at_ms, each.endpoint),
    )
    if not losses:
        return
    newest = losses[-1]
    reporter = f" (reported by {newest.endpoint})" if newest.endpoint else ""
    yield Finding(
        subject="metadata log",
        severity=Severity.CRITICAL,
        summary=f"Committed metadata was lost: {newest.detail}{reporter}. "
        "Topics, configurations and ACLs may be missing.",
        evidence={
            "losses": [
                {
                    "detail": each.detail,
                    "reported_by": each.endpoint or None,
                    "first_reported_at_ms": each.first_at_ms,
                    "last_reported_at_ms": each.last_at_ms,
                }
                for each in losses
            ],
            "leader": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
            "last_committed_offset": quorum.last_offset,
            "high_watermark": quorum.high_watermark,
            "voters": [str(voter.key) for voter in quorum.voters],
            "voters_record_offset": quorum.committed.offset if quorum.committed else None,
        },
        remedy=(
            COPY_METADATA_FIRST,
            "# Find out which controller's disk was restored, wiped or rebuilt, and stop the process that does it",
            "# Compare topics, configurations and ACLs with what should exist, and create again what is missing",
            "# Check which controller is the leader now and which replicas follow it",
            describe_status(quorum),
        ),
    )


RULE = Rule(
    title="Committed metadata was lost",
    resolved="No further loss of committed metadata was observed. What was lost is not restored.",
    hold=hold(0.0, "one observation is proof"),
)
