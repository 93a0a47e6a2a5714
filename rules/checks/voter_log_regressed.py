"""A voter's log ends before committed records that it had: its metadata directory was emptied or restored.

What it means
    The leader reports the same voter as before (in a dynamic quorum: with the same directory id) with a log that ends
    below committed records which this voter had acknowledged. Kafka never truncates those. The metadata directory was
    emptied, restored from a backup, or another volume is mounted there. In a static quorum, which has no directory ids,
    a replaced disk looks the same.

    - Critical: the voter has not caught up. Its acknowledgement was counted for records that it no longer has. If
      another voter fails now, a majority without these records can elect a leader, and committed metadata is lost
      (KIP-595, KIP-853).
    - Warning: the voter has fetched all records again. The quorum is as safe as before, but the cause is not known, and
      the next start may empty the directory again. The warning lasts a week while the voter votes with this directory:
      acknowledge it when you have found the cause.

    Only the end of its log shows it, and only until the voter has caught up: kraftwatch polls once a second, six times
    a second while a voter of a static quorum does not fetch. If the high watermark decreased too, the whole quorum was
    restored: `committed-metadata-lost` or `raft-invariant-broken` fires instead.

What to do
    1. Stop and restart no other controller until this voter has caught up.
    2. If it does not catch up, read its log: it must run and fetch.
    3. Find out what changed its metadata directory: a restored backup or volume snapshot, an empty volume, a mount that
       was missing when Kafka started.
    4. If the disk was replaced in a dynamic quorum, give the directory a new id: remove the controller, format the
       directory without initial controllers, add the controller.

What not to do
    Do not restore a controller's metadata directory from a backup. Do not copy it from another controller.
"""

from collections.abc import Iterable

from rules.claims.words import not_a_voter
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.other_quorums import metadata_losses
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Threshold, Thresholds, hold
from rules.model.replica import LogRegression, Poll, Replica
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_replication
from rules.remedies.start_conditions import keep_until_caught_up
from rules.rule import Rule

KEEP_FIRING_FOR = Threshold(
    name="keep_firing_for",
    default=604_800.0,
    meaning="how long the alert fires after the regression once the voter has caught up: its cause must still be "
    "found, and nothing that is observed shows that it was",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each voter that has not caught up after a regression, or only recently did."""
    quorum = facts.quorum
    poll = needed(quorum.poll)
    keep_ms = thresholds.ms(KEEP_FIRING_FOR.name)
    for row in poll.voters:
        history = quorum.histories.get(row.key)
        regression = history.log_regression if history else None
        if history is None or regression is None:
            continue
        caught_up = not history.lacks_records
        if not caught_up or quorum.now_ms - regression.observed_at_ms <= keep_ms:
            yield _finding(facts, poll, row, regression, caught_up=caught_up)


def _finding(facts: Facts, poll: Poll, row: Replica, regression: LogRegression, *, caught_up: bool) -> Finding:
    key, had, ended = row.key, regression.acknowledged_offset, regression.log_end_offset
    now = (
        "It has caught up; what changed its metadata directory is not known."
        if caught_up
        else "Until it has caught up, the failure of another voter can lose committed metadata."
    )
    return Finding(
        subject=Subject("voter", key.id),
        severity=Severity.WARNING if caught_up else Severity.CRITICAL,
        summary=f"The log of voter {key} went back: it ended at offset {ended} after it had all records below {had}. "
        f"{now}",
        evidence={
            "voter": str(key),
            "acknowledged_below_offset": had,
            "log_ended_at_offset": ended,
            "caught_up": caught_up,
            "observed_at_ms": regression.observed_at_ms,
            "observed_in_epoch": regression.leader_epoch,
            "other_voters": [str(voter.key) for voter in poll.voters if voter.key != key],
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=tuple(_remedy(facts, poll, row, caught_up=caught_up)),
        keep_running=frozenset() if caught_up else frozenset(voter.key.id for voter in poll.voters if voter.key != key),
    )


def _remedy(facts: Facts, poll: Poll, row: Replica, *, caught_up: bool) -> Iterable[str]:
    node = row.key.id
    if not caught_up:
        yield keep_until_caught_up(node, (voter.key.id for voter in poll.voters if voter.key.id != node))
        yield f"# Check that controller {node} runs and fetches, and compare its log end offset with the leader's"
        yield describe_replication(facts, excluding=node)
    yield (
        f"# Find out what changed the metadata directory of controller {node}: a restored backup or volume snapshot, "
        "an empty volume, or a mount that was missing when Kafka started"
    )
    if facts.quorum.committed is not None:
        yield (
            f"# If its disk was replaced, give the directory a new id: remove controller {node}, format its directory "
            "with --no-initial-controllers, and add it again"
        )


def _resolved(facts: Facts, subject: Subject) -> str:
    quorum = facts.quorum
    if quorum.committed and not quorum.voter(subject.node):
        return not_a_voter(subject.node)
    if metadata_losses(quorum):
        return f"Committed metadata was lost: the quorum no longer has the records that {subject} lacked."
    return f"The log of {subject} has all records that were committed before it went back."


RULE = Rule(
    title="A voter's log went back",
    resolved=_resolved,
    hold=hold(5.0),
    further_thresholds=(KEEP_FIRING_FOR,),
    needs=(Need.FRESH_POLL,),
    grouped_with=("raft-invariant-broken", "failure-tolerance", "committed-metadata-lost"),
)
