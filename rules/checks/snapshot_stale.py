"""The metadata log grows and the leader takes no snapshot of it.

What it means
    By default every controller writes a snapshot of the metadata at least once an hour
    (metadata.log.max.snapshot.interval.ms) and after every 20 MiB of records
    (metadata.log.max.record.bytes.between.snapshots). The leader's newest snapshot is much older than that, and the
    leader has run long enough to take another one: the interval starts again with each start of the process.

    Nothing fails at once. But Kafka deletes only log segments before a snapshot, and every restarted, new or replaced
    controller has to read all records after it. Usually the writing of snapshots fails (the metadata disk is full or
    failing, or publishing the metadata failed), or the two settings postpone it.

What to do
    1. Check in the leader's log why no snapshot is written.
    2. Check the free space on its metadata disk, and the disk itself.
    3. Check both settings: 0 disables the interval, and an idle log then needs more than a day for 20 MiB.

What not to do
    Do not delete anything in the metadata directory: Kafka does so itself when there is a newer snapshot.
"""

from collections.abc import Iterable

from rules.claims.claim import Question, claim
from rules.claims.words import leader_id, sentence
from rules.facts.freshness import fresh_views
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, NotApplicable, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import plural, utc_text
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import LeaderLog, LeaderView
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.rule import Rule

SUBJECT = Subject("metadata log")
AGE = Threshold(
    name="age",
    default=10_800.0,
    meaning="how old the leader's newest snapshot may be, by the timestamps in the log; the leader must also have run "
    "this long. Kafka writes one per hour by default: raise it if metadata.log.max.snapshot.interval.ms is longer or "
    "0. Kafka before 3.7 records no starts: there each election of the leader restarts the age",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the metadata log while its newest snapshot is too old."""
    quorum = facts.quorum
    leading = [view for view in fresh_views(quorum) if view.log is not None]
    view = max(leading, key=lambda each: each.leader_epoch or 0, default=None)
    if view is None or view.log is None:
        yield UnknownResult(why="no leader has recently reported the start of its log")
        return
    if view.log.snapshot is None and not view.log.tells_absence:
        why = "this Kafka version reports a snapshot only after it has deleted log segments before it, and it has not"
        yield NotApplicable(why=why)
        return
    since, newest = _contains_up_to(view.log), quorum.newest_timestamp_ms
    if since is None or newest is None:
        yield UnknownResult(why=_unknown_age(view.log))
        return
    # SnapshotGenerator measures its interval from the process start: after a long stop an old snapshot is no fault.
    # It takes one when a record is written: none while the log is idle.
    age = Millis(newest - quorum.idle_ms - max(since, _started(quorum, view.leader_id)))
    if age <= thresholds.ms(AGE.name):
        return
    if quorum.leader_epoch is not None and (view.leader_epoch or 0) < quorum.leader_epoch:
        yield UnknownResult(why="the leader of the newest epoch has not reported the start of its log yet")
    else:
        yield _finding(facts, view, view.log, age)


def _contains_up_to(log: LeaderLog) -> Millis | None:
    """Returns the newest time that the snapshot contains; the time of the log's first record if there is none."""
    if log.snapshot is not None:
        return log.snapshot.last_contained_timestamp_ms
    return log.begins_timestamp_ms


def _started(quorum: Quorum, leader: NodeId | None) -> Millis:
    registration = quorum.controllers.get(leader) if leader is not None else None
    if registration is not None:
        return registration.at.timestamp_ms
    elections = [election.timestamp_ms for election in quorum.history.elections if election.leader_id == leader]
    return max(elections, default=Millis(0))


def _unknown_age(log: LeaderLog) -> str:
    if log.snapshot is not None:
        return f"the header of snapshot {log.snapshot.end_offset}-{log.snapshot.epoch} could not be read"
    return "the leader reported neither a snapshot nor the first record of its log"


def _finding(facts: Facts, view: LeaderView, log: LeaderLog, age: Millis) -> Finding:
    # Without `condition_age_ms`: after an outage of the quorum the age exceeds the threshold with the first record.
    quorum = facts.quorum
    end = quorum.high_watermark or (quorum.last_offset or 0) + 1
    newest = quorum.newest_timestamp_ms or quorum.now_ms
    since = utc_text(newest - quorum.idle_ms - age)
    snapshot = log.snapshot
    records = max(0, end - (snapshot.end_offset if snapshot else log.start_offset or 0))
    written = (
        f"It has no snapshot, and its log holds {plural(records, 'record')}"
        if snapshot is None
        else f"The newest one ends at offset {snapshot.end_offset}; {plural(records, 'record')} followed"
    )
    leader = "the leader" if view.node is None else leader_id(claim(Question.LEADER, view.node))
    return Finding(
        subject=SUBJECT,
        severity=Severity.WARNING,
        summary=sentence(leader, f" has taken no metadata snapshot since {since}. {written}."),
        evidence={
            "leader": view.leader_id,
            "snapshot_end_offset": snapshot.end_offset if snapshot else None,
            "snapshot_epoch": snapshot.epoch if snapshot else None,
            "snapshot_last_contained_timestamp_ms": snapshot.last_contained_timestamp_ms if snapshot else None,
            "records_since": records,
            "log_start_offset": log.start_offset,
            "log_begins_timestamp_ms": log.begins_timestamp_ms,
            "leader_started_timestamp_ms": _started(quorum, view.leader_id) or None,
            "high_watermark": quorum.high_watermark,
        },
        remedy=(
            f"# Check in the log of {leader!s} why no snapshot is written, and the free space on its metadata disk",
            "# Check metadata.log.max.snapshot.interval.ms and metadata.log.max.record.bytes.between.snapshots in its "
            "configuration: if they postpone snapshots on purpose, raise the age threshold of this rule",
            "# Do not delete anything in its metadata directory",
            describe_status(facts),
        ),
    )


RULE = Rule(
    title="No snapshot of the metadata is taken",
    resolved="The leader's newest metadata snapshot is recent enough.",
    hold=hold(60.0, "after an outage of the quorum the leader registers again, or takes a snapshot, within seconds"),
    further_thresholds=(AGE,),
    needs=(Need.CURRENT_LOG,),
)
