"""A voter is down, or falls behind, and the quorum still has voters to spare.

What it means
    One voter does not fetch, or fetches and stays behind the leader, while enough others keep up that one more may
    fail. Nothing is broken yet; the quorum has become less robust than it was built to be.

    Where no further failure is tolerated, `failure-tolerance` speaks, and this rule keeps quiet. A voter that catches
    up, whose distance shrinks over a window of polls, is not named; nor is one whose disk was replaced: that is
    `voter-disk-replaced`'s.

Evidence
    The voter's key and recorded endpoint; what it does by the leader's clock; its log end offset next to the
    leader's; how its distance developed, where it fetches; how many failures are still tolerated.

What to do
    1. If its process is down, start it.
    2. If it runs and does not fetch, look at its way to the leader and at the end of its log.
    3. If it fetches and stays behind, look at its disk and its CPU.
    4. If it is gone for good, replace it: add its successor, then remove it.

What not to do
    Do not restart the leader to help it: a new leader does not make a slow disk faster.

Thresholds
    hold (5 min) and clear (10 s): long enough for a reboot, because nothing is at stake yet. behind (10 s), silent
    (10 s), poll_age (10 s). window (30 samples, more than the minute that is kept): what its progress is judged on.
"""

from collections.abc import Iterable

from rules.analysis.freshness import POLL_AGE, SILENT, fresh_poll, no_fresh_poll
from rules.analysis.replica_lag import Readiness, readiness
from rules.analysis.voter_status import BEHIND, Part, Seat, keeping_up, seats
from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, UnknownResult, clear, hold
from rules.model.poll import Poll
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "voter-lagging"
WINDOW = Threshold(
    name="window",
    default=30.0,
    unit="samples",
    meaning="how many of the newest samples of its progress are judged; one is kept every 5 s for a minute, so the "
    "default judges that minute, and fewer than 12 judge less",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a voter that does not keep up."""
    poll = fresh_poll(quorum, thresholds)
    if poll is None or poll.leader is None:
        yield no_fresh_poll(ID, quorum)
        return
    seated = seats(quorum, poll, thresholds)
    for seat in seated:
        subject = f"voter {seat.key.id}"
        if seat.part is Part.KEEPS_UP:
            continue
        if seat.replaced_by:
            yield UnknownResult(
                rule=ID, subject=subject, why=f"its disk was replaced: {seat.replaced_by} fetches instead"
            )
            continue
        state = _progress(quorum, seat, thresholds)
        if seat.part is Part.BEHIND and state is Readiness.CATCHING_UP:
            yield UnknownResult(rule=ID, subject=subject, why="it is catching up")
        else:
            yield _finding(quorum, poll, seated, seat, state)


def _progress(quorum: Quorum, seat: Seat, thresholds: Thresholds) -> Readiness:
    history = quorum.histories.get(seat.key)
    window = int(thresholds[WINDOW.name])
    return readiness(history.samples if history else (), limit_ms=thresholds.ms(BEHIND.name), window=window)


def _finding(quorum: Quorum, poll: Poll, seated: tuple[Seat, ...], seat: Seat, state: Readiness) -> Finding:
    carrying, majority = keeping_up(seated), len(seated) // 2 + 1
    voter = quorum.committed.by_id(seat.key.id) if quorum.committed else None
    endpoint = str(voter.endpoints[0]) if voter and voter.endpoints else None
    node = seat.key.id
    first = (
        f"# Start controller {node}{f' so that it listens at {endpoint}' if endpoint else ''}, or see in its log why "
        "it does not fetch from the leader"
        if seat.part is Part.SILENT
        else f"# See what slows controller {node}: its network to the leader, its metadata disk, its CPU"
    )
    return Finding(
        rule=ID,
        subject=f"voter {node}",
        severity=Severity.WARNING,
        summary=f"voter {node} {seat}; {carrying} of {len(seated)} voters keep up, {majority} are needed",
        evidence={
            "voter": str(seat.key),
            "recorded_endpoint": endpoint,
            "it": str(seat),
            "keeps_up": state.value if seat.part is Part.BEHIND else "does not fetch",
            "log_end_offset": seat.log_end_offset,
            "leader_log_end_offset": poll.leader.log_end_offset if poll.leader else None,
            "voters_keeping_up": carrying,
            "majority": majority,
            "further_failures_tolerated": max(0, carrying - majority),
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(first, "# See how far each voter is", describe_status(quorum)),
    )


RULE = Rule(
    id=ID,
    title="A voter lags or is down",
    text=__doc__ or "",
    thresholds=(hold(300.0), clear(), BEHIND, SILENT, POLL_AGE, WINDOW),
    evaluate=evaluate,
    inhibited_by=("no-leader", "high-watermark-stalled", "failure-tolerance"),
)
