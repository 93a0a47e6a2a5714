"""The quorum did what Raft rules out: an epoch with two leaders, an epoch or a high watermark that goes back.

What it means
    These cannot happen while the controllers keep Raft's promises (KIP-595): no election, restart, network split or
    change of voters causes them. One of them is broken, or stands on a disk that is not the one it wrote:

    - two quorums answer under one name;
    - a metadata directory was copied or restored;
    - there is a fault in Kafka.

    Metadata that was committed may be gone or differ from controller to controller, and brokers may act on either. One
    alert for each promise; it stays for an hour, because no later answer takes it back.

Evidence
    What was promised, each time it was broken as far as remembered (16), and which epoch it was; leader and high
    watermark now.

What to do
    1. Keep a copy of every controller's metadata directory before anything is restarted: the copies show which records
       differ.
    2. Find out what was done to the controllers' disks and addresses since the last time all was well.
    3. Stop what should not be there (a second quorum, a controller on a copied disk), and only that.

What not to do
    Do not restart, format, add or remove a controller before the copies are made.

Thresholds
    hold (5 s) and clear (10 s). explained (60 s): what was broken this long before or after committed metadata was
    found lost comes from that loss, and cannot be judged here.
"""

from collections.abc import Iterable

from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, UnknownResult, clear, hold
from rules.formatting import spelled
from rules.model.monitoring import Invariant, InvariantViolation, Reason
from rules.model.quorum import Quorum
from rules.remedy_commands import against_raft

ID = "raft-invariant-broken"
EXPLAINED = Threshold(
    name="explained",
    default=60.0,
    unit="s",
    meaning="what is broken this long before or after committed metadata was found lost is taken for a part of that "
    "loss. The default covers a poll that saw it long before the log did",
)
_TITLES = {
    Invariant.TWO_LEADERS: "an epoch had two leaders",
    Invariant.EPOCH_BACK: "the leader epoch went back",
    Invariant.HIGH_WATERMARK_BACK: "the high watermark went back",
}


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a promise that was broken, unless the loss of metadata explains it."""
    losses = [each for each in quorum.failures if each.reason is Reason.METADATA_LOST]
    window = thresholds.ms(EXPLAINED.name)
    for invariant in Invariant:
        broken = [each for each in quorum.violations if each.invariant is invariant]
        unexplained = [
            each
            for each in broken
            if not any(loss.first_at_ms - window <= each.observed_at_ms <= loss.last_at_ms + window for loss in losses)
        ]
        if unexplained:
            yield _finding(quorum, invariant, unexplained)
        elif broken:
            yield UnknownResult(rule=ID, subject=invariant.value, why="committed metadata was lost, which explains it")


def _finding(quorum: Quorum, invariant: Invariant, broken: list[InvariantViolation]) -> Finding:
    newest = broken[-1]
    return Finding(
        rule=ID,
        subject=invariant.value,
        severity=Severity.CRITICAL,
        summary=f"{_TITLES[invariant]}, which Raft rules out: {newest.detail}; controllers may disagree about what is "
        "committed",
        evidence={
            "broken": [
                {"what": each.detail, "seen": f"{spelled(quorum.now_ms - each.observed_at_ms)} ago"} for each in broken
            ],
            "epoch": newest.epoch,
            "leader_now": quorum.leader_id,
            "leader_epoch_now": quorum.leader_epoch,
            "high_watermark_now": quorum.high_watermark,
            "last_committed_offset": quorum.last_offset,
        },
        remedy=against_raft(quorum),
    )


RULE = Rule(
    id=ID,
    title="Raft's promises were broken",
    text=__doc__ or "",
    thresholds=(hold(5.0), clear(), EXPLAINED),
    evaluate=evaluate,
)
