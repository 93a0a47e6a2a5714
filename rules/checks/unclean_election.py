"""A partition's leader was elected from outside the replicas that had all its records.

What it means
    No replica that was in sync, or eligible (KIP-966), was there, and another one was made leader: by
    unclean.leader.election.enable, or by hand. The partition serves again; records that only the others had
    acknowledged may be gone.

    This is news, told once for each topic; whether its partitions recover since is told by
    `partition-stuck-recovering`.

Evidence
    One alert a topic: which partitions, who was elected, who was passed over, when by the log's own time, and how many
    of them are RECOVERING now. What a snapshot tells is no election and is not named.

What to do
    1. Copy the logs of those passed over before they start, if their records matter.
    2. Find out whether it was meant: who ran the election, or which topic or broker allows it.
    3. Tell whoever owns the topic that acknowledged records may be gone.

What not to do
    Do not take it for the end of an outage: see first that the partitions recover.

Thresholds
    hold (0 s): it has happened. clear (10 s). told_for (10 min): for how long it is news, by the log's own time; then
    it resolves by itself. seen_age (10 s): the log must have answered this recently.
"""

from collections.abc import Iterable

from rules.analysis.freshness import SEEN_AGE
from rules.analysis.log_freshness import unread
from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, clear, hold
from rules.formatting import counted, listed, spelled
from rules.model.history import UncleanElections
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_topic

ID = "unclean-election"
TOLD_FOR = Threshold(
    name="told_for",
    default=600.0,
    unit="s",
    meaning="for how long after it an unclean election is told, by the log's own time. More than an hour is not "
    "remembered",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a topic, while its unclean elections are news."""
    hindrance = unread(ID, quorum, thresholds)
    if hindrance is not None:
        yield hindrance
        return
    newest = quorum.newest_timestamp_ms
    if newest is None:
        return
    for one in sorted(quorum.past.unclean, key=lambda each: (each.topic or "", each.topic_id)):
        if newest - one.last_timestamp_ms <= thresholds.ms(TOLD_FOR.name):
            yield _finding(quorum, newest, one)


def _finding(quorum: Quorum, newest: Millis, one: UncleanElections) -> Finding:
    name = one.topic or f"with id {one.topic_id}"
    recovering = sum(each.topic_id == one.topic_id for each in quorum.recovering)
    passed_over = listed(one.passed_over, 6) if one.passed_over else "nobody the log still names"
    elected = f"broker {listed(one.leaders, 6)}" if one.leaders else "nobody"
    steps = []
    if one.topic is not None:
        steps += ["# See who leads and who is in sync now", describe_topic(quorum, one.topic, one.leaders)]
    return Finding(
        rule=ID,
        subject=f"topic {name}",
        severity=Severity.INFO,
        summary=f"{counted(one.elections, 'unclean election')} of topic {name}, the newest "
        f"{spelled(Millis(newest - one.last_timestamp_ms))} ago: {elected} leads, passed over: {passed_over}; "
        "acknowledged records may be lost",
        evidence={
            "topic": one.topic,
            "topic_id": one.topic_id,
            "elections": one.elections,
            "partitions": [*one.partitions],
            "partitions_recovering_now": recovering,
            "elected": [*one.leaders],
            "passed_over": [*one.passed_over],
            "first": f"{spelled(Millis(newest - one.first_timestamp_ms))} ago by the log",
            "newest_at_offset": one.last_offset,
        },
        remedy=(
            "# Find out whether it was meant: an election by hand, or unclean.leader.election.enable of the topic or "
            "its brokers",
            *steps,
            f"# If their records matter, copy this topic's directories of broker {passed_over} before it starts: it "
            "cuts them to the leader's log"
            if one.passed_over
            else "# Tell whoever owns the topic that records may be gone",
        ),
    )


RULE = Rule(
    id=ID,
    title="A leader was elected uncleanly",
    text=__doc__ or "",
    thresholds=(hold(0.0), clear(), TOLD_FOR, SEEN_AGE),
    evaluate=evaluate,
)
