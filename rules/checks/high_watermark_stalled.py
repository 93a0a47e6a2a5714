"""A leader takes records and none of them is committed.

What it means
    The leader answers and its log goes on, while the high watermark stands: no majority of the voters copies what it
    writes. While it stands no topic is created, no broker joins, and no partition gets a new leader, although a leader
    is there and every process may look green. Clients go on with the partitions whose leaders live.

    The active controller writes a NoOpRecord every half second (KIP-835), so a healthy quorum commits twice a second
    even when nobody does anything. Where NoOps are switched off (metadata.max.idle.interval.ms=0) an idle log ends at
    its high watermark, and this rule stays quiet.

Evidence
    The high watermark and since when it stands; the leader's log end offset, and so how many records wait; what each
    voter does, and how many are needed.

What to do
    1. See in the evidence which voters do not fetch, and bring back as many as a majority needs.
    2. Where they all fetch and nothing commits, the leader itself is stuck: restart it, so that another is elected.

What not to do
    Do not restart a voter that keeps up: it is part of what is left of the majority.

Thresholds
    hold (20 s) and clear (10 s). still (10 s): how long the high watermark must stand before that is a condition at
    all, twenty NoOps; so half a minute in the whole. A leader that hears no majority resigns within seconds (check
    quorum), and an election takes one or two: neither reaches it. silent (10 s), behind (10 s), poll_age (10 s).
"""

from collections.abc import Iterable

from rules.analysis.freshness import POLL_AGE, SILENT, fresh_poll, no_fresh_poll
from rules.analysis.voter_status import BEHIND, Part, Seat, keeping_up, seats
from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, UnknownResult, clear, hold
from rules.formatting import counted, spelled
from rules.model.identifiers import Millis
from rules.model.poll import Poll
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "high-watermark-stalled"
STILL = Threshold(
    name="still",
    default=10.0,
    unit="s",
    meaning="how long the high watermark must stand before that counts as a condition, which must then last for hold. "
    "An idle quorum commits every half second, so the default is twenty commits missed",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding about the quorum."""
    poll = fresh_poll(quorum, thresholds)
    if poll is None or poll.leader is None or poll.leader.log_end_offset is None:
        yield no_fresh_poll(ID, quorum)
        return
    if quorum.high_watermark_since_ms is None:
        yield UnknownResult(rule=ID, subject=None, why="the high watermark was not seen to move yet")
        return
    stood = Millis(quorum.now_ms - quorum.high_watermark_since_ms)
    waiting = poll.leader.log_end_offset - (quorum.high_watermark or 0)
    if stood > thresholds.ms(STILL.name) and waiting > 0:
        yield _finding(quorum, poll, seats(quorum, poll, thresholds), stood, waiting)


def _finding(quorum: Quorum, poll: Poll, seated: tuple[Seat, ...], stood: Millis, waiting: int) -> Finding:
    majority, carrying = len(seated) // 2 + 1, keeping_up(seated)
    at = "is unknown" if quorum.high_watermark is None else f"stands at {quorum.high_watermark}"
    return Finding(
        rule=ID,
        subject="quorum",
        severity=Severity.CRITICAL,
        summary=f"nothing is committed: the high watermark {at} for {spelled(stood)} while controller "
        f"{poll.leader_id} leads and {counted(waiting, 'record')} wait; {carrying} of {len(seated)} voters keep up, "
        f"{majority} are needed",
        evidence={
            "high_watermark": quorum.high_watermark,
            "since_at_ms": quorum.high_watermark_since_ms,
            "stands_for": spelled(stood),
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
            "leader_log_end_offset": poll.leader.log_end_offset if poll.leader else None,
            "records_waiting": waiting,
            "voters_keeping_up": carrying,
            "majority": majority,
            "voters": {str(seat.key): f"{seat}; log ends at {_or_unknown(seat.log_end_offset)}" for seat in seated},
        },
        remedy=tuple(_remedy(quorum, poll, seated)),
    )


def _remedy(quorum: Quorum, poll: Poll, seated: tuple[Seat, ...]) -> Iterable[str]:
    lacking = [seat for seat in seated if seat.part is not Part.KEEPS_UP]
    for seat in lacking:
        if seat.part is Part.SILENT:
            yield f"# Start controller {seat.key.id}, or see in its log why it does not fetch from the leader"
        else:
            yield f"# See what slows controller {seat.key.id}: it fetches and does not catch up"
    if lacking:
        yield f"# Commits go on once {len(seated) // 2 + 1} of {len(seated)} voters keep up"
    else:
        yield (
            f"# Every voter fetches and nothing is committed: restart the leader, controller {poll.leader_id}, "
            "so that another one is elected"
        )
    yield "# See how far each voter is"
    yield describe_status(quorum)


def _or_unknown(value: int | None) -> str:
    return "an unknown offset" if value is None else str(value)


RULE = Rule(
    id=ID,
    title="The high watermark does not move",
    text=__doc__ or "",
    thresholds=(hold(20.0), clear(), STILL, SILENT, BEHIND, POLL_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader",),
)
