"""Metadata records are committed, but each waits long for a majority of the voters.

What it means
    Every metadata change waits until a majority of the voters has written it: the creation of a topic, a change of the
    ISR, a new leader for the partitions of a broker that failed. In a healthy quorum that takes milliseconds. While
    this alert fires, each takes as much longer; nothing is lost, and no partition is offline for it.

    The time is that of Kafka's metric commit-latency-avg, as polls show it, on average over about half a minute.

    If an election is near, the alert is critical: a voter that gets no answer to a fetch within
    controller.quorum.fetch.timeout.ms (2 s) starts one, and then nothing is committed until it ends.

What to do
    1. If the leader is slow, find out why: one thread answers requests, appends, and waits for its disk. Check its
       metadata disk, its CPU and its garbage collection. A leader whose disk needs half a second for each batch gets
       no further than that, and another one is elected soon.
    2. If voters fetch late and the leader answers in time, check the same on them, and their paths to the leader.
    3. If another voter is down, bring it back: the majority then needs no slow one.

What not to do
    Do not restart a voter that fetches: while it is down, the majority needs every other one. Do not raise
    controller.quorum.fetch.timeout.ms to make the elections stop: the commits stay slow.
"""

from collections.abc import Iterable

from rules.answers.now import leads
from rules.claims.statement import statement
from rules.facts.following import NEAR_RECORDS, Following, lag_samples
from rules.facts.following_text import follows_text
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.node import NodeFacts
from rules.facts.quorum import Facts
from rules.facts.replica_lag import Readiness, readiness
from rules.finding import Finding, NotApplicable, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import and_join, duration, plural
from rules.model.quorum import Quorum
from rules.model.replica import CommitWait, Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import bring_in_sync, check_host, check_path, describe_replication
from rules.rule import Rule

SLOW = Threshold(
    name="slow",
    default=0.5,
    meaning="how long a record waits on average from when on people notice it, in steps of 0.1 s. A majority in "
    "another region takes one round trip, 0.1 to 0.2 s",
)
ELECTION_NEAR = Threshold(
    name="election_near",
    default=1.0,
    meaning="from which average on the alert is critical. A record waits half the time between two fetches on average, "
    "so this is half of controller.quorum.fetch.timeout.ms: set it with that",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the quorum."""
    quorum = facts.quorum
    poll, wait = needed(quorum.poll), quorum.commit_wait
    if poll.leader is not None and poll.leader.last_caught_up_ms is None:
        yield NotApplicable(why="DescribeQuorum does not say when a voter had caught up, before Kafka 3.3")
        return
    if wait is None:
        yield UnknownResult(why="a majority is not in sync, or no poll has shown yet how long it lags")
        return
    if wait.average_ms < thresholds.ms(SLOW.name):
        return
    statuses = facts.nodes.polled_voters
    late_ms = min(wait.average_ms, max(wait.lags_ms.values()))
    slow = [status for status in statuses if wait.lags_ms.get(str(status.key), -1) >= late_ms]
    catching_up = [status.id for status in slow if _catches_up(quorum, status, thresholds)]
    if catching_up:
        yield UnknownResult(why=f"catching up: {and_join(f'voter {node}' for node in catching_up)}")
        return
    near = wait.average_ms >= thresholds.ms(ELECTION_NEAR.name)
    yield _finding(facts, poll, wait, slow, Severity.CRITICAL if near else Severity.WARNING)


def _catches_up(quorum: Quorum, status: NodeFacts, thresholds: Thresholds) -> bool:
    samples, limit_ms = lag_samples(quorum, status.key), quorum.ages.fetch_ms
    state = readiness(samples, limit_ms=limit_ms)
    return (status.lag or 0) > NEAR_RECORDS and state is Readiness.CATCHING_UP


def _finding(facts: Facts, poll: Poll, wait: CommitWait, slow: list[NodeFacts], severity: Severity) -> Finding:
    absent = [status for status in slow if status.following is Following.NOT_FETCHING]
    near = severity is Severity.CRITICAL
    consequence = "An election is near, and until it ends nothing is committed" if near else "Each change takes longer"
    return Finding(
        subject=Subject("quorum"),
        severity=severity,
        summary=f"Metadata commits are slow: a record waits {duration(wait.average_ms)} on average until a majority of "
        f"the voters has it. {_cause(facts, poll, wait, slow)} {consequence}: new topics, ISR changes, new leaders of "
        "partitions.",
        evidence={
            "average_wait": duration(wait.average_ms),
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
            "leader_answers_after": None if wait.answer_ms is None else _time(wait.answer_ms),
            "voters": {
                str(
                    status.key
                ): f"{follows_text(facts.nodes, status)}; lags by {_time(wait.lags_ms.get(str(status.key), 0))} on "
                "average"
                for status in facts.nodes.polled_voters
            },
        },
        remedy=(
            *_remedy(facts, poll, wait, slow),
            "# Check that no voter lags any longer",
            describe_replication(facts),
        ),
        starts=tuple(status.id for status in absent),
    )


def _leader_is_slow(wait: CommitWait) -> bool:
    """Whether half of the time is known to pass in the leader itself."""
    return wait.answer_ms is not None and 2 * wait.answer_ms >= wait.average_ms


def _how(facts: Facts, wait: CommitWait, status: NodeFacts) -> str:
    if status.following is Following.NOT_FETCHING:
        return follows_text(facts.nodes, status)
    return duration(wait.lags_ms[str(status.key)])


def _cause(facts: Facts, poll: Poll, wait: CommitWait, slow: list[NodeFacts]) -> str:
    if wait.answer_ms is not None and _leader_is_slow(wait):
        return (
            f"The leader is slow, controller {poll.leader_id}: it takes {duration(wait.answer_ms)} to answer a poll, "
            "as with a slow disk, too little CPU or long garbage collections."
        )
    late = and_join(f"{status.id} ({_how(facts, wait, status)})" for status in slow)
    answers = "has not been seen to answer late" if wait.answer_ms is None else "answers in time"
    return (
        f"{plural(len(slow), 'voter')} of {len(wait.lags_ms)} {'is' if len(slow) == 1 else 'are'} late: {late}. The "
        f"leader, controller {poll.leader_id}, {answers}."
    )


def _remedy(facts: Facts, poll: Poll, wait: CommitWait, slow: list[NodeFacts]) -> Iterable[str]:
    if _leader_is_slow(wait):
        yield check_host(f"{poll.leader_id}, the leader")
        yield f"# If its disk is slow, give metadata.log.dir of controller {poll.leader_id} a disk of its own"
    for status in sorted(slow, key=lambda one: one.following is not Following.NOT_FETCHING):
        if status.following is Following.IN_SYNC and not _leader_is_slow(wait):
            yield check_host(str(status.id))
            yield check_path(facts, status)
        else:
            yield from bring_in_sync(facts, status)


def _time(rounded_ms: int) -> str:
    return duration(rounded_ms) if rounded_ms else "less than 0.1 s"


def _resolved(facts: Facts, _subject: Subject) -> str:
    quorum = facts.quorum
    wait = quorum.commit_wait
    if wait is None:
        return statement("How long a record waits for a majority is not known now. ", leads(quorum), ".")
    waits = f"A record waits {_time(wait.average_ms)} on average until a majority has it. "
    return statement(waits, leads(quorum), ".")


RULE = Rule(
    title="Metadata commits are slow",
    resolved=_resolved,
    hold=hold(60.0, "the average forgets a pause of ten seconds within a minute, and an election is over in a few"),
    further_thresholds=(SLOW, ELECTION_NEAR),
    needs=(Need.FRESH_POLL,),
)
