"""What `status`, `replication` and `partitions` say of one glimpse, as plain data: the fields of their `--json`.

Programs rely on the names. Absent is null; times are ISO 8601 UTC or milliseconds where the name ends in `_ms`; a
duration between replicas is by the leader's clock. Values that `kafka-metadata-quorum describe` prints have its name
in snake_case and its meaning (MetadataQuorumCommand); -1 there is null here.
"""

from collections.abc import Iterable

from connectors.sinks.alert_json import iso
from rules.analysis.electability import electability, stands
from rules.analysis.endpoint_status import Look, looks, remembered, seen_there
from rules.analysis.freshness import fresh_poll, leaderless
from rules.analysis.replica_lag import Liveness, fetch_age_ms, lag_ms, liveness
from rules.finding import Plain, Thresholds
from rules.model.history import Recovery
from rules.model.identifiers import Endpoint, ReplicaKey
from rules.model.monitoring import ObservationSource
from rules.model.poll import Poll, Replica
from rules.model.quorum import Quorum
from rules.rescue.voter_override import initial_controllers
from streaming.status.cluster_state import Glimpse
from streaming.status.health import worst_first
from streaming.status.leader_history import history
from streaming.status.log_dir_status import described
from streaming.status.recovering_partitions import recovery

RULE = "stale-voter-endpoint"
"""Whose thresholds (`silent`, `poll_age`, `probe_age`) say who fetches and what is too old."""


def status(glimpse: Glimpse) -> dict[str, Plain]:
    """The quorum in one object.

    Fields: cluster, cluster_id, source, age_ms, observed_at, missing; of `describe --status`: leader_id, leader_epoch,
    high_watermark, max_follower_lag, max_follower_lag_time_ms, current_voters, current_observers; beyond it:
    could_be_voters, committed_voters, pending_voters, endpoints, registrations_without_voter, voters, votes_needed,
    voters_fetching, failures_tolerated, failures_left, electable, recovering_partitions, brokers, mode, kraft_version,
    metadata_version, last_offset, elections and voter_changes (see `history`), log_dir (see `directory`),
    initial_controllers, findings, cannot_tell, failing.
    """
    quorum, poll = glimpse.quorum, glimpse.quorum.poll
    thresholds = glimpse.thresholds[RULE]
    seen = seen_of(glimpse)
    lag, lag_time = _max_follower_lag(poll)
    return {
        **_head(glimpse),
        "leader_id": None if leaderless(quorum) else quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "max_follower_lag": lag,
        "max_follower_lag_time_ms": lag_time,
        "current_voters": [_current(row.key, poll) for row in poll.voters] if poll else [],
        "current_observers": [_key(row.key) for row in poll.observers] if poll else [],
        "could_be_voters": [_could_be(quorum, poll, row, thresholds) for row in could_be_voters(quorum)],
        "committed_voters": _committed(quorum),
        "pending_voters": _pending(quorum),
        "initial_controllers": initial_controllers(quorum.committed.voters) if quorum.committed else None,
        "endpoints": [_endpoint(look) for look in seen],
        "registrations_without_voter": [*_without_voter(quorum)],
        **_tolerance(glimpse, seen),
        "recovering_partitions": None if quorum.last_offset is None else len(quorum.recovering),
        "brokers": _brokers(quorum),
        "mode": _mode(quorum),
        "kraft_version": quorum.kraft_version,
        "metadata_version": quorum.metadata_version,
        "last_offset": quorum.last_offset,
        **history(quorum),
        "log_dir": None if glimpse.disk is None else described(glimpse.disk),
        "findings": [
            {"rule": one.rule, "subject": one.subject, "severity": one.severity.value, "summary": one.summary}
            for one in worst_first(glimpse.evaluation.findings)
        ],
        "cannot_tell": [
            {"rule": one.rule, "subject": one.subject, "why": one.why} for one in glimpse.evaluation.unknown
        ],
        "failing": [
            {"sight": one.sight.value, "endpoint": one.endpoint or None, "reason": one.reason.value}
            for one in quorum.failures
            # Whoever is asked for the leader before it is found says that it is not the one.
            if poll is None or one.sight is not ObservationSource.QUORUM or one.last_at_ms > poll.observed_at_ms
        ],
    }


def replication(glimpse: Glimpse) -> dict[str, Plain]:
    """Every replica in the order of `describe --replication`: the leader, the other voters, the observers.

    Fields: those of the head (see `status`) and `replicas`, each with node_id, directory_id, log_end_offset, lag,
    last_fetch_timestamp_ms, last_caught_up_timestamp_ms (the leader's clock), status (Leader, Follower, Observer);
    beyond them: log_end_epoch (the leader epoch of the first poll that showed this end of its log), fetch_age_ms and
    lag_time_ms behind the leader, liveness, committed_voter, endpoint.
    """
    quorum, poll = glimpse.quorum, glimpse.quorum.poll
    rows: list[Plain] = []
    if poll is not None:
        followers = [row for row in poll.voters if row.key.id != poll.leader_id]
        leaders = [row for row in poll.voters if row.key.id == poll.leader_id]
        statuses = [(leaders, "Leader"), (followers, "Follower"), (poll.observers, "Observer")]
        rows = [_replica(glimpse, poll, row, name) for group, name in statuses for row in group]
    return {
        **_head(glimpse),
        "leader_id": None if leaderless(quorum) else quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "described_at": None if poll is None else iso(poll.observed_at_ms),
        "replicas": rows,
    }


def partitions(glimpse: Glimpse) -> dict[str, Plain]:
    """The partitions whose LeaderRecoveryState is RECOVERING (KIP-704), longest first.

    Fields: those of the head (see `status`) and `recovering`, each with topic, topic_id, partition, since (the log's
    clock), since_offset, at_least (it stood at `since` already), for_ms, leader, leader_epoch, partition_epoch,
    leader_changes (how many other leaders since), isr, replicas, replicas_alive,
    previous_isr, previous_elr.
    """
    return {
        **_head(glimpse),
        "recovering": [recovery(glimpse.quorum, one) for one in longest_recovering(glimpse.quorum)],
    }


def longest_recovering(quorum: Quorum) -> list[Recovery]:
    """The recovering partitions, the longest first."""
    return sorted(quorum.recovering, key=lambda one: (one.since_timestamp_ms, one.topic or one.topic_id, one.partition))


def seen_of(glimpse: Glimpse) -> tuple[Look, ...]:
    """Every committed voter's endpoint, by what is known now."""
    quorum, thresholds = glimpse.quorum, glimpse.thresholds[RULE]
    poll = fresh_poll(quorum, thresholds)
    return remembered(quorum, thresholds) if poll is None else looks(quorum, poll, thresholds)


def could_be_voters(quorum: Quorum) -> tuple[Replica, ...]:
    """Observers with a directory id whose node registered as a controller (KIP-853 calls them CouldBeVoters)."""
    poll = quorum.poll
    if poll is None:
        return ()
    voting = {row.key for row in poll.voters} | (quorum.committed.keys if quorum.committed else frozenset())
    return tuple(
        row
        for row in poll.observers
        if row.key.directory_id is not None and row.key.id in quorum.controllers and row.key not in voting
    )


def verdict(look: Look) -> str:
    """`ok`, `stale`, `down` or `unknown`: whether a voter's recorded endpoint leads to it."""
    if look.flaws:
        return "stale"
    if look.refused and look.liveness is not Liveness.FETCHING:
        return "down"
    return "ok" if look.blind is None else "unknown"


def _head(glimpse: Glimpse) -> dict[str, Plain]:
    return {
        "cluster": glimpse.quorum.cluster,
        "cluster_id": glimpse.quorum.cluster_id,
        "source": glimpse.source,
        "age_ms": glimpse.age_ms,
        "observed_at": iso(glimpse.quorum.now_ms) if glimpse.quorum.now_ms else None,
        "missing": [*glimpse.missing],
    }


def _key(key: ReplicaKey) -> dict[str, Plain]:
    return {"id": key.id, "directory_id": key.directory_id}


def _named(endpoints: Iterable[Endpoint]) -> list[Plain]:
    """As Kafka writes them (RaftVoterEndpoint): LISTENER://HOST:PORT, an IPv6 address in brackets."""
    return [f"{one.listener}://{one}" for one in endpoints]


def _current(key: ReplicaKey, poll: Poll) -> dict[str, Plain]:
    return {**_key(key), "endpoints": _named(poll.nodes.get(key.id, ()))}


def _max_follower_lag(poll: Poll | None) -> tuple[int | None, int | None]:
    """As MetadataQuorumCommand: of the voter whose log ends first, in records and in time by the leader's clock."""
    leader = None if poll is None else next((row for row in poll.voters if row.key.id == poll.leader_id), None)
    if poll is None or leader is None or leader.log_end_offset is None:
        return None, None
    # A voter that the new leader has not heard of has -1 there, and counts as such.
    last = min(poll.voters, key=lambda row: -1 if row.log_end_offset is None else row.log_end_offset)
    lag = leader.log_end_offset - (-1 if last.log_end_offset is None else last.log_end_offset)
    return lag, lag_ms(poll, last)


def _could_be(quorum: Quorum, poll: Poll | None, row: Replica, thresholds: Thresholds) -> dict[str, Plain]:
    fetching = liveness(quorum, poll, row.key, thresholds)
    return {**_key(row.key), "liveness": fetching.value, "lag_time_ms": None if poll is None else lag_ms(poll, row)}


def _committed(quorum: Quorum) -> Plain:
    committed = quorum.committed
    if committed is None:
        return None
    voters = sorted(committed.voters, key=lambda voter: voter.key.id)
    return {
        "offset": committed.offset,
        "voters": [{**_key(voter.key), "endpoints": _named(voter.endpoints)} for voter in voters],
    }


def _pending(quorum: Quorum) -> Plain:
    """What the leader's latest set has beside the committed one; null where one of them is not known."""
    if quorum.committed is None or quorum.poll is None:
        return None
    latest, committed = {row.key for row in quorum.poll.voters}, quorum.committed.keys
    return {
        "added": [_key(key) for key in sorted(latest - committed)],
        "removed": [_key(key) for key in sorted(committed - latest)],
    }


def _endpoint(look: Look) -> dict[str, Plain]:
    return {
        "id": look.voter.key.id,
        "directory_id": look.voter.key.directory_id,
        "recorded": None if look.endpoint is None else str(look.endpoint),
        "registered": None if look.registered is None else str(look.registered),
        "verdict": verdict(look),
        "seen": seen_there(look),
        "flaws": [flaw.value for flaw in look.flaws],
        "liveness": look.liveness.value,
        "addresses": [*look.probe.addresses] if look.probe else [],
    }


def _without_voter(quorum: Quorum) -> Iterable[Plain]:
    if quorum.committed is None:
        return
    observers = {row.key.id for row in quorum.poll.observers} if quorum.poll else set()
    for node, registration in sorted(quorum.controllers.items()):
        if node not in quorum.committed.ids:
            yield {
                "id": node,
                "endpoints": _named(registration.endpoints),
                "offset": registration.offset,
                "observer": node in observers,
            }


def _mode(quorum: Quorum) -> str | None:
    """Whether voters are `dynamic` (KIP-853) or `static` (controller.quorum.voters); null while that is not known."""
    if quorum.kraft_version is None:
        return None
    return "dynamic" if quorum.kraft_version else "static"


def _brokers(quorum: Quorum) -> Plain:
    """Null while nothing of the log was read."""
    if quorum.last_offset is None:
        return None
    fenced = sorted(broker.id for broker in quorum.brokers.values() if broker.fenced)
    return {"registered": len(quorum.brokers), "fenced": [*fenced]}


def _tolerance(glimpse: Glimpse, seen: tuple[Look, ...]) -> dict[str, Plain]:
    quorum, thresholds = glimpse.quorum, glimpse.thresholds[RULE]
    poll = fresh_poll(quorum, thresholds)
    keys = quorum.committed.keys if quorum.committed else {row.key for row in poll.voters} if poll else frozenset()
    needed = len(keys) // 2 + 1 if keys else None
    fetching = None
    if poll is not None and leaderless(quorum) is None:
        fetching = sum(liveness(quorum, poll, key, thresholds) is Liveness.FETCHING for key in keys)
    return {
        "voters": len(keys) or None,
        "votes_needed": needed,
        "voters_fetching": fetching,
        "failures_tolerated": None if needed is None else len(keys) - needed,
        "failures_left": None if needed is None or fetching is None else fetching - needed,
        "electable": electability(stands(quorum, seen)).electable if seen and glimpse.disk is None else None,
    }


def _replica(glimpse: Glimpse, poll: Poll, row: Replica, name: str) -> dict[str, Plain]:
    quorum, leader = glimpse.quorum, poll.leader
    lag = None
    if leader is not None and leader.log_end_offset is not None and row.log_end_offset is not None:
        lag = leader.log_end_offset - row.log_end_offset
    voter = quorum.committed.by_id(row.key.id) if quorum.committed else None
    return {
        "node_id": row.key.id,
        "directory_id": row.key.directory_id,
        "log_end_offset": row.log_end_offset,
        "log_end_epoch": quorum.histories[row.key].last_leader_epoch if row.key in quorum.histories else None,
        "lag": lag,
        "last_fetch_timestamp_ms": row.last_fetch_ms,
        "last_caught_up_timestamp_ms": row.last_caught_up_ms,
        "status": name,
        "fetch_age_ms": fetch_age_ms(poll, row),
        "lag_time_ms": lag_ms(poll, row),
        "liveness": liveness(quorum, poll, row.key, glimpse.thresholds[RULE]).value,
        "committed_voter": None if quorum.committed is None else row.key in quorum.committed.keys,
        "endpoint": str(voter.endpoints[0]) if voter and voter.key == row.key and voter.endpoints else None,
    }
