"""The leader answers late: it runs, and its own work is slow.

What it means
    One thread of the leader answers requests, appends records and waits for its disk. While a poll waits half a second
    for its answer, so does each metadata change: a new topic, a change of the ISR, a new leader for the partitions of a
    broker that failed, the heartbeats of the brokers. Nothing is lost, and records are committed as soon as the leader
    gets to them, so no voter lags.

    A voter that gets no answer to a fetch within controller.quorum.fetch.timeout.ms (2 s) starts an election, and a
    broker whose heartbeats wait for broker.session.timeout.ms (9 s) is fenced.

    The time is the average of about half a minute, as the monitor's own polls take it: a slow path to the leader, or a
    monitor whose host is busy, looks the same.

What to do
    1. Send a request to the leader from another host: the step below. If it is answered at once, check the path and the
       load of the monitor's host.
    2. Check the leader's CPU (throttled containers, other processes on the host), its garbage collection and the disk
       of metadata.log.dir.
    3. If that does not help soon, restart the leader, if `kraftwatch safe-to-restart` permits it: another voter leads
       then.

What not to do
    Do not restart another voter first: while it is down, the quorum depends on the slow one more. Do not raise
    controller.quorum.fetch.timeout.ms: it hides that the leader is slow.
"""

from collections.abc import Iterable

from rules.answers.now import leads
from rules.claims.statement import Statement, statement
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.node_claims import leader_claim
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import duration
from rules.model.subject import Subject
from rules.remedies.remedy_commands import check_host, describe_status
from rules.rule import Rule

SLOW = Threshold(
    name="slow",
    default=0.5,
    meaning="how long the leader takes to answer a poll on average, in steps of 0.1 s. A leader in another region "
    "answers in 0.1 to 0.2 s",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the leader."""
    poll, wait = needed(facts.quorum.poll), facts.quorum.commit_wait
    if wait is None:
        yield UnknownResult(why="a majority is not in sync, or no poll has shown yet how long it lags")
    elif wait.answer_ms is None:
        yield UnknownResult(why="no poll shows how long the leader takes to answer")
    elif wait.answer_ms >= thresholds.ms(SLOW.name):
        leader = poll.leader_id
        yield Finding(
            subject=Subject("controller", leader),
            severity=Severity.WARNING,
            summary=Statement(
                f"Controller {leader}, the leader, answers late: a poll takes {duration(wait.answer_ms)} on average, "
                "seen from the monitor's host. If it does for others too, each metadata change and each broker's "
                "heartbeat waits as long.",
                leader_claim(facts.nodes),
            ),
            evidence={
                "leader": leader,
                "leader_epoch": poll.leader_epoch,
                "leader_answers_after": duration(wait.answer_ms),
            },
            remedy=(
                "# Send a request to the leader from another host: if it is answered at once, check the path and the "
                "load of the monitor's host",
                describe_status(facts),
                check_host(f"{leader}, the leader"),
                f"# If it stays slow, restart controller {leader}, if `kraftwatch safe-to-restart {leader}` permits it",
            ),
            starts=(leader,),
        )


def _resolved(facts: Facts, subject: Subject) -> str:
    quorum = facts.quorum
    now = None if quorum.commit_wait is None else quorum.commit_wait.answer_ms
    if quorum.leader_id != subject.node or now is None:
        return statement(leads(quorum), f". How fast {subject} answers is not known now.")
    return statement(
        leads(quorum), f", and answers polls {'within' if now else 'in less than'} {duration(now or 100)}."
    )


RULE = Rule(
    title="The leader answers late",
    resolved=_resolved,
    hold=hold(60.0, "the average forgets a pause of ten seconds within a minute"),
    further_thresholds=(SLOW,),
    needs=(Need.FRESH_POLL,),
    inhibited_by=("controller-stuck", "commits-slow"),
    grouped_with=("epoch-churn", "broker-fenced"),
)
