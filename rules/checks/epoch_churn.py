"""The quorum elects leaders too often, or the leader epoch jumped, and no restart explains it.

What it means
    Within 15 minutes there were at least four elections that no restart explains. During each one, a second or two,
    nothing is committed, and requests of the brokers to the controller fail or wait.

    A leader resigns if no majority fetches from it for one and a half fetch timeouts; a follower starts an election if
    the leader does not answer it for one. The causes are long pauses, a slow metadata disk, a lossy network, or
    timeouts that are too short.

    The start of a controller explains the last election by which it lost the leadership, and the one that it won just
    before it registered: a rolling restart is no churn. Below metadata.version 3.7 the log has no starts: restarts
    explain as many elections as there are voters.

    The leader epoch jumps if one election skips more epochs than elections fit into the time before it: a controller
    that was cut off raised its epoch with each election it could not win, and took the leadership from the working
    leader when it came back (KIP-595). From Kafka 4.0 on pre-votes prevent this (KIP-996).

What to do
    1. Check in the evidence whether one controller loses the leadership again and again, or all in turn.
    2. One controller: check its host for long pauses, a slow disk, too little memory. All: check their network.
    3. Read the logs of the controllers that led: they show why each of them lost the leadership.
    4. After a jump, find the controller that was cut off: its log shows elections without votes.

What not to do
    Do not restart controllers to stop the elections: every restart causes another one.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from rules.answers.now import leads
from rules.claims.statement import statement
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, hold, window_of
from rules.formatting import and_join, ms_text, plural, utc_text
from rules.model.history import ControllerStart, Election, RecentHistory, rebuilt_between
from rules.model.identifiers import Millis, Offset
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status, who_follows
from rules.rule import Rule

WINDOW = window_of("elections")
ELECTIONS = Threshold(
    name="elections",
    default=4.0,
    unit="elections",
    meaning="this many elections within the window, beyond those that restarts explain, are churn (as in etcd's alert)",
)
_JUMP: Final = 10
"""An election that skips at least so many epochs may be a jump. A few lost elections are normal."""
ELECTION_TIME = Threshold(
    name="election_time",
    default=1.0,
    meaning="the shortest time between two elections without a winner. Skipped epochs that fit into the time before "
    "the election are lost elections of an outage and no jump; the default is controller.quorum.election.timeout.ms",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the quorum while there are too many elections, and one for each jump of the epoch."""
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms
    if newest is None:
        return
    since = newest - thresholds.ms(WINDOW.name)
    elections = [election for election in quorum.history.elections if election.timestamp_ms >= since]
    starts = [start for start in quorum.history.starts if start.timestamp_ms >= since]
    explained = _explained(quorum.history) if quorum.controllers else frozenset()
    count = sum(election.offset in explained for election in elections) if quorum.controllers else _voter_count(quorum)
    if elections and len(elections) - count >= thresholds[ELECTIONS.name]:
        yield _finding(facts, elections, explained, starts, thresholds.ms(WINDOW.name))
    for one in elections:
        skipped = _skipped_epochs(one)
        if one.after_ms is None or skipped < _JUMP:
            continue
        if skipped * thresholds.ms(ELECTION_TIME.name) > one.after_ms:
            yield _jump(facts, one, skipped, within=ms_text(one.after_ms))


def _explained(history: RecentHistory) -> frozenset[Offset]:
    """Returns the offsets of the elections that the start of a controller explains.

    It registers after both: the last election by which it lost the leadership, because its process ended, and the one
    that it won as a candidate, if no other election followed before it registered.
    """
    found: set[Offset] = set()
    for start in history.starts:
        before = [election for election in history.elections if election.offset < start.offset]
        found.update(election.offset for election in before[-1:] if election.leader_id == start.id)
        found.update([election.offset for election in before if election.previous_leader_id == start.id][-1:])
    return frozenset(found)


def _skipped_epochs(one: Election) -> int:
    """Returns how many epochs had no leader; a quorum of the voters that were left begins with a later one."""
    before = one.previous_epoch
    return 0 if before is None or rebuilt_between(before, one.leader_epoch) else one.leader_epoch - before - 1


def _voter_count(quorum: Quorum) -> int:
    if quorum.committed is not None:
        return len(quorum.voters)
    return len(quorum.poll.voters) if quorum.poll else 0


def _finding(
    facts: Facts,
    elections: list[Election],
    explained: Collection[Offset],
    starts: list[ControllerStart],
    window: Millis,
) -> Finding:
    quorum = facts.quorum
    won = Counter(election.leader_id for election in elections)
    without_leader = elections[-1].leader_epoch - elections[0].leader_epoch + 1 - len(elections)
    winners = and_join(f"{times} by controller {node}" for node, times in won.most_common())
    return Finding(
        subject=Subject("quorum"),
        severity=Severity.WARNING,
        summary=f"Too many leader elections: {len(elections)} within {ms_text(window)}. "
        f"{_restarts_sentence(quorum, elections, explained)}. Won: {winners}. Nothing is committed during an election.",
        evidence={
            "elections": [
                {
                    "epoch": election.leader_epoch,
                    "leader": election.leader_id,
                    "offset": election.offset,
                    "at": utc_text(election.timestamp_ms),
                    "explained_by_a_restart": election.offset in explained,
                    **({"votes": [*election.granting_voter_ids]} if election.granting_voter_ids else {}),
                }
                for election in elections[-16:]
            ],
            "elections_within_the_window": len(elections),
            "started_controller_ids": [start.id for start in starts],
            "epochs_without_a_leader": max(0, without_leader),
            "leader": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
        },
        remedy=(
            f"# Read the logs of {'controllers' if len(won) > 1 else 'controller'} {and_join(sorted(won))} at the "
            "times of these elections: which controller resigned or timed out, and why",
            "# Check those hosts for long pauses, a slow metadata disk and lost packets",
            "# If the network between the controllers is slow by design, raise controller.quorum.fetch.timeout.ms and "
            "controller.quorum.election.timeout.ms",
            *who_follows(facts),
        ),
    )


def _jump(facts: Facts, one: Election, skipped: int, *, within: str) -> Finding:
    return Finding(
        subject=Subject("epoch", one.leader_epoch),
        severity=Severity.WARNING,
        summary=f"The leader epoch jumped from {one.previous_epoch} to {one.leader_epoch} within {within}: a "
        f"controller that was cut off raised it. Controller {one.leader_id} won the election.",
        evidence={
            "epoch_before": one.previous_epoch,
            "epoch": one.leader_epoch,
            "epochs_without_a_leader": skipped,
            "log_stood_still": within,
            "elected": one.leader_id,
            "votes": [*one.granting_voter_ids] or None,
            "offset": one.offset,
            "timestamp_ms": one.timestamp_ms,
            "leader": facts.quorum.leader_id,
            "leader_epoch": facts.quorum.leader_epoch,
        },
        remedy=(
            "# Find the controller that was cut off from the others: its log shows elections without votes",
            "# Check its network in both directions: it could reach no majority of the voters, and now it can",
            "# With Kafka below 4.0, upgrade the controllers: later ones do not raise the epoch before a majority "
            "would vote for them (KIP-996)",
            describe_status(facts),
        ),
    )


def _restarts_sentence(quorum: Quorum, elections: list[Election], explained: Collection[Offset]) -> str:
    if quorum.controllers:
        count = sum(election.offset in explained for election in elections)
        return f"Restarts of controllers explain {plural(count, 'election')}"
    voters = _voter_count(quorum)
    restarted = f"all {voters} voters" if voters > 1 else "every voter"
    return f"A restart of {restarted}, which this log does not record, does not explain them"


def _resolved(facts: Facts, subject: Subject) -> str:
    if subject.kind == "epoch":
        return statement(f"The leader epoch has not jumped again since {subject}. ", leads(facts.quorum), ".")
    return statement("Leader elections are no longer too frequent. ", leads(facts.quorum), ".")


RULE = Rule(
    title="Too many leader elections",
    resolved=_resolved,
    hold=hold(60.0),
    further_thresholds=(WINDOW, ELECTIONS, ELECTION_TIME),
    looks_back=True,
    needs=(Need.CURRENT_LOG,),
)
