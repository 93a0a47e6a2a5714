"""In-sync replicas leave and join again and again: the ISR of a partition changes many times in each minute.

What it means
    A follower falls behind for replica.lag.time.max.ms, the leader removes it from the ISR, it catches up, and the
    leader adds it again, every few seconds. Each time the metadata log grows, and all nodes read the change.
    Meanwhile producers with acks=all may get NOT_ENOUGH_REPLICAS, and a failure of the leader loses the partition
    if no other replica is in sync at that moment.

    A restart of a broker changes each ISR twice. This alert counts minutes with six changes or more of one partition,
    and fires after ten of them in a row: neither rolling restarts, nor reassignments, nor new topics make that many.

What to do
    1. Find the broker that leaves and joins in most of the partitions: it is slow, or its path to the leaders is.
    2. Check its disk, its CPU, its garbage collection and its network. If it replicates more than it can, move
       partitions away from it, or limit the clients by quotas.

What not to do
    Do not raise replica.lag.time.max.ms first: the follower stays slow, and a leader waits longer for it with acks=all.
"""

from collections import Counter
from collections.abc import Iterable

from rules.analysis.offline_partitions import named
from rules.finding import Finding, Need, Rule, RuleResult, Severity, Thresholds, hold
from rules.formatting import and_join, numbered, plural, utc_text
from rules.model.history import IsrChurn
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_topic

_RECENT_MS = 120_000
"""A partition that has not changed for longer is no longer churning."""
_MOST_LISTED = 8


def evaluate(quorum: Quorum, _thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about all partitions."""
    now_ms = quorum.newest_timestamp_ms
    if now_ms is None:
        return
    churning = [one for one in quorum.history.isr_churn if one.minutes and now_ms - one.timestamp_ms <= _RECENT_MS]
    if churning:
        yield _finding(quorum, sorted(churning, key=lambda one: one.since_timestamp_ms), now_ms)


def _finding(quorum: Quorum, churning: list[IsrChurn], now_ms: Millis) -> Finding:
    oldest = churning[0]
    brokers = [node for node, _ in Counter(node for one in churning for node in one.brokers).most_common()]
    names = and_join(map(named, churning))
    of_brokers = f"{numbered('Broker', brokers)} {'leaves and joins' if len(brokers) == 1 else 'leave and join'}"
    return Finding(
        subject=Subject("partitions"),
        severity=Severity.WARNING,
        summary=f"The ISR of {plural(len(churning), 'partition')} has changed again and again since "
        f"{utc_text(oldest.since_timestamp_ms)}, six times a minute or more: {names}. {of_brokers}.",
        evidence={
            "partitions": [
                f"{named(one)}: {one.minutes} min, {numbered('broker', one.brokers)}" for one in churning[:_MOST_LISTED]
            ],
            "number_of_partitions": len(churning),
            "brokers": [*brokers[:_MOST_LISTED]],
            "since": utc_text(oldest.since_timestamp_ms),
        },
        remedy=(
            f"# Check the disk, the CPU, the garbage collection log and the network of {numbered('broker', brokers)}",
            "# Check in the logs of the partitions' leaders why they shrink the ISR (Shrinking ISR)",
            *((describe_topic(quorum, oldest.topic, ()),) if oldest.topic is not None else ()),
        ),
        condition_age_ms=Millis(now_ms - oldest.since_timestamp_ms),
    )


def _resolved(quorum: Quorum, _subject: Subject) -> str:
    return "No ISR changes six times a minute any longer, or its partition was deleted."


RULE = Rule(
    title="In-sync replicas leave and join again and again",
    resolved=_resolved,
    hold=hold(600.0, "many restarts in a row change the same ISR, each twice, and are over sooner"),
    needs=(Need.CURRENT_LOG,),
    inhibited_by=("broker-flapping",),
)
