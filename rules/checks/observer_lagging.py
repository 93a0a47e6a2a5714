"""A broker lives and works with old metadata.

What it means
    The active controller hears the broker's heartbeats, so it counts as alive and leads partitions, while it is behind
    in the metadata log or does not fetch it at all: it knows nothing of new topics, configurations, permissions and
    leaders. Clients that ask it are sent to the wrong places, and a permission that was taken away still holds there.

    Controllers that observe are `observer-could-be-voter`'s, voters are `voter-lagging`'s. A broker that catches up,
    whose distance shrinks over a window of polls, is not named.

Evidence
    How far behind it is in records and in time by the leader's clock, when it last fetched;
    where it fetches, how its distance developed.

What to do
    1. Look whether other brokers are named too: then it is the leader or the network, not this broker.
    2. Find out what keeps it from reading: its log, its network to the leader, its metadata disk, long pauses.
    3. Restart it if it does not recover: it loads the newest snapshot and goes on from there.

What not to do
    Do not restart the leader because of one broker.

Thresholds
    hold (2 min) and clear (10 s): a broker that loads a snapshot after its start is done by then. lag (30 s): how far
    behind counts. silent (10 s), poll_age (10 s). window (30 samples, more than the minute that is kept). seen_age
    (10 s): the log, which tells who lives, must have answered this recently.
"""

from collections.abc import Iterable

from rules.analysis.freshness import POLL_AGE, SEEN_AGE, SILENT, fresh_poll, no_fresh_poll
from rules.analysis.log_freshness import unread
from rules.analysis.replica_lag import Liveness, Readiness, lag_ms, liveness, readiness, silence_ms
from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, UnknownResult, clear, hold
from rules.formatting import spelled
from rules.model.identifiers import Millis
from rules.model.poll import Poll, Replica
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "observer-lagging"
LAG = Threshold(
    name="lag",
    default=30.0,
    unit="s",
    meaning="a broker that had last caught up longer ago than this, by the leader's clock, lags. An idle one is half a "
    "second behind",
)
WINDOW = Threshold(
    name="window",
    default=30.0,
    unit="samples",
    meaning="how many of the newest samples of its progress are judged; one is kept every 5 s for a minute, so the "
    "default judges that minute, and fewer than 12 judge less",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a broker that lives and lags."""
    hindrance = unread(ID, quorum, thresholds)
    if hindrance is not None:
        yield hindrance
        return
    poll = fresh_poll(quorum, thresholds)
    if poll is None or poll.leader is None:
        yield no_fresh_poll(ID, quorum)
        return
    # A broker on a new disk is listed with both directories for 300 s: it is the one that fetched last.
    observing = {row.key.id: row for row in sorted(poll.observers, key=lambda row: row.last_fetch_ms or 0)}
    voting = {row.key.id for row in poll.voters}
    for node, broker in sorted(quorum.brokers.items()):
        if not broker.alive or node in voting:
            continue
        row = observing.get(node)
        if row is None:
            # A new leader lists an observer from its first fetch on.
            yield UnknownResult(rule=ID, subject=f"broker {node}", why="the leader has not heard of it as an observer")
        else:
            yield from _judged(quorum, poll, row, thresholds)


def _judged(quorum: Quorum, poll: Poll, row: Replica, thresholds: Thresholds) -> Iterable[RuleResult]:
    limit = thresholds.ms(LAG.name)
    silent = liveness(quorum, poll, row.key, thresholds) is not Liveness.FETCHING
    behind = lag_ms(poll, row)
    if not silent and behind is not None and behind <= limit:
        return
    history = quorum.histories.get(row.key)
    samples = history.samples if history else ()
    state = readiness(samples, limit_ms=limit, window=int(thresholds[WINDOW.name]))
    if not silent and (behind is None or state is Readiness.CATCHING_UP):
        why = "how far it is behind is not known yet" if behind is None else "it is catching up"
        yield UnknownResult(rule=ID, subject=f"broker {row.key.id}", why=why)
    else:
        yield _finding(quorum, poll, row, behind, state, silent=silent)


def _finding(
    quorum: Quorum, poll: Poll, row: Replica, behind: Millis | None, state: Readiness, *, silent: bool
) -> Finding:
    node = row.key.id
    end = poll.leader.log_end_offset if poll.leader else None
    records = None if end is None or row.log_end_offset is None else max(0, end - row.log_end_offset)
    silence = silence_ms(quorum, poll, row.key)
    how = "does not fetch the metadata log" if silent else f"is {spelled(behind or 0)} behind in the metadata log"
    return Finding(
        rule=ID,
        subject=f"broker {node}",
        severity=Severity.WARNING,
        summary=f"broker {node} lives and {how}: it works with old metadata",
        evidence={
            "broker": str(row.key),
            "behind": None if behind is None else spelled(behind),
            "records_behind": records,
            "last_fetched": "never seen" if silence is None else f"{spelled(silence)} before the poll",
            "keeps_up": "does not fetch" if silent else state.value,
            "log_end_offset": row.log_end_offset,
            "leader_log_end_offset": end,
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(
            f"# Read broker {node}'s log for what keeps it from reading the metadata log: network to controller "
            f"{poll.leader_id}, its metadata disk, long pauses",
            f"# If it does not recover, restart broker {node} by a controlled shutdown",
            "# See how far the others are",
            describe_status(quorum),
        ),
    )


RULE = Rule(
    id=ID,
    title="A broker works with old metadata",
    text=__doc__ or "",
    thresholds=(hold(120.0), clear(), LAG, WINDOW, SILENT, POLL_AGE, SEEN_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader", "high-watermark-stalled", "committed-metadata-lost"),
    grouped_with=("broker-fenced",),
)
