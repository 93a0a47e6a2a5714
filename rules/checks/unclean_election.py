"""A partition's leader was elected from outside its in-sync replicas.

What it means
    No replica in the ISR or ELR (KIP-966) was available, and another replica was made leader: because of
    unclean.leader.election.enable, or by hand. The partition serves clients again. Records that only the other replicas
    had acknowledged may be lost.

    This alert is a warning, once for each topic: acknowledged records may be lost. `partition-stuck-recovering` reports
    partitions that do not recover afterwards.

Evidence
    One alert per topic: the partitions, the elected leaders, the in-sync replicas that were not elected, the time by
    the timestamps in the log, and how many of the partitions are RECOVERING now. A snapshot does not record elections.

What to do
    1. Copy the directories that the alert names before their broker starts: it truncates them to the new leader's log.
    2. Find out whether the election was intended: who ran it, or which topic or broker allows it.
    3. Inform the owner of the topic that acknowledged records may be lost.

What not to do
    Do not treat this as the end of an outage: first check that the partitions recover.

Thresholds
    hold (0 s): the election has already happened. clear (10 s). keep_firing_for (10 min): how long the alert fires,
    by the timestamps in the log; then it resolves. answer_age (10 s): the log must have been read this recently.
"""

from collections.abc import Iterable

from rules.analysis.freshness import ANSWER_AGE
from rules.analysis.start_conditions import copy_sentence
from rules.finding import Finding, Need, Rule, RuleResult, Severity, Threshold, Thresholds, clear, hold
from rules.formatting import and_join, plural, utc_text
from rules.model.history import UncleanElections
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_topic

ID = "unclean-election"
KEEP_FIRING_FOR = Threshold(
    name="keep_firing_for",
    default=600.0,
    unit="s",
    meaning="how long the alert fires after an unclean election, by the timestamps in the log. Elections are "
    "remembered for at most an hour",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each topic with a recent unclean election."""
    newest = quorum.newest_timestamp_ms
    if newest is None:
        return
    for one in sorted(quorum.history.unclean, key=lambda each: (each.topic or "", each.topic_id)):
        if newest - one.last_timestamp_ms <= thresholds.ms(KEEP_FIRING_FOR.name):
            yield _finding(quorum, one)


def _finding(quorum: Quorum, one: UncleanElections) -> Finding:
    name = one.topic or f"with id {one.topic_id}"
    recovering = sum(each.topic_id == one.topic_id for each in quorum.recovering)
    passed_over = and_join(one.passed_over, 6) if one.passed_over else "unknown"
    elected = f"Broker {and_join(one.leaders, 6)} was elected" if one.leaders else "No broker was elected"
    steps = []
    if one.topic is not None:
        steps += ["# Check the leader and the in-sync replicas now", describe_topic(quorum, one.topic, one.leaders)]
    return Finding(
        rule=ID,
        subject=f"topic {name}",
        severity=Severity.WARNING,
        summary=f"{plural(one.elections, 'unclean leader election')} for topic {name}, the newest at "
        f"{utc_text(one.last_timestamp_ms)}. {elected}; in sync before and not elected: "
        f"{passed_over}. Acknowledged records may be lost.{copy_sentence(quorum, one.passed_over)}",
        evidence={
            "topic": one.topic,
            "topic_id": one.topic_id,
            "elections": one.elections,
            "partitions": [*one.partitions],
            "partitions_recovering_now": recovering,
            "elected": [*one.leaders],
            "in_sync_before_and_not_elected": [*one.passed_over],
            "first": utc_text(one.first_timestamp_ms),
            "newest_offset": one.last_offset,
        },
        starts=one.passed_over,
        remedy=(
            "# Find out whether it was intended: an election by hand, or unclean.leader.election.enable of the "
            "topic or of a broker",
            *steps,
            "# Inform the owner of the topic that acknowledged records may be lost",
        ),
    )


RULE = Rule(
    id=ID,
    title="Unclean leader election",
    text=__doc__ or "",
    thresholds=(hold(0.0), clear(), KEEP_FIRING_FOR, ANSWER_AGE),
    evaluate=evaluate,
    needs=(Need.CURRENT_LOG,),
    grouped_with=("partition-stuck-recovering",),
)
