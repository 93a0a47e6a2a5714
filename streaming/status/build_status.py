"""Makes a `ClusterStatus` from a quorum, its evaluation and its tracked conditions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from rules.answers.election import electable, failures_left
from rules.answers.quorum_claims import quorum_claims
from rules.answers.worlds import Answer
from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from rules.finding import Evaluation, Thresholds
from rules.lifecycle import TrackedConditions
from rules.model.history import Recovery
from rules.model.identifiers import Millis
from rules.model.monitoring import ObservationSource
from rules.model.quorum import Quorum
from rules.rescue.voter_override import initial_controllers
from streaming.status import voters
from streaming.status.cluster_status import (
    BrokerCounts,
    ChangedSeverity,
    ClusterState,
    ClusterStatus,
    FailingObservation,
    FindingStatus,
    PendingCondition,
    QuorumMode,
    RecoveringPartition,
    TopicRecovery,
    UnknownStatus,
)
from streaming.status.event_history import oldest_by_topic
from streaming.status.health import worst_first
from streaming.status.restart_output import restart_statuses

RECOVERING_LIMIT = 2_000
"""Recovering partitions that a status names; `recovering_partitions` counts all."""
PENDING_LIMIT = 200
"""Pending conditions that a status names."""
TOPIC_LIMIT = 200
"""Topics with recovering partitions that a status names."""
LIVE_MS = 10_000
"""For a job, `source` is `live` while a leader answered the log or a poll within this time."""


def job_cluster_status(
    facts: Facts,
    thresholds: Mapping[str, Thresholds],
    evaluation: Evaluation | None = None,
    tracked: TrackedConditions | None = None,
    *,
    taken_at_ms: Millis | None = None,
    missing: tuple[str, ...] = (),
) -> ClusterStatus:
    """Returns a cluster's status at the end of a micro-batch, or as of a later time; its time is the quorum's."""
    quorum = facts.quorum
    state = ClusterState(
        facts=facts,
        evaluation=evaluate(facts, thresholds) if evaluation is None else evaluation,
        thresholds=thresholds,
        taken_at_ms=taken_at_ms or quorum.now_ms,
        queried_since_ms=Millis(quorum.now_ms - LIVE_MS),
        recorded_at_ms=quorum.now_ms,
        missing=missing,
    )
    status = cluster_status(state, tracked)
    # Of a past state nobody asks whether a node may be restarted.
    return replace(status, restarts=restart_statuses(state)) if taken_at_ms is None else status


def cluster_status(
    state: ClusterState, tracked: TrackedConditions | None = None, *, recovering_limit: int | None = RECOVERING_LIMIT
) -> ClusterStatus:
    """Returns the status of a cluster.

    Args:
        tracked: the cluster's tracked conditions, for `pending`; None where no job runs.
        recovering_limit: how many recovering partitions are named; None: all.
    """
    facts, quorum, evaluation = state.facts, state.quorum, state.evaluation
    poll, history = quorum.poll, quorum.history
    longest = sorted(
        quorum.recovering, key=lambda one: (one.since_timestamp_ms, one.topic or one.topic_id, one.partition)
    )
    endpoints = voters.dialled_nodes(facts)
    lag, lag_time_ms = voters.max_follower_lag(facts)
    number, needed, fetching = voters.votes(facts)
    # A log directory holds no probes, so it cannot show whether the endpoints work.
    could: Answer[bool] = electable(facts) if state.log_dir is None else Answer(None)
    left = failures_left(facts)
    kraft, newest_ms = quorum.kraft_version, quorum.newest_timestamp_ms
    fenced = tuple(sorted(broker.id for broker in quorum.brokers.values() if broker.fenced))
    return ClusterStatus(
        cluster=quorum.cluster,
        cluster_id=quorum.cluster_id,
        source=state.source,
        age_ms=state.age_ms,
        observed_at_ms=quorum.now_ms or None,
        recorded_at_ms=None if state.log_dir is not None else state.recorded_at_ms,
        missing=state.missing,
        leader_id=facts.current_leader,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        max_follower_lag=lag,
        max_follower_lag_time_ms=lag_time_ms,
        current_voters=voters.current_voters(poll),
        current_observers=tuple(row.key for row in poll.observers) if poll else (),
        could_be_voters=voters.possible_voters(quorum),
        committed_voters=voters.committed_voters(quorum.committed),
        pending_voters=voters.pending_voters(quorum),
        initial_controllers=initial_controllers(quorum.committed.voters) if quorum.committed else None,
        endpoints=tuple(map(voters.endpoint_status, endpoints)),
        certificates=voters.certificates(quorum),
        reaches=facts.witnesses.reaches,
        registrations_without_voter=voters.registrations_without_voter(quorum),
        voters=number,
        votes_needed=needed,
        voters_fetching=fetching,
        failures_tolerated=None if number is None or needed is None else number - needed,
        failures_left=left.value,
        electable=could.value,
        undecided={
            name: answer.undecided
            for name, answer in (("failures_left", left), ("electable", could))
            if answer.undecided
        },
        claims=quorum_claims(facts, left=left, could=could, active=fetching),
        recovering_partitions=None if quorum.last_offset is None else len(quorum.recovering),
        brokers=None if quorum.last_offset is None else BrokerCounts(registered=len(quorum.brokers), fenced=fenced),
        mode=None if kraft is None else QuorumMode.DYNAMIC if kraft else QuorumMode.STATIC,
        kraft_version=kraft,
        metadata_version=quorum.metadata_version,
        last_offset=quorum.last_offset,
        log_dir=state.log_dir,
        now_ms=quorum.now_ms,
        described_at_ms=poll.observed_at_ms if poll else None,
        log_fetched_at_ms=quorum.log_fetched_at_ms,
        newest_timestamp_ms=None if newest_ms is None else Millis(newest_ms - quorum.idle_ms),
        leaderless=facts.leaderless is not None,
        registered_at_ms={node: registration.at.timestamp_ms for node, registration in quorum.controllers.items()},
        replicas=voters.replicas(facts),
        elections=history.elections,
        voter_changes=history.voter_changes,
        findings=tuple(
            FindingStatus(
                rule=finding.rule,
                subject=str(finding.subject),
                severity=finding.severity,
                summary=finding.summary,
                hold_s=finding.hold(state.thresholds[finding.rule]) / 1000,
                nothing_observed=finding.facts.unobserved is not None,
            )
            for finding in worst_first(evaluation.findings)
        ),
        unknown=tuple(map(UnknownStatus.of, evaluation.unknown)),
        failing=_failing(quorum),
        recovering=tuple(_recovering_partition(quorum, recovery) for recovery in longest[:recovering_limit]),
        recoveries=_topic_recoveries(longest),
        starts=history.starts,
        unclean=history.unclean,
        pending=_pending(tracked) if tracked else (),
        not_applicable=tuple(evaluation.not_applicable),
        changed_severities=tuple(
            ChangedSeverity(rule=rule, severity=thresholds.severity)
            for rule, thresholds in state.thresholds.items()
            if thresholds.severity is not None and thresholds.enabled
        ),
    )


def _failing(quorum: Quorum) -> tuple[FailingObservation, ...]:
    poll = quorum.poll
    return tuple(
        FailingObservation(source=failure.source, endpoint=failure.endpoint or None, reason=failure.reason)
        for failure in quorum.failures
        # A node that was asked before the leader was found answers that it is not the leader: that is no failure.
        if poll is None or failure.source is not ObservationSource.QUORUM or failure.last_at_ms > poll.observed_at_ms
    )


def _pending(tracked: TrackedConditions) -> tuple[PendingCondition, ...]:
    pending = sorted(
        (condition for condition in tracked.conditions.values() if condition.notified_severity is None),
        key=lambda one: one.due_at_ms,
    )
    return tuple(
        PendingCondition(
            rule=condition.rule,
            subject=condition.subject,
            summary=condition.summary,
            started_at_ms=condition.started_at_ms,
            due_at_ms=condition.due_at_ms,
        )
        for condition in pending[:PENDING_LIMIT]
    )


def _recovering_partition(quorum: Quorum, one: Recovery) -> RecoveringPartition:
    """Returns one recovering partition and which of its replicas' brokers are alive."""
    newest = quorum.newest_timestamp_ms
    return RecoveringPartition(
        **{field.name: getattr(one, field.name) for field in fields(one)},
        for_ms=None if newest is None else Millis(max(0, newest - one.since_timestamp_ms)),
        replicas_alive=tuple(node for node in one.replicas if node in quorum.brokers and quorum.brokers[node].alive),
    )


def _topic_recoveries(longest: Sequence[Recovery]) -> tuple[TopicRecovery, ...]:
    counts, oldest = Counter(recovery.topic_id for recovery in longest), oldest_by_topic(longest)
    return tuple(
        TopicRecovery(
            topic=recovery.topic,
            topic_id=recovery.topic_id,
            since_ms=recovery.since_timestamp_ms,
            at_least=recovery.at_least,
            partitions=counts[recovery.topic_id],
        )
        for recovery in [*oldest.values()][:TOPIC_LIMIT]
    )
