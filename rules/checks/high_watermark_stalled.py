"""The leader appends records, but none of them is committed.

What it means
    The leader answers and its log grows, but the high watermark does not move: no majority of the voters replicates
    the log. While this lasts no topic is created, no broker joins, and no partition gets a new leader, although every
    process may look healthy. Clients can still use partitions whose leaders are alive.

    The active controller writes a NoOpRecord every half second (KIP-835), so a healthy quorum commits twice a second
    even when it is idle. If NoOps are switched off (metadata.max.idle.interval.ms=0), an idle log ends at its high
    watermark, and this rule does not fire.

What to do
    1. Find in the evidence which voters do not fetch, and bring back enough of them for a majority.
    2. If all voters fetch and nothing is committed, the leader itself is stuck: restart it, so that another voter is
       elected.

What not to do
    Do not restart a voter that is in sync, except the leader in step 2: the majority needs each of them.
"""

from collections.abc import Iterable

from rules.answers.now import leads
from rules.claims.claim import NO, YES, Question, claim
from rules.claims.statement import Statement, statement
from rules.facts.following import Following
from rules.facts.following_text import follows_text, voters_in_sync
from rules.facts.freshness import needed, poll_problem
from rules.facts.needs import Need
from rules.facts.node import NodeFacts
from rules.facts.node_claims import in_sync_count, leader_claim
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import needed_text, plural, utc_text
from rules.model.identifiers import Millis
from rules.model.membership import majority
from rules.model.replica import Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import bring_in_sync, describe_status
from rules.rule import Rule

STILL = Threshold(
    name="still",
    default=10.0,
    meaning="how long the high watermark must not move before the condition begins; the condition must then last for "
    "hold. An idle quorum commits every half second, so the default is twenty missed commits",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the quorum."""
    quorum = facts.quorum
    poll = needed(quorum.poll)
    if poll.leader is None or poll.leader.log_end_offset is None:
        yield UnknownResult(why=poll_problem(quorum))
        return
    if quorum.high_watermark_since_ms is None:
        yield UnknownResult(why="the high watermark has not been observed to move yet")
        return
    unchanged_for = Millis(quorum.now_ms - quorum.high_watermark_since_ms)
    end, committed = poll.leader.log_end_offset, quorum.high_watermark
    uncommitted = None if committed is None else end - committed
    if unchanged_for > thresholds.ms(STILL.name) and end > (committed or 0):
        since = quorum.high_watermark_since_ms
        yield _finding(facts, poll, facts.nodes.polled_voters, since, uncommitted)


def _finding(
    facts: Facts, poll: Poll, statuses: tuple[NodeFacts, ...], since: Millis, uncommitted: int | None
) -> Finding:
    quorum = facts.quorum
    needed, in_sync = majority(len(statuses)), in_sync_count(statuses)
    records = "records of which none is known to be committed"
    if uncommitted is not None:
        records = plural(uncommitted, "uncommitted record")
    high_watermark = "unknown" if quorum.high_watermark is None else f"at {quorum.high_watermark}"
    return Finding(
        subject=Subject("quorum"),
        severity=Severity.CRITICAL,
        summary=statement(
            Statement(
                f"Nothing is committed: the high watermark has been {high_watermark} since {utc_text(since)}. "
                f"No metadata change takes effect. "
                f"Leader: controller {poll.leader_id}, with {records}. ",
                claim(Question.COMMITS, NO),
                leader_claim(facts.nodes),
            ),
            voters_in_sync(facts.nodes),
            f"; {needed_text(needed)}.",
        ),
        evidence={
            "high_watermark": quorum.high_watermark,
            "high_watermark_since_ms": quorum.high_watermark_since_ms,
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
            "leader_log_end_offset": poll.leader.log_end_offset if poll.leader else None,
            "uncommitted_records": uncommitted,
            "voters_in_sync": in_sync,
            "majority": needed,
            "voters": {
                str(
                    status.key
                ): f"{follows_text(facts.nodes, status)}; log ends at {_or_unknown(status.log_end_offset)}"
                for status in statuses
            },
        },
        remedy=tuple(_remedy(facts, poll, statuses)),
        starts=tuple(status.id for status in statuses if status.following is Following.NOT_FETCHING)
        or (poll.leader_id,),
    )


def _remedy(facts: Facts, poll: Poll, statuses: tuple[NodeFacts, ...]) -> Iterable[str]:
    missing = [status for status in statuses if status.following is not Following.IN_SYNC]
    for status in missing:
        yield from bring_in_sync(facts, status)
    if missing:
        yield f"# Wait until {majority(len(statuses))} of {len(statuses)} voters are in sync: the leader then commits"
    else:
        elected = "another voter is elected" if len(statuses) > 1 else "it is elected again"
        yield (
            f"# Restart the leader, controller {poll.leader_id}, so that {elected}: every voter fetches, but nothing "
            "is committed"
        )
    yield "# Check the log end offset of each voter"
    yield describe_status(facts)


def _or_unknown(value: int | None) -> str:
    return "an unknown offset" if value is None else str(value)


def _resolved(facts: Facts, _subject: Subject) -> str:
    quorum = facts.quorum
    at = "" if quorum.high_watermark is None else f": the high watermark is {quorum.high_watermark}"
    if quorum.silent_ms:
        return statement(
            f"All records that the leader has appended are committed{at}. It appends no more. ", leads(quorum), "."
        )
    return statement(Statement(f"Records are committed{at}. ", claim(Question.COMMITS, YES)), leads(quorum), ".")


RULE = Rule(
    title="The high watermark does not move",
    resolved=_resolved,
    hold=hold(
        20.0, "a leader without a majority resigns within seconds (check quorum), and an election takes one or two"
    ),
    further_thresholds=(STILL,),
    needs=(Need.FRESH_POLL,),
)
