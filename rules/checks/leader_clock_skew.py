"""The leader's clock and the clock of kraftwatch's host differ.

What it means
    One of the two clocks is wrong. The quorum works. But a controller whose clock is wrong rejects valid certificates,
    lets delegation tokens expire at the wrong time, and writes wrong timestamps into the metadata log. If kraftwatch's
    own clock is wrong, the times in its alerts are. The ages in alerts stay right: kraftwatch corrects them.

What to do
    1. Compare both clocks with that of another controller's host.
    2. Repair the time service (NTP, chrony) of the host that is wrong. If that is a controller's host, stop the
       controller before its clock is set, when `kraftwatch safe-to-restart` permits it.
    3. If the clocks of controllers were set back, restart those that do not lead, one after the other.

What not to do
    Do not set the clock of a running controller: Raft's timers count by it. Set forward, they expire, and the leader
    resigns. Set back, they stand still until the clock is as late as it was: a follower does not notice that the leader
    is lost, and rejects the votes of others. A restart or a new leader epoch begins them again.
"""

from collections.abc import Iterable

from rules.answers.now import leads
from rules.claims.claim import Question, claim
from rules.claims.statement import statement
from rules.claims.words import the_leader
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, hold
from rules.formatting import ms_text
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.model.replica import Poll
from rules.model.subject import Subject
from rules.rule import Rule

SKEW = Threshold(
    name="skew",
    default=60.0,
    meaning="the clocks may differ by so much. A time service keeps clocks within milliseconds; from this difference "
    "on, times in alerts and logs mislead people",
)
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(Millis(minutes * _MINUTE) for minutes in (1, 2, 5, 10, 20, 30)),
    *(Millis(hours * _HOUR) for hours in range(1, 24)),
    *(Millis(days * _DAY) for days in (1, 2, 7, 30, 365)),
)
"""The difference is given by these, so that the finding stays the same while the clocks run on."""
_ANSWER_MS = 2_000
"""How long an answer takes: three hours are not reported as two."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding if the leader's clock differs."""
    quorum = facts.quorum
    poll = needed(quorum.poll)
    shown = None if poll.leader is None else poll.leader.last_fetch_ms
    if shown is None:
        return
    received_ms = poll.observed_at_ms - poll.clock_ahead_ms
    if shown - received_ms > thresholds.ms(SKEW.name):
        yield _finding(quorum, poll, "ahead of", Millis(shown - received_ms))
    elif received_ms - shown > thresholds.ms(SKEW.name):
        yield _finding(quorum, poll, "behind", Millis(received_ms - shown))


def _finding(quorum: Quorum, poll: Poll, side: str, skew_ms: Millis) -> Finding:
    leader = poll.leader_id
    at_least_ms = max((step for step in _STEPS if skew_ms + _ANSWER_MS >= step), default=Millis(0))
    by = f"at least {ms_text(at_least_ms)} " if at_least_ms else ""
    others = [node for node in sorted(poll.voter_ids) if node != leader]
    return Finding(
        subject=Subject("controller", leader),
        severity=Severity.WARNING,
        summary=statement(
            "The clock of ",
            the_leader(claim(Question.LEADER, leader)),
            f" is {by}{side} the clock of kraftwatch's host.",
        ),
        evidence={
            "leader": leader,
            "leader_epoch": poll.leader_epoch,
            "skew_at_least_ms": at_least_ms if side == "ahead of" else -at_least_ms,
        },
        remedy=(
            f"# Run date -u and timedatectl on the hosts of controller {leader} and of kraftwatch"
            f"{f', and to compare on that of controller {others[0]}' if others else ''}",
            "# Repair the time service (NTP, chrony) of the host whose clock is wrong",
            f"# If it is that of controller {leader}: stop the controller when `kraftwatch safe-to-restart {leader}` "
            "permits it, set the clock, start the controller",
            "# If the clocks of other controllers were set back, restart these one after the other, before the leader: "
            "until then they may not notice that it is lost",
            "# Do not set the clock of a running controller: its timers expire or stand still",
        ),
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    if facts.quorum.leader_id == subject.node:
        return f"The clock of {subject} and that of kraftwatch's host agree."
    return statement(leads(facts.quorum), f". The clock of {subject} is not compared while it does not lead.")


RULE = Rule(
    title="The leader's clock differs from the clock of kraftwatch's host",
    resolved=_resolved,
    hold=hold(30.0),
    further_thresholds=(SKEW,),
    needs=(Need.FRESH_POLL,),
)
