"""A broker is alive but works with outdated metadata.

What it means
    The active controller receives the broker's heartbeats, so the broker counts as alive and leads partitions. But the
    broker lags in the metadata log or does not fetch it at all: it does not know new topics, configurations, ACLs and
    leaders. It sends its clients to the wrong brokers, and still grants permissions that were removed.

    A broker whose lag shrinks over a window of polls is not reported before it has lagged for an hour. A new leader
    lists a broker from its first fetch on: one that is still not listed after `lag`, also by several leaders after each
    other, does not fetch.

What to do
    1. Check whether other brokers are reported too: then the cause is the leader or the network, not this broker.
    2. Find out why the broker does not read the metadata log: its own log, its network to the leader, its metadata
       disk, long pauses.
    3. If it does not recover, restart it: it loads the newest snapshot and continues from there.

What not to do
    Do not restart the leader because of one broker.
"""

from collections.abc import Iterable

from rules.facts.following import NEAR_RECORDS, following, lag_ms, lag_samples, records_behind
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.facts.replica_lag import CATCHING_UP_MS, Readiness, last_fetch_text, readiness
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import ms_text, utc_text
from rules.model.identifiers import START, Millis, ReplicaKey
from rules.model.membership import BrokerRegistration
from rules.model.replica import Poll, Replica, ReplicaHistory
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_replication
from rules.remedies.step import restarts
from rules.rule import Rule

LAG = Threshold(
    name="lag",
    default=30.0,
    meaning="a broker lags if it had last caught up longer ago than this, by the leader's clock. The lag of an idle "
    "broker is half a second",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each broker that is alive and lags or does not fetch."""
    poll = needed(facts.quorum.poll)
    voter_ids = poll.voter_ids
    for node, broker in sorted(facts.quorum.brokers.items()):
        if not broker.alive or node in voter_ids:
            continue
        rows = poll.observers_by_id.get(node)
        if rows is None:
            yield _not_listed(facts, poll, broker, thresholds)
        else:
            # A broker with a new disk is listed with both directories for 300 s: the one that fetched last is current.
            row = sorted(rows, key=lambda row: row.last_fetch_ms or 0)[-1]
            yield from _evaluate_broker(facts, poll, row, thresholds)


def _not_listed(facts: Facts, poll: Poll, broker: BrokerRegistration, thresholds: Thresholds) -> RuleResult:
    """Returns the result for a broker without a row: a leader lists an observer from its first fetch on, for 300 s."""
    newest, limit = facts.quorum.newest_timestamp_ms, thresholds.ms(LAG.name)
    last = facts.newest_histories.get(broker.id)
    served = newest is not None and newest - (broker.alive_since_timestamp_ms or START) > limit
    if not served or not _fetches_no_more(facts, poll, last, limit):
        why = "the leader does not list it as an observer yet"
        return UnknownResult(subject=Subject("broker", broker.id), why=why)
    row = Replica(
        key=last.key if last else ReplicaKey(id=broker.id),
        log_end_offset=last.last_log_end_offset if last else None,
        last_fetch_ms=None,
        last_caught_up_ms=None,
    )
    return _finding(facts, poll, row, None, Readiness.UNKNOWN, fetching=False)


def _fetches_no_more(facts: Facts, poll: Poll, last: ReplicaHistory | None, limit: Millis) -> bool:
    """Returns whether the leader does not list a broker although it has led long enough, or the leaders before did not.

    An election does not begin the time again: otherwise a quorum with many elections would never show it.
    """
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms or START
    elected = (
        election.timestamp_ms for election in quorum.history.elections if election.leader_epoch == poll.leader_epoch
    )
    if newest - max(elected, default=START) > limit:
        return True
    if last is None:
        polled = facts.first_polled_ms
        return polled is not None and poll.observed_at_ms - max(polled, quorum.watched_since_ms) > limit
    if poll.observed_at_ms - max(last.last_seen_at_ms, quorum.watched_since_ms) > limit:
        return True
    fetch_age_ms = last.samples[-1].fetch_age_ms if last.samples else None
    return fetch_age_ms is not None and fetch_age_ms > quorum.ages.fetch_ms


def _evaluate_broker(facts: Facts, poll: Poll, row: Replica, thresholds: Thresholds) -> Iterable[RuleResult]:
    limit = thresholds.ms(LAG.name)
    fetching = following(facts.quorum, poll, row.key).fetches
    lag = lag_ms(poll, row)
    if fetching and lag is not None and lag <= limit:
        return
    state = readiness(lag_samples(facts.quorum, row.key), limit_ms=limit)
    catches_up = state is Readiness.CATCHING_UP and (lag is None or lag < CATCHING_UP_MS)
    # A leader does not know the lag of an observer that has not caught up since the election.
    unknown = lag is None and not (state is Readiness.LAGGING and (records_behind(poll, row) or 0) > NEAR_RECORDS)
    if fetching and (unknown or catches_up):
        why = "its lag is not known yet" if unknown else "it is catching up"
        yield UnknownResult(subject=Subject("broker", row.key.id), why=why)
    else:
        yield _finding(facts, poll, row, lag, state, fetching=fetching)


def _finding(
    facts: Facts, poll: Poll, row: Replica, lag: Millis | None, state: Readiness, *, fetching: bool
) -> Finding:
    node = row.key.id
    lags = "lags" if lag is None else "has lagged"
    caught_up = "" if lag is None else f" since {utc_text(poll.observed_at_ms - lag)}"
    problem = f"{lags} in the metadata log{caught_up}" if fetching else "does not fetch the metadata log"
    return Finding(
        subject=Subject("broker", node),
        severity=Severity.WARNING,
        summary=f"Broker {node} {problem}: it works with outdated metadata. "
        "It counts as alive and still leads partitions.",
        evidence={
            "broker": str(row.key),
            "lag": None if lag is None else ms_text(lag),
            "records_behind": records_behind(poll, row),
            "last_fetch": last_fetch_text(facts.quorum, poll, row.key, "never observed"),
            "lag_trend": state.value if fetching else "does not fetch",
            "log_end_offset": row.log_end_offset,
            "leader_log_end_offset": poll.leader.log_end_offset if poll.leader else None,
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(
            f"# Check in the log of broker {node} why it does not read the metadata log: network to controller "
            f"{poll.leader_id}, its metadata disk, long pauses",
            restarts(f"# If it does not recover, restart broker {node} by a controlled shutdown", node),
            "# Check whether other brokers lag too",
            describe_replication(facts),
        ),
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    broker = facts.quorum.brokers.get(subject.node)
    if broker is None:
        return f"Broker {subject.node} is no longer registered."
    now = "follows the metadata log" if broker.alive else "is fenced: it leads no partition"
    return f"Broker {subject.node} {now}."


RULE = Rule(
    title="A broker works with outdated metadata",
    resolved=_resolved,
    hold=hold(120.0, "a broker that loads a snapshot after its start is done by then"),
    further_thresholds=(LAG,),
    needs=(Need.CURRENT_LOG, Need.FRESH_POLL),
    grouped_with=("broker-fenced",),
)
