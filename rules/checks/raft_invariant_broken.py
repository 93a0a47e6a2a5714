"""The quorum broke a Raft invariant: two leaders, a leader without a majority, an epoch that went back.

What it means
    This cannot happen while every controller follows Raft (KIP-595). No election, restart, network partition or change
    of voters causes it. Either a controller is faulty, or its disk is not the one it wrote:

    - two quorums answer under one name;
    - a metadata directory was copied or restored;
    - Kafka has a bug;
    - what answers is no controller of this quorum, or answers falsely. One false answer is dropped as soon as later
      answers contradict it: a high watermark after 10 s, a leader epoch after 30 s.

    Committed metadata may be lost or may differ between controllers, and brokers may act on either version. There is
    one alert for each invariant. It fires for an hour, because no later observation proves it wrong.

What to do
    1. Copy the metadata directory of every controller before you restart anything: the copies show which records
       differ.
    2. Find out what was done to the controllers' disks and addresses since the quorum was last healthy.
    3. Stop only what should not be there: a second quorum, or a controller on a copied disk.

What not to do
    Do not restart, format, add or remove a controller before the copies are made.
"""

from collections.abc import Iterable
from typing import Final

from rules.answers.now import leads
from rules.claims.statement import statement
from rules.facts.other_quorums import metadata_losses
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from rules.model.monitoring import Invariant, InvariantViolation
from rules.model.subject import Subject
from rules.remedies.remedy_commands import contradiction_steps
from rules.rule import Rule

_EXPLAINED_MS: Final = Millis(60_000)
"""A violation at most this long before or after a loss of committed metadata counts as part of that loss: a poll
may show it long before the log shows the loss."""
_TITLES = {
    Invariant.TWO_LEADERS: "An epoch had two leaders",
    Invariant.EPOCH_BACK: "The leader epoch went back",
    Invariant.HIGH_WATERMARK_BACK: "The high watermark went back",
    Invariant.ELECTED_BY_MINORITY: "A leader was elected without a majority",
    Invariant.VOTERS_BEFORE_LEADER: "The voter set was changed before the leader's first record",
}


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each broken invariant, unless a loss of committed metadata explains it."""
    losses = metadata_losses(facts.quorum)
    window = _EXPLAINED_MS
    for invariant in Invariant:
        broken = [violation for violation in facts.quorum.invariant_violations if violation.invariant is invariant]
        unexplained = [
            violation
            for violation in broken
            if not any(
                loss.first_at_ms - window <= violation.observed_at_ms <= loss.last_at_ms + window for loss in losses
            )
        ]
        if unexplained:
            yield _finding(facts, invariant, unexplained)
        elif broken:
            yield UnknownResult(subject=Subject(invariant.value), why="a loss of committed metadata explains it")


def _finding(facts: Facts, invariant: Invariant, broken: list[InvariantViolation]) -> Finding:
    quorum = facts.quorum
    newest = broken[-1]
    return Finding(
        subject=Subject(invariant.value),
        severity=Severity.CRITICAL,
        summary=f"{_TITLES[invariant]}, which Raft rules out: {newest.detail}. Controllers may disagree about which "
        "records are committed.",
        evidence={
            "violations": [
                {"violation": violation.detail, "observed": utc_text(violation.observed_at_ms)} for violation in broken
            ],
            "epoch": newest.epoch,
            "leader_now": quorum.leader_id,
            "leader_epoch_now": quorum.leader_epoch,
            "high_watermark_now": quorum.high_watermark,
            "last_committed_offset": quorum.last_offset,
        },
        remedy=contradiction_steps(facts),
    )


def _resolved(facts: Facts, _subject: Subject) -> str:
    return statement(
        "No further violation was observed. ", leads(facts.quorum), ". Which records are committed was not checked."
    )


RULE = Rule(
    title="A Raft invariant is broken",
    resolved=_resolved,
    hold=hold(5.0),
    without_leader=True,
)
