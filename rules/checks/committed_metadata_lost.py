"""Metadata that was committed is gone from the log.

What it means
    The log was cut below an offset that a majority had already acknowledged, or written again there in a newer epoch.
    Raft rules that out (KIP-595), so somebody or something went around it: a controller's disk was restored from an
    older copy, a majority of disks was wiped, or the quorum was rebuilt by hand.

    Topics, configurations and permissions that were created since may not exist any more, although clients were told
    that they do. The quorum looks well, and Kafka itself reports this nowhere.

Evidence
    Where the log was cut, as the follower met it; when; the voter set and the offset known now.

What to do
    1. Leave every node as it is, and copy the `__cluster_metadata-0` directory of each controller and broker: one of
       them may still hold what was lost.
    2. Find out which controller was restored or rebuilt, and by whom.
    3. Compare the copies from the offset named on (`kraftwatch decode`), and create again what is missing.

What not to do
    Do not restart or format further nodes: a node that truncates its log to follow the new leader destroys a copy.

Thresholds
    hold (0 s): what was seen once has happened. clear (10 s). The loss is remembered for an hour: no later success
    mends it.
"""

from collections.abc import Iterable

from rules.finding import Finding, Rule, RuleResult, Severity, Thresholds, clear, hold
from rules.model.monitoring import FailedObservation, Reason
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "committed-metadata-lost"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding about the log, for as long as the loss is remembered."""
    lost = sorted(
        (each for each in quorum.failures if each.reason is Reason.METADATA_LOST),
        key=lambda each: (each.last_at_ms, each.endpoint),
    )
    if not lost:
        return
    newest = lost[-1]
    yield Finding(
        rule=ID,
        subject="metadata log",
        severity=Severity.CRITICAL,
        summary=f"committed metadata was lost{_at(newest)}: {newest.detail}",
        evidence={
            "losses": [
                {
                    "what": each.detail,
                    "asked": each.endpoint or None,
                    "first_seen_at_ms": each.first_at_ms,
                    "last_seen_at_ms": each.last_at_ms,
                }
                for each in lost
            ],
            "leader": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
            "last_committed_offset": quorum.last_offset,
            "high_watermark": quorum.high_watermark,
            "voters": [str(voter.key) for voter in quorum.committed.voters] if quorum.committed else [],
            "voters_record_offset": quorum.committed.offset if quorum.committed else None,
        },
        remedy=(
            "# Restart and format no further node: each one that follows the new log cuts its own copy of the old one",
            "# Copy __cluster_metadata-0 of every controller and broker away before anything else: one of them may "
            "hold what was lost",
            "# Find out which controller's disk was restored, wiped or rebuilt, and stop whatever does it",
            "# Compare topics, configurations and ACLs with what should exist, and create again what is missing",
            "# See who leads now, and how far the others are",
            describe_status(quorum),
        ),
    )


def _at(failure: FailedObservation) -> str:
    return f", as {failure.endpoint} answers" if failure.endpoint else ""


RULE = Rule(
    id=ID,
    title="Committed metadata was lost",
    text=__doc__ or "",
    thresholds=(hold(0.0), clear()),
    evaluate=evaluate,
)
