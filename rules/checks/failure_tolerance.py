"""So many voters are down or behind that the quorum survives no further failure.

What it means
    Everything still works. What is gone is the reserve:

    - Warning: of the voters just a majority keeps up with the leader. The next controller that fails, restarts or is
      cut off takes the quorum with it, and then nothing that changes metadata works.
    - Critical: fewer than a majority keep up. The leader is about to resign.

    A quorum of one or two voters never survives a failure: that is `quorum-shape`'s. A voter whose disk was replaced is
    missing here too; where such voters are all that is missing, `voter-disk-replaced` names the remedy and this rule
    keeps quiet.

Evidence
    What every voter does by the leader's clock, how many keep up, how many are needed.

What to do
    1. Put off every rolling restart, upgrade and drain of a host until this is over.
    2. Bring back the controllers that are named: start them, or find out in their logs why they do not fetch.
    3. Replace one that is gone for good: add its successor while the majority still stands, then remove it.

What not to do
    Restart no controller that keeps up. Remove no voter only to make this alert go away: two voters tolerate less than
    three of which one is down.

Thresholds
    hold (2 min) and clear (10 s): a controller that reboots or whose pod is moved to another node is back by then,
    and each step of a rolling restart is over. silent (10 s) and behind (10 s): when a voter counts as missing.
    poll_age (10 s).
"""

from collections.abc import Iterable

from rules.analysis.freshness import POLL_AGE, SILENT, fresh_poll, no_fresh_poll
from rules.analysis.voter_status import BEHIND, Part, Seat, keeping_up, seats
from rules.finding import Finding, Rule, RuleResult, Severity, Thresholds, UnknownResult, clear, hold
from rules.formatting import listed
from rules.model.poll import Poll
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "failure-tolerance"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding about the quorum, when no further voter may fail and some are missing."""
    poll = fresh_poll(quorum, thresholds)
    if poll is None or poll.leader is None:
        yield no_fresh_poll(ID, quorum)
        return
    seated = seats(quorum, poll, thresholds)
    missing = [seat for seat in seated if seat.part is not Part.KEEPS_UP]
    spare = keeping_up(seated) - (len(seated) // 2 + 1)
    if not missing or spare > 0:
        return
    if all(seat.replaced_by for seat in missing):
        why = f"the disk of controller {listed(seat.key.id for seat in missing)} was replaced, which explains it"
        yield UnknownResult(rule=ID, subject="quorum", why=why)
        return
    yield _finding(quorum, poll, seated, missing, spare)


def _finding(quorum: Quorum, poll: Poll, seated: tuple[Seat, ...], missing: list[Seat], spare: int) -> Finding:
    carrying, majority = keeping_up(seated), len(seated) // 2 + 1
    left = "the next failure stops the quorum" if spare == 0 else "the leader resigns, or commits late"
    return Finding(
        rule=ID,
        subject="quorum",
        severity=Severity.WARNING if spare == 0 else Severity.CRITICAL,
        summary=f"{carrying} of {len(seated)} voters keep up, {majority} are needed: {left}; "
        + listed((f"voter {seat.key.id} {seat}" for seat in missing), 3),
        evidence={
            "voters": {str(seat.key): str(seat) for seat in seated},
            "voters_keeping_up": carrying,
            "majority": majority,
            "further_failures_tolerated": max(0, spare),
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
            "high_watermark": quorum.high_watermark,
        },
        remedy=tuple(_remedy(quorum, seated, missing)),
    )


def _remedy(quorum: Quorum, seated: tuple[Seat, ...], missing: list[Seat]) -> Iterable[str]:
    kept = [seat.key.id for seat in seated if seat.part is Part.KEEPS_UP]
    yield f"# Until this is over do not restart {'controller' if len(kept) == 1 else 'controllers'} {listed(kept)}"
    for seat in missing:
        yield _step(quorum, seat)
    if quorum.committed is not None and any(seat.part is Part.SILENT for seat in missing):
        yield (
            "# A controller that is gone for good is replaced while a majority still stands: add its successor first, "
            "then remove it"
        )
    yield "# See how far each voter is"
    yield describe_status(quorum)


def _step(quorum: Quorum, seat: Seat) -> str:
    voter = quorum.committed.by_id(seat.key.id) if quorum.committed else None
    where = f", which is recorded at {voter.endpoints[0]}" if voter and voter.endpoints else ""
    if seat.replaced_by:
        return f"# Controller {seat.key.id} runs on a new disk as {seat.replaced_by}: make that one the voter"
    if seat.part is Part.SILENT:
        return f"# Start controller {seat.key.id}{where}, or see in its log why it does not fetch from the leader"
    return f"# See what slows controller {seat.key.id}{where}: it fetches and does not catch up"


RULE = Rule(
    id=ID,
    title="No further voter may fail",
    text=__doc__ or "",
    thresholds=(hold(120.0), clear(), SILENT, BEHIND, POLL_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader", "high-watermark-stalled"),
    grouped_with=("stale-voter-endpoint", "voter-disk-replaced"),
)
