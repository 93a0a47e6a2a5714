"""Makes a `ClusterStatus` from a quorum, its evaluation and its tracked conditions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from connectors.logdir.log_dir_files import ElectionState
from connectors.logdir.log_dir_reader import VoterSetInFile
from rules.analysis.leadership import current_leader, leaderless
from rules.evaluate import evaluate
from rules.finding import Evaluation, Thresholds
from rules.lifecycle import TrackedConditions
from rules.model.history import Recovery, UncleanElections, VoterChange
from rules.model.identifiers import Millis
from rules.model.monitoring import ObservationSource
from rules.model.quorum import Quorum
from rules.rescue.voter_override import initial_controllers
from streaming.replay.copied import copied
from streaming.status import build_voters
from streaming.status import status_parts as parts
from streaming.status.build_voters import recorded_voters
from streaming.status.cluster_status import (
    ChangedSeverity,
    ClusterState,
    ClusterStatus,
    FailingObservation,
    FindingStatus,
    PendingCondition,
    QuorumMode,
)
from streaming.status.event_history import oldest_by_topic
from streaming.status.from_log_dir import LogDirContents
from streaming.status.health import worst_first

RECOVERING_LIMIT = 2_000
"""Recovering partitions that a status names; `recovering_partitions` counts all."""
PENDING_LIMIT = 200
"""Pending conditions that a status names."""
TOPIC_LIMIT = 200
"""Topics with recovering partitions that a status names."""
LIVE_MS = 10_000
"""For a job, `source` is `live` while a leader answered the log or a poll within this time."""


def job_cluster_status(
    quorum: Quorum,
    thresholds: Mapping[str, Thresholds],
    evaluation: Evaluation | None = None,
    tracked: TrackedConditions | None = None,
    *,
    taken_at_ms: Millis | None = None,
    missing: tuple[str, ...] = (),
) -> ClusterStatus:
    """Returns a cluster's status at the end of a micro-batch, or as of a later time; its time is the quorum's."""
    state = ClusterState(
        quorum=quorum,
        evaluation=evaluate(quorum, thresholds) if evaluation is None else evaluation,
        thresholds=thresholds,
        taken_at_ms=taken_at_ms or quorum.now_ms,
        queried_since_ms=Millis(quorum.now_ms - LIVE_MS),
        recorded_at_ms=quorum.now_ms,
        missing=missing,
    )
    return cluster_status(state, tracked)


def cluster_status(
    state: ClusterState, tracked: TrackedConditions | None = None, *, recovering_limit: int | None = RECOVERING_LIMIT
) -> ClusterStatus:
    """Returns the status of a cluster.

    Args:
        tracked: the cluster's tracked conditions, for `pending`; None where no job runs.
        recovering_limit: how many recovering partitions are named; None: all.
    """
    quorum, evaluation, history = state.quorum, state.evaluation, state.quorum.history
    longest = sorted(
        quorum.recovering, key=lambda one: (one.since_timestamp_ms, one.topic or one.topic_id, one.partition)
    )
    return replace(
        _present_state(state),
        elections=tuple(copied(parts.ElectionStatus, one, at_ms=one.timestamp_ms) for one in history.elections),
        voter_changes=tuple(
            copied(parts.VoterChangeStatus, one, at_ms=one.timestamp_ms) for one in history.voter_changes
        ),
        findings=tuple(
            copied(FindingStatus, one, hold_s=one.hold(state.thresholds[one.rule]) / 1000)
            for one in worst_first(evaluation.findings)
        ),
        unknown=tuple(evaluation.unknown),
        failing=_failing(quorum),
        recovering=tuple(_recovering_partition(quorum, one) for one in longest[:recovering_limit]),
        recoveries=_topic_recoveries(longest),
        reconfigurations=tuple(map(_forced_reconfiguration, history.reconfigurations)),
        starts=tuple(copied(parts.ControllerStartStatus, one, at_ms=one.timestamp_ms) for one in history.starts),
        unclean=tuple(map(_unclean_elections, history.unclean)),
        pending=_pending(tracked) if tracked else (),
        not_applicable=tuple(evaluation.not_applicable),
        changed_severities=tuple(
            ChangedSeverity(rule=rule, severity=one.severity)
            for rule, one in state.thresholds.items()
            if one.severity is not None and one.enabled
        ),
    )


def _present_state(state: ClusterState) -> ClusterStatus:
    """Returns the status without history and evaluation."""
    quorum, poll, newest_ms = state.quorum, state.quorum.poll, state.quorum.newest_timestamp_ms
    endpoints = build_voters.analysed_endpoints(state)
    lag, lag_time_ms = build_voters.max_follower_lag(state)
    voters, needed, fetching = build_voters.votes(state)
    kraft = quorum.kraft_version
    return ClusterStatus(
        cluster=quorum.cluster,
        cluster_id=quorum.cluster_id,
        source=state.source,
        age_ms=state.age_ms,
        observed_at_ms=quorum.now_ms or None,
        missing=state.missing,
        leader_id=current_leader(quorum),
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        max_follower_lag=lag,
        max_follower_lag_time_ms=lag_time_ms,
        current_voters=build_voters.current_voters(poll),
        current_observers=tuple(row.key for row in poll.observers) if poll else (),
        could_be_voters=build_voters.possible_voters(state),
        committed_voters=build_voters.committed_voters(quorum),
        pending_voters=build_voters.pending_voters(quorum),
        initial_controllers=initial_controllers(quorum.committed.voters) if quorum.committed else None,
        endpoints=tuple(build_voters.endpoint_status(each) for each in endpoints),
        certificates=build_voters.certificates(quorum),
        registrations_without_voter=build_voters.registrations_without_voter(quorum),
        voters=voters,
        votes_needed=needed,
        voters_fetching=fetching,
        failures_tolerated=None if voters is None or needed is None else voters - needed,
        failures_left=None if needed is None or fetching is None else fetching - needed,
        # A log directory holds no probes, so it cannot show whether the endpoints work.
        electable=build_voters.electable(quorum, endpoints) if endpoints and state.log_dir is None else None,
        recovering_partitions=None if quorum.last_offset is None else len(quorum.recovering),
        brokers=build_voters.broker_counts(quorum),
        mode=None if kraft is None else QuorumMode.DYNAMIC if kraft else QuorumMode.STATIC,
        kraft_version=kraft,
        metadata_version=quorum.metadata_version,
        last_offset=quorum.last_offset,
        log_dir=None if state.log_dir is None else log_dir_status(state.log_dir),
        now_ms=quorum.now_ms,
        described_at_ms=poll.observed_at_ms if poll else None,
        log_fetched_at_ms=quorum.log_fetched_at_ms,
        newest_timestamp_ms=None if newest_ms is None else Millis(newest_ms - quorum.idle_ms),
        leaderless=leaderless(quorum) is not None,
        registered_at_ms={node: one.at.timestamp_ms for node, one in quorum.controllers.items()},
        replicas=build_voters.replicas(state),
    )


def _failing(quorum: Quorum) -> tuple[FailingObservation, ...]:
    poll = quorum.poll
    return tuple(
        FailingObservation(source=one.source, endpoint=one.endpoint or None, reason=one.reason)
        for one in quorum.failures
        # A node that was asked before the leader was found answers that it is not the leader: that is no failure.
        if poll is None or one.source is not ObservationSource.QUORUM or one.last_at_ms > poll.observed_at_ms
    )


def _pending(tracked: TrackedConditions) -> tuple[PendingCondition, ...]:
    pending = sorted(
        (one for one in tracked.conditions.values() if one.notified_severity is None), key=lambda one: one.due_at_ms
    )
    return tuple(copied(PendingCondition, one) for one in pending[:PENDING_LIMIT])


def _forced_reconfiguration(one: VoterChange) -> parts.ForcedReconfigurationStatus:
    before, after = (tuple(key.id for key in keys) for keys in (one.before, one.after))
    return copied(parts.ForcedReconfigurationStatus, one, at_ms=one.timestamp_ms, before=before, after=after)


def _unclean_elections(one: UncleanElections) -> parts.UncleanElectionStatus:
    times = {"first_at_ms": one.first_timestamp_ms, "last_at_ms": one.last_timestamp_ms}
    return copied(parts.UncleanElectionStatus, one, **times)


def _recovering_partition(quorum: Quorum, one: Recovery) -> parts.RecoveringPartition:
    """Returns one recovering partition and which of its replicas' brokers are alive."""
    newest = quorum.newest_timestamp_ms
    return copied(
        parts.RecoveringPartition,
        one,
        since_ms=one.since_timestamp_ms,
        for_ms=None if newest is None else Millis(max(0, newest - one.since_timestamp_ms)),
        replicas_alive=tuple(node for node in one.replicas if node in quorum.brokers and quorum.brokers[node].alive),
    )


def _topic_recoveries(longest: Sequence[Recovery]) -> tuple[parts.TopicRecovery, ...]:
    counts, oldest = Counter(one.topic_id for one in longest), oldest_by_topic(longest)
    return tuple(
        copied(parts.TopicRecovery, one, since_ms=one.since_timestamp_ms, partitions=counts[one.topic_id])
        for one in [*oldest.values()][:TOPIC_LIMIT]
    )


def log_dir_status(contents: LogDirContents) -> parts.LogDirStatus:
    """Returns the `log_dir` of a cluster status."""
    meta, election = contents.meta_properties, contents.election
    return copied(
        parts.LogDirStatus,
        contents,
        folder=str(contents.folder),
        node_id=meta.node_id if meta else None,
        directory_id=meta.directory_id if meta else None,
        quorum_state=None if isinstance(election, str) else _quorum_state(election),
        log_end_offset=contents.end_offset,
        last_epoch=contents.epoch,
        voter_sets=tuple(_voter_set(one) for one in contents.voter_sets),
        not_read=tuple(copied(parts.UnreadBytes, one) for one in contents.damaged),
    )


def _quorum_state(election: ElectionState) -> parts.QuorumStateFile:
    voted = election.voted
    return copied(
        parts.QuorumStateFile,
        election,
        voted_id=voted.id if voted else None,
        voted_directory_id=voted.directory_id if voted else None,
    )


def _voter_set(one: VoterSetInFile) -> parts.VotersRecordStatus:
    recorded = one.voters
    return copied(
        parts.VotersRecordStatus,
        one,
        offset=recorded.offset,
        leader_epoch=recorded.leader_epoch,
        written_at_ms=recorded.timestamp_ms,
        voters=recorded_voters(recorded),
    )
