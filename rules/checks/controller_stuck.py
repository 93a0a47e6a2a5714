"""The active controller answers, and appends no records.

What it means
    The quorum has a leader, every request to it is answered, and the log ends at the high watermark: Raft works. But
    the thread of the active controller that makes every change of the metadata appends nothing, not even the
    NoOpRecord of every half second (KIP-835). While this lasts no topic is created or changed, no broker can join, a
    broker that dies is not noticed, and no partition gets a new leader, although every process looks healthy. Clients
    can still use partitions whose leaders are alive.

    Typical causes: a class of one's own in the controller that waits (create.topic.policy.class.name,
    alter.config.policy.class.name, an authorizer, a metrics reporter), or a bug of Kafka.

    kraftwatch compares the leader's own clock with the time of the newest record. If NoOps are switched off
    (metadata.max.idle.interval.ms=0), an idle log shows nothing, and the result is unknown. Not visible from outside is
    a standby controller or a broker that fetches the log and does not apply it: their metrics show that
    (kafka.server:type=broker-metadata-metrics, last-applied-record-lag-ms).

What to do
    1. Take a thread dump of the active controller, and keep it: the thread whose name ends in event-handler shows what
       it waits for.
    2. Restart the active controller, so that another voter is elected.
    3. If the next active controller also stops appending, the cause is in all of them: remove the class that the thread
       dump shows from their configuration.

What not to do
    Do not restart brokers: a broker cannot join again before the active controller works. Do not restart another
    controller first: the majority needs each voter that is in sync.
"""

from collections.abc import Iterable
from typing import Final

from rules.answers.now import leads
from rules.answers.restart import ONLY_VOTER
from rules.claims.claim import NO, Question, claim
from rules.claims.statement import statement
from rules.claims.words import clause, sentence
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.node_claims import leader_claim
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from rules.model.replica import Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.remedies.step import restarts
from rules.rule import Rule

_STILL_MS: Final = Millis(12_000)
"""How long the active controller must have appended nothing before the condition begins: it appends every half
second, so these are 24 missed records."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the active controller."""
    quorum = facts.quorum
    poll = needed(quorum.poll)
    if quorum.silent_ms is None:
        yield UnknownResult(
            why="whether the active controller appends is not known: no NoOpRecord has been read "
            "(metadata.max.idle.interval.ms=0, or a metadata.version before 3.3), or the log not to its end"
        )
    elif poll.leader is not None and quorum.silent_ms > _STILL_MS:
        yield _finding(facts, poll, since_ms=Millis(poll.observed_at_ms - quorum.silent_ms))


def _finding(facts: Facts, poll: Poll, *, since_ms: Millis) -> Finding:
    leader = poll.leader_id
    return Finding(
        subject=Subject("active controller"),
        severity=Severity.CRITICAL,
        summary=statement(
            sentence(clause(leader_claim(facts.nodes))),
            f" and answers, and has appended nothing since {utc_text(since_ms)}, not even the record of every half "
            "second: its event thread is stuck. ",
            sentence(clause(claim(Question.COMMITS, NO))),
            ", no broker can join, and none that dies is noticed.",
        ),
        evidence={
            "leader": leader,
            "leader_epoch": poll.leader_epoch,
            "leader_log_end_offset": None if poll.leader is None else poll.leader.log_end_offset,
            "high_watermark": poll.high_watermark,
            "nothing_since_ms": since_ms,
        },
        remedy=(
            f"# Take a thread dump of controller {leader} (jstack PID, or kill -3 PID, which writes it to the output "
            "of the process): the thread whose name ends in event-handler shows what it waits for",
            restarts(f"# Restart controller {leader}{_consequence(poll)}", leader),
            "# If the next active controller stops appending too: remove the class that the thread dump shows (a "
            "policy, an authorizer) from the configuration of every controller",
            "# If you have just switched NoOps off (metadata.max.idle.interval.ms=0), nothing is wrong",
            describe_status(facts),
        ),
    )


def _consequence(poll: Poll) -> str:
    return ", so that another voter is elected" if len(poll.voters) > 1 else f": {ONLY_VOTER}"


def _resolved(facts: Facts, _subject: Subject) -> str:
    return statement("The active controller appends records. ", leads(facts.quorum), ".")


RULE = Rule(
    title="The active controller appends nothing",
    resolved=_resolved,
    hold=hold(10.0, "a long pause of the controller's event thread, for a large request, ends within seconds"),
    needs=(Need.FRESH_POLL, Need.CURRENT_LOG),
)
