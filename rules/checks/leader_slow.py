"""The leader answers late, or a voter follows late: it runs, and its own work is slow.

What it means
    One thread of the leader answers requests, appends records and waits for its disk. While a poll waits half a second
    for its answer, so does each metadata change: a new topic, a change of the ISR, a new leader for the partitions of a
    broker that failed, the heartbeats of the brokers. Nothing is lost, and records are committed as soon as the leader
    gets to them, so no voter lags.

    A voter that gets no answer to a fetch within controller.quorum.fetch.timeout.ms (2 s) starts an election, and a
    broker whose heartbeats wait for broker.session.timeout.ms (9 s) is fenced.

    A voter follows late if half of the polls of a minute find it a second behind or more. It is in sync, and records
    are committed without it. Once another voter is down, each commit waits for this one, and the elections that follow
    wait for its disk. A leader that lost the lead because its disk is slow looks like this.

    The time is the average of about half a minute. A slow path to the leader, or a monitor whose host is busy, looks
    the same.

What to do
    1. Send a request to the leader from another host: the step below. If it is answered at once, check the path and the
       load of the monitor's host.
    2. Check the leader's CPU (throttled containers, other processes on the host), its garbage collection and the disk
       of metadata.log.dir.
    3. If that does not help soon, restart the leader, if `kraftwatch safe-to-restart` permits it: another voter leads
       then.
    4. Of a voter check the same, and its path to the leader.

What not to do
    Do not restart another voter first: while it is down, the quorum depends on the slow one more. Do not raise
    controller.quorum.fetch.timeout.ms: it hides that the leader is slow.
"""

from collections.abc import Iterable
from typing import Final

from rules.answers.now import leads
from rules.claims.statement import statement
from rules.claims.words import predicate, sentence, the_leader
from rules.facts.following import Following, lag_samples
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.node import NodeFacts
from rules.facts.node_claims import follows_claim, leader_claim
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import duration
from rules.model.identifiers import Millis
from rules.model.membership import majority
from rules.model.replica import Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import check_host, describe_replication, describe_status, find_delay
from rules.remedies.step import restart_if_safe
from rules.rule import Rule

SLOW = Threshold(
    name="slow",
    default=0.5,
    meaning="how long the leader takes to answer a poll on average, in steps of 0.1 s. A leader in another region "
    "answers in 0.1 to 0.2 s",
)

_LATE_MS: Final = Millis(1_000)
"""How far behind the leader half of the polls of a minute find a voter that follows late. An idle follower is half
a second behind at most, one in another region 0.1 to 0.2 s more."""
_FEW = 6
"""Fewer polls are no minute: they are kept every five seconds."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the leader, or else one about each voter that follows late."""
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
            summary=sentence(
                the_leader(leader_claim(facts.nodes)),
                f" answers late: a poll takes {duration(wait.answer_ms)} on average, seen from the monitor's host. If "
                "it does for others too, each metadata change and each broker's heartbeat waits as long.",
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
                restart_if_safe(
                    f"# If it stays slow, restart controller {leader}, if `kraftwatch safe-to-restart {leader}` "
                    "permits it",
                    leader,
                ),
            ),
        )
    else:
        voters = facts.nodes.polled_voters
        lags = [(voter, _usual_lag_ms(facts, voter)) for voter in voters if voter.id != poll.leader_id]
        late = [(voter, ms) for voter, ms in lags if ms is not None and ms >= _LATE_MS]
        # Without a majority that is in time, it is not these voters that are slow.
        if len(voters) - len(late) >= majority(len(voters)):
            for voter, lag_ms in late:
                yield _follows_late(facts, poll, voter, lag_ms)


def _usual_lag_ms(facts: Facts, voter: NodeFacts) -> Millis | None:
    """Returns how far behind half of the kept polls find a voter that is in sync; None if they are too few."""
    lags = sorted(sample.lag_ms for sample in lag_samples(facts.quorum, voter.key) if sample.lag_ms is not None)
    return None if len(lags) < _FEW or voter.following is not Following.IN_SYNC else lags[len(lags) // 2]


def _follows_late(facts: Facts, poll: Poll, voter: NodeFacts, lag_ms: Millis) -> Finding:
    behind = duration(lag_ms // 1_000 * 1_000)
    return Finding(
        subject=Subject("voter", voter.id),
        severity=Severity.WARNING,
        summary=statement(
            f"Voter {voter.id} follows late, {behind} or more behind leader {poll.leader_id} in half of the polls. ",
            "It ",
            predicate(follows_claim(facts.nodes, voter)),
            ", and the others commit without it; if one of them is lost, each metadata change may wait as long.",
        ),
        evidence={
            "voter": str(voter.key),
            "behind_in_half_of_the_polls": behind,
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(*find_delay(facts, voter), describe_replication(facts)),
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    quorum = facts.quorum
    if subject.kind == "voter":
        voter = next((one for one in facts.nodes.polled_voters if one.id == subject.node), None)
        lag_ms = None if voter is None else _usual_lag_ms(facts, voter)
        late = "is not known now" if lag_ms is None else f"was less than {duration(lag_ms // 1_000 * 1_000 + 1_000)}"
        return statement(leads(quorum), f". How far voter {subject.node} was behind in half of the polls {late}.")
    now = None if quorum.commit_wait is None else quorum.commit_wait.answer_ms
    if quorum.leader_id != subject.node or now is None:
        return statement(leads(quorum), f". How fast {subject} answers is not known now.")
    return statement(
        leads(quorum), f", and answers polls {'within' if now else 'in less than'} {duration(now or 100)}."
    )


RULE = Rule(
    title="The leader or a voter is slow",
    resolved=_resolved,
    hold=hold(60.0, "the average forgets a pause of ten seconds within a minute"),
    further_thresholds=(SLOW,),
    needs=(Need.FRESH_POLL,),
    inhibited_by=("controller-stuck", "commits-slow"),
    grouped_with=("epoch-churn", "broker-fenced"),
)
