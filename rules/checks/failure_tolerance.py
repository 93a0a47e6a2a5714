"""The quorum tolerates no further failure: too many voters are down or lagging.

What it means
    Everything still works, but the quorum has no reserve:

    - Warning: exactly a majority of the voters is in sync with the leader. If one more controller fails, restarts or is
      cut off, the quorum stops: no metadata change is possible then.
    - Critical: fewer than a majority are in sync. The leader is about to resign.

    A quorum of one or two voters never tolerates a failure: `quorum-shape` reports that. A voter whose disk was
    replaced is not in sync either. If only such voters are missing, `voter-disk-replaced` reports the remedy and this
    rule does not fire.

Evidence
    The state of every voter by the leader's clock, how many are in sync, and how many are required.

What to do
    1. Postpone every rolling restart, upgrade and drain of a host until this alert resolves.
       `kraftwatch what-if --lose N` shows what one more missing controller would do.
    2. Bring back the controllers that the alert names: start those that are down, take a thread dump of those that hang
       before you restart them, and read in the logs of the others why they do not fetch.
    3. If a controller will not come back, replace it: add its successor while a majority is in sync, then remove it.

What not to do
    Do not restart a controller that is in sync. Do not remove a voter only to make this alert resolve: two voters never
    tolerate a failure, three voters tolerate one again as soon as the third is back.

Thresholds
    hold (2 min) and clear (10 s): a controller that reboots, or whose pod moves to another node, is back by then, and
    each step of a rolling restart is finished. If the quorum has no reserve when `no-leader` or
    `high-watermark-stalled` resolves, the warning fires at once, as part of the same incident.
    fetch_age (10 s), caught_up_age (10 s), poll_age (10 s).
"""

from collections.abc import Iterable

from rules.analysis.freshness import FETCH_AGE, POLL_AGE
from rules.analysis.missing_voter import endpoint_sentence
from rules.analysis.voter_status import CAUGHT_UP_AGE, VoterActivity, VoterStatus, in_sync_count, voter_statuses
from rules.finding import (
    FAILED_NODES,
    Finding,
    Need,
    Rule,
    RuleResult,
    Severity,
    Thresholds,
    UnknownResult,
    clear,
    hold,
)
from rules.formatting import and_join
from rules.model.poll import Poll
from rules.model.quorum import Quorum
from rules.model.voter_set import majority
from rules.observability import needed_poll
from rules.remedies.remedy_commands import bring_in_sync, describe_status

ID = "failure-tolerance"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the quorum if it tolerates no further failure and some voters are not in sync."""
    poll = needed_poll(quorum)
    statuses = voter_statuses(quorum, poll, thresholds)
    missing = [status for status in statuses if status.activity is not VoterActivity.IN_SYNC]
    spare = in_sync_count(statuses) - majority(len(statuses))
    if not missing or spare > 0:
        return
    if all(status.replaced_by for status in missing):
        why = f"only voters whose disk was replaced are missing: {and_join(status.key for status in missing)}"
        yield UnknownResult(rule=ID, subject="quorum", why=why)
        return
    yield _finding(quorum, poll, statuses, missing, spare)


def _finding(
    quorum: Quorum, poll: Poll, statuses: tuple[VoterStatus, ...], missing: list[VoterStatus], spare: int
) -> Finding:
    in_sync, needed = in_sync_count(statuses), majority(len(statuses))
    if spare == 0:
        problem, consequence = "The quorum tolerates no further failure", ""
    else:
        problem, consequence = "The quorum has no majority in sync", " The leader resigns or commits late."
    counted = f"{problem}: {in_sync} of {len(statuses)} voters are in sync; {needed} are needed.{consequence}"
    sentences = _voter_sentences(quorum, missing)
    return Finding(
        rule=ID,
        subject="quorum",
        severity=Severity.WARNING if spare == 0 else Severity.CRITICAL,
        # A phone shows the first words: which voter fails, if it is one.
        summary=f"{sentences} {counted}" if spare == 0 and len(missing) == 1 else f"{counted} {sentences}",
        evidence={
            "voters": {str(status.key): str(status) for status in statuses},
            "voters_in_sync": in_sync,
            "majority": needed,
            "further_failures_tolerated": max(0, spare),
            FAILED_NODES: [status.key.id for status in missing if status.activity is VoterActivity.NOT_FETCHING],
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
            "high_watermark": quorum.high_watermark,
        },
        remedy=tuple(_remedy(quorum, statuses, missing)),
        starts=tuple(status.key.id for status in missing if status.activity is VoterActivity.NOT_FETCHING),
    )


def _voter_sentences(quorum: Quorum, missing: list[VoterStatus], most: int = 3) -> str:
    sentences = [f"{status.sentence}{_endpoint_sentence(quorum, status)}" for status in missing[:most]]
    if len(missing) > most:
        sentences.append(f"{len(missing) - most} more voters are not in sync.")
    return " ".join(sentences)


def _endpoint_sentence(quorum: Quorum, status: VoterStatus) -> str:
    return endpoint_sentence(quorum, status.key.id) if status.activity is VoterActivity.NOT_FETCHING else ""


def _remedy(quorum: Quorum, statuses: tuple[VoterStatus, ...], missing: list[VoterStatus]) -> Iterable[str]:
    for status in missing:
        yield from _steps(quorum, status)
    in_sync = [status.key.id for status in statuses if status.activity is VoterActivity.IN_SYNC]
    yield (
        f"# Do not restart {'controller' if len(in_sync) == 1 else 'controllers'} {and_join(in_sync)} until this alert "
        "resolves"
    )
    if quorum.committed is not None and any(status.activity is VoterActivity.NOT_FETCHING for status in missing):
        when = (
            "while a majority is in sync" if len(in_sync) >= majority(len(statuses)) else "once a majority is in sync"
        )
        yield f"# If a controller will not come back, replace it {when}: add its successor first, then remove it"
    yield "# Check the log end offset of each voter"
    yield describe_status(quorum)


def _steps(quorum: Quorum, status: VoterStatus) -> Iterable[str]:
    if status.replaced_by:
        yield f"# Make {status.replaced_by} the voter instead of {status.key}: the controller has a new log directory"
    else:
        yield from bring_in_sync(quorum, status)


RULE = Rule(
    id=ID,
    title="The quorum tolerates no further failure",
    text=__doc__ or "",
    thresholds=(hold(120.0), clear(), FETCH_AGE, CAUGHT_UP_AGE, POLL_AGE),
    evaluate=evaluate,
    needs=(Need.FRESH_POLL,),
    inhibited_by=("no-leader", "high-watermark-stalled"),
    outlives_cause=True,
    grouped_with=("stale-voter-endpoint", "voter-disk-replaced"),
)
