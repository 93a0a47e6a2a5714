"""The metadata log grows, and no snapshot of it is taken.

What it means
    Every controller writes a snapshot of the metadata at least every hour (metadata.log.max.snapshot.interval.ms) and
    for every 20 MiB of records (metadata.log.max.record.bytes.between.snapshots). The leader's newest one reaches back
    much further, and the leader has run for long enough to take another: each start begins to count anew.

    Nothing breaks at once: but only the log before a snapshot is ever deleted, each restart reads again
    all that came since, and so does a new or replaced controller. Mostly the writing of snapshots fails (a full or
    failing metadata disk, a fault while metadata was published), or the settings put it off.

Evidence
    The leader's newest snapshot: where it ends, up to when it reaches by the log's own time, how many records came
    since; where the log begins; when the leader started, or was elected where the log tells no starts.

What to do
    1. Look in the leader's log for why no snapshot is written.
    2. Look at the space on its metadata disk, and at the disk.
    3. Check both settings: 0 turns the interval off, and an idle log then takes more than a day for its 20 MiB.

What not to do
    Do not delete anything in the metadata directory: Kafka does so itself once there is a newer snapshot.

Thresholds
    age (3 h, by the log's own time, from the snapshot or the leader's start): three times the interval that Kafka keeps
    by default. Raise it with the interval.
    hold (60 s) and clear (10 s). view_age (30 s): the leader must have told of its snapshots this recently. seen_age
    (10 s): the log must have answered this recently.
"""

from collections.abc import Iterable

from rules.analysis.freshness import SEEN_AGE
from rules.analysis.leader_views import VIEW_AGE, fresh_views
from rules.analysis.log_freshness import unread
from rules.finding import (
    Finding,
    NotApplicable,
    Rule,
    RuleResult,
    Severity,
    Threshold,
    Thresholds,
    UnknownResult,
    clear,
    hold,
)
from rules.formatting import spelled
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import LeaderLog, LeaderView
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "snapshot-stale"
SUBJECT = "metadata log"
AGE = Threshold(
    name="age",
    default=10_800.0,
    unit="s",
    meaning="how far back, by the log's own time, the leader's newest snapshot may reach, and for how long at least it "
    "must have run. Kafka writes one an hour by "
    "default: raise it where metadata.log.max.snapshot.interval.ms is longer or 0",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding about the log, while its newest snapshot is old."""
    hindrance = unread(ID, quorum, thresholds)
    if hindrance is not None:
        yield hindrance
        return
    leading = [view for view in fresh_views(quorum, thresholds) if view.log is not None]
    view = max(leading, key=lambda each: each.leader_epoch or 0, default=None)
    if view is None or view.log is None:
        yield UnknownResult(rule=ID, subject=None, why="no leader has told lately what its log begins with")
        return
    if view.log.snapshot is None and not view.log.tells_absence:
        why = "this Kafka tells of its snapshots only once it has deleted log before one, and it has not"
        yield NotApplicable(rule=ID, why=why)
        return
    since, newest = _reaches_to(view.log), quorum.newest_timestamp_ms
    if since is None or newest is None:
        yield UnknownResult(rule=ID, subject=None, why=_why(view.log))
        return
    # SnapshotGenerator counts its interval from its process' start: after a long stop an old snapshot is no fault.
    age = Millis(max(0, newest - max(since, _started(quorum, view.leader_id))))
    if age > thresholds.ms(AGE.name):
        yield _finding(quorum, view, view.log, age, thresholds.ms(AGE.name))


def _reaches_to(log: LeaderLog) -> Millis | None:
    """Up to when the newest snapshot reaches; where there is none, when the log began."""
    if log.snapshot is not None:
        return log.snapshot.last_contained_timestamp_ms
    return log.begins_timestamp_ms


def _started(quorum: Quorum, leader: NodeId | None) -> Millis:
    """Since when the leader runs, as far as the log tells; its election where it tells no starts (before Kafka 3.7)."""
    registration = quorum.controllers.get(leader) if leader is not None else None
    if registration is not None:
        return registration.timestamp_ms or Millis(0)
    elections = [one.timestamp_ms for one in quorum.past.elections if one.leader_id == leader]
    return max(elections, default=Millis(0))


def _why(log: LeaderLog) -> str:
    if log.snapshot is not None:
        return f"the header of snapshot {log.snapshot.end_offset}-{log.snapshot.epoch} could not be read"
    return "the leader told neither of a snapshot nor of the log's first record"


def _finding(quorum: Quorum, view: LeaderView, log: LeaderLog, age: Millis, limit: Millis) -> Finding:
    end = quorum.high_watermark or quorum.last_offset or 0
    snapshot = log.snapshot
    records = max(0, end - (snapshot.end_offset if snapshot else log.start_offset or 0))
    newest = "there is no snapshot" if snapshot is None else f"the newest snapshot ends at offset {snapshot.end_offset}"
    who = "the leader" if view.node is None else f"controller {view.node}, which leads"
    return Finding(
        rule=ID,
        subject=SUBJECT,
        severity=Severity.WARNING,
        summary=f"{who}, has taken no snapshot of the metadata for {spelled(age)}: {newest}, {records} records came "
        "since",
        evidence={
            "leader": view.leader_id,
            "snapshot_end_offset": snapshot.end_offset if snapshot else None,
            "snapshot_epoch": snapshot.epoch if snapshot else None,
            "snapshot_reaches_to_ms_by_the_log": snapshot.last_contained_timestamp_ms if snapshot else None,
            "age_by_the_log": spelled(age),
            "records_since": records,
            "log_start_offset": log.start_offset,
            "log_begins_ms_by_the_log": log.begins_timestamp_ms,
            "leader_started_ms_by_the_log": _started(quorum, view.leader_id) or None,
            "high_watermark": quorum.high_watermark,
        },
        remedy=(
            f"# Look in the log of {who}, for why no snapshot is written, and at the space on its metadata disk",
            "# Check metadata.log.max.snapshot.interval.ms and metadata.log.max.record.bytes.between.snapshots in its "
            "configuration: if they put snapshots off on purpose, raise this rule's age",
            "# Delete nothing in its metadata directory by hand",
            describe_status(quorum),
        ),
        standing_ms=Millis(age - limit),
    )


RULE = Rule(
    id=ID,
    title="No snapshot of the metadata is taken",
    text=__doc__ or "",
    thresholds=(hold(60.0), clear(), AGE, VIEW_AGE, SEEN_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader", "high-watermark-stalled", "committed-metadata-lost"),
)
