"""The quorum elects leader after leader, and no restart explains it.

What it means
    Within a quarter of an hour more elections were won than controllers were started. Each costs a second or two in
    which nothing is committed, and brokers' requests to the controller fail or wait.

    A leader loses its place when it hears no majority for one and a half fetch timeouts, a follower calls an election
    when it hears no leader for one: long pauses, a slow metadata disk, a lossy network, time-outs set too low.

    A rolling restart or upgrade elects about once a controller and is no churn: a controller that started anew within
    the window explains one election. Below metadata.version 3.7 the log tells of no start: there as many elections are
    put down to restarts as there are voters.

Evidence
    Who was elected in which epoch and how long ago by the log's own time, what restarts explain, how many epochs
    were passed over without a leader.

What to do
    1. See in the evidence whether one controller loses the leadership again and again, or all in turn.
    2. One: look at that host for long pauses, a slow disk, too little memory. All: look at the network between them.
    3. The logs of the controllers that led say what each last heard before it lost its place.

What not to do
    Do not restart controllers to calm it: every restart is an election more.

Thresholds
    hold (60 s) and clear (10 s). window (15 min) and elections (4): so many within the window, beyond those that
    restarts explain, are churn; the same numbers as etcd's rule. seen_age (10 s): the log must have answered this
    recently.
"""

from collections import Counter
from collections.abc import Iterable

from rules.analysis.freshness import SEEN_AGE
from rules.analysis.log_freshness import unread
from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, clear, hold
from rules.formatting import counted, listed, spelled
from rules.model.history import ControllerStart, Election
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "epoch-churn"
WINDOW = Threshold(
    name="window",
    default=900.0,
    unit="s",
    meaning="over how long elections and controllers' starts are counted, by the log's own time. More than an hour is "
    "not remembered",
)
ELECTIONS = Threshold(
    name="elections",
    default=4.0,
    unit="elections",
    meaning="so many elections within the window, beyond those that restarts explain, are churn",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding about the quorum, while elections pile up."""
    hindrance = unread(ID, quorum, thresholds)
    if hindrance is not None:
        yield hindrance
        return
    newest = quorum.newest_timestamp_ms
    if newest is None:
        return
    since = newest - thresholds.ms(WINDOW.name)
    elections = [one for one in quorum.past.elections if one.timestamp_ms >= since]
    starts = [one for one in quorum.past.starts if one.timestamp_ms >= since]
    explained = len(starts) if quorum.controllers else _voters(quorum)
    if len(elections) - explained >= thresholds[ELECTIONS.name]:
        yield _finding(quorum, newest, elections, starts, thresholds.ms(WINDOW.name))


def _voters(quorum: Quorum) -> int:
    if quorum.committed is not None:
        return len(quorum.committed.voters)
    return len(quorum.poll.voters) if quorum.poll else 0


def _finding(
    quorum: Quorum, newest: Millis, elections: list[Election], starts: list[ControllerStart], window: Millis
) -> Finding:
    won = Counter(one.leader_id for one in elections)
    passed = elections[-1].leader_epoch - elections[0].leader_epoch + 1 - len(elections)
    each = listed(f"{times} by controller {node}" for node, times in won.most_common())
    return Finding(
        rule=ID,
        subject="quorum",
        severity=Severity.WARNING,
        summary=f"{counted(len(elections), 'election')} within {spelled(window)}, {_restarts(quorum, starts)}; "
        f"won: {each}",
        evidence={
            "elections": [
                {
                    "epoch": one.leader_epoch,
                    "leader": one.leader_id,
                    "offset": one.offset,
                    "ago": spelled(newest - one.timestamp_ms),
                }
                for one in elections[-16:]
            ],
            "elections_within_the_window": len(elections),
            "controllers_started": [one.id for one in starts],
            "epochs_without_a_leader": max(0, passed),
            "leader": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
        },
        remedy=(
            f"# Read the logs of controllers {listed(sorted(won))} at the times of these elections: who resigned or "
            "timed out, and what it last heard",
            "# Look for long pauses, a slow metadata disk and lost packets on those hosts",
            "# If the network between the controllers is slow by nature, raise controller.quorum.fetch.timeout.ms and "
            "controller.quorum.election.timeout.ms",
            "# See who leads now, and how far each voter is",
            describe_status(quorum),
        ),
    )


def _restarts(quorum: Quorum, starts: list[ControllerStart]) -> str:
    if quorum.controllers:
        return f"of which restarts explain {len(starts)}"
    return f"more than a restart of all {_voters(quorum)} voters, which this log does not tell, would explain"


RULE = Rule(
    id=ID,
    title="Leader after leader is elected",
    text=__doc__ or "",
    thresholds=(hold(60.0), clear(), WINDOW, ELECTIONS, SEEN_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader", "committed-metadata-lost"),
)
