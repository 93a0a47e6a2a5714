"""The metrics of a quorum: those that KIP-595, KIP-853 and KIP-856 name, if visible from outside, and others.

Kafka exports -1 or 0 for "unknown"; here an unknown value is left out.
"""

from collections.abc import Callable
from math import inf

from rules.facts.endpoint import EndpointVerdict
from rules.model.witness import Reached
from streaming.metrics.metric_spec import (
    NODE,
    REPLICA,
    ClusterSample,
    MetricSpec,
    Read,
    Values,
    counted,
    of_replicas,
    value,
    while_polled,
)
from streaming.metrics.rates import Rates, node_of
from streaming.status.cluster_status import BrokerCounts, ClusterStatus, QuorumMode
from streaming.status.voters import PendingVoters


def _states(sample: ClusterSample) -> Values:
    return {(*node_of(row), row.status.lower()): 1 for row in sample.status.replicas}


def _offline(status: ClusterStatus) -> int | None:
    voters, fetching = status.voters, status.voters_fetching
    return None if voters is None or fetching is None else voters - fetching


def _pending(of: Callable[[PendingVoters], bool]) -> Read:
    return while_polled(value(lambda status: None if status.pending_voters is None else of(status.pending_voters)))


def _boot_times(sample: ClusterSample) -> Values:
    times = sample.status.registered_at_ms
    return {(str(node),): at_ms / 1000 for node, at_ms in times.items()}


def _average(of: Callable[[Rates], tuple[float, float] | None]) -> Read:
    return lambda sample: None if (both := of(sample.rates)) is None else both[0]


def _longest(of: Callable[[Rates], tuple[float, float] | None]) -> Read:
    return lambda sample: None if (both := of(sample.rates)) is None else both[1]


KIP_METRICS: tuple[MetricSpec[ClusterSample], ...] = (
    MetricSpec(
        "current_leader",
        "Node id of the leader, while it answers.",
        lambda sample: sample.status.leader_id if sample.live else None,
    ),
    MetricSpec("current_epoch", "Newest known leader epoch.", value(lambda status: status.leader_epoch)),
    MetricSpec(
        "current_state",
        "1 for the role of a node (leader, follower, observer) as the leader reports it. "
        "From outside, candidates cannot be distinguished from voted or unattached nodes.",
        while_polled(_states),
        (*NODE, "state"),
    ),
    MetricSpec(
        "high_watermark", "Records below this offset are committed.", value(lambda status: status.high_watermark)
    ),
    MetricSpec(
        "log_end_offset",
        "End offset of a replica's log, as the leader reports it.",
        of_replicas(lambda row: row.log_end_offset),
        REPLICA,
    ),
    MetricSpec(
        "log_end_epoch",
        "Leader epoch of the first poll that showed this log end offset: the replica's last record is not newer.",
        of_replicas(lambda row: row.log_end_epoch),
        REPLICA,
    ),
    MetricSpec(
        "election_latency_avg_seconds",
        "Average duration of the elections of the last 10 minutes, by record timestamps: from the last record "
        "before an election to its LeaderChangeMessage. Up to a second too long.",
        _average(Rates.elections_s),
    ),
    MetricSpec("election_latency_max_seconds", "Longest of those elections.", _longest(Rates.elections_s)),
    MetricSpec(
        "commit_latency_avg_seconds",
        "Average time that a majority of voters lagged behind the leader's log, by the leader's clock, over the "
        "polls of the last minute (one a second, or every two seconds).",
        while_polled(_average(Rates.commit_waits_s)),
    ),
    MetricSpec("commit_latency_max_seconds", "Longest of those times.", while_polled(_longest(Rates.commit_waits_s))),
    MetricSpec(
        "fetch_records_rate",
        "Records per second that a follower or observer fetched in the last minute.",
        while_polled(lambda sample: sample.rates.fetch_rates()),
        NODE,
    ),
    MetricSpec(
        "append_records_rate",
        "Records per second that the leader appended in the last minute, if one node led all the time.",
        while_polled(lambda sample: sample.rates.append_rate()),
    ),
    MetricSpec(
        "boot_timestamp_seconds",
        "When a controller last registered, which it does at its start, by the record's timestamp.",
        _boot_times,
        ("node_id",),
    ),
    MetricSpec(
        "number_of_voters",
        "Voters of the metadata partition: the leader's latest set, or the committed one while no leader answers.",
        value(lambda status: status.voters),
    ),
    MetricSpec(
        "number_of_observers",
        "Observers that the leader reports, brokers included.",
        while_polled(value(lambda status: len(status.current_observers))),
    ),
    MetricSpec(
        "number_of_possible_voters",
        "Observers that can be added to the voters: registered controllers with a directory id.",
        while_polled(value(lambda status: len(status.could_be_voters))),
    ),
    MetricSpec("number_of_offline_voters", "Committed voters that do not fetch from the leader.", value(_offline)),
    MetricSpec(
        "pending_add_voter",
        "1 while the leader's voter set holds a voter that the committed set does not, else 0.",
        _pending(lambda pending: bool(pending.added)),
    ),
    MetricSpec(
        "pending_remove_voter",
        "1 while the committed voter set holds a voter that the leader's set does not, else 0.",
        _pending(lambda pending: bool(pending.removed)),
    ),
    MetricSpec(
        "uncommitted_voter_change",
        "1 while the leader's voter set differs from the committed set, else 0.",
        _pending(lambda pending: bool(pending.added or pending.removed or pending.moved)),
    ),
    MetricSpec(
        "ignored_static_voters",
        "1 if the voters come from the log, so that controller.quorum.voters is ignored; "
        "0 if they come from that configuration.",
        value(lambda status: None if status.mode is None else status.mode is QuorumMode.DYNAMIC),
    ),
)


_ENDPOINT_OK = {EndpointVerdict.OK: 1, EndpointVerdict.STALE: 0, EndpointVerdict.DOWN: 0}
"""`unknown` is left out."""
_REACHED = {Reached.YES: 1, Reached.NO: 0}
"""The same."""


def _leaderless(sample: ClusterSample) -> Values:
    if sample.status.leaderless:
        return 1
    return 0 if sample.live else None


def _is_observer(sample: ClusterSample) -> Values:
    """Of controllers only: a broker is always an observer."""
    voters = [(str(voter.id), voter.directory_id or "") for voter in sample.status.current_voters]
    observers = [(str(voter.id), voter.directory_id or "") for voter in sample.status.could_be_voters]
    return {**dict.fromkeys(observers, 1), **dict.fromkeys(voters, 0)}


def _endpoints(sample: ClusterSample) -> Values:
    rows = sample.status.endpoints
    return {(str(row.id), row.directory_id or ""): _ENDPOINT_OK.get(row.verdict) for row in rows}


def _certificates(sample: ClusterSample) -> Values:
    """Of a node with several endpoints, the one that expires first."""
    expiry: dict[tuple[str, ...], float] = {}
    for certificate in sample.status.certificates:
        expiry[(str(certificate.id),)] = min(certificate.expires_at_ms / 1000, expiry.get((str(certificate.id),), inf))
    return expiry


def _of_brokers(of: Callable[[BrokerCounts], int]) -> Read:
    return value(lambda status: None if status.brokers is None else of(status.brokers))


QUORUM_METRICS: tuple[MetricSpec[ClusterSample], ...] = (
    MetricSpec(
        "leaderless",
        "1 while a node reports that no controller leads, or all refuse connections; 0 while a leader answers.",
        _leaderless,
    ),
    MetricSpec(
        "replica_lag_records",
        "Records of the leader's log that a replica has not fetched yet.",
        of_replicas(lambda row: row.lag),
        REPLICA,
    ),
    MetricSpec(
        "replica_lag_seconds",
        "Time since a replica was last caught up, by the leader's clock. Half a second is normal.",
        of_replicas(lambda row: row.lag_time_ms, divisor=1000),
        REPLICA,
    ),
    MetricSpec(
        "replica_fetch_age_seconds",
        "Time since a replica last fetched, by the leader's clock.",
        of_replicas(lambda row: row.fetch_age_ms, divisor=1000),
        REPLICA,
    ),
    MetricSpec(
        "is_observer", "1 for a controller that is an observer, 0 for a voter.", while_polled(_is_observer), NODE
    ),
    MetricSpec(
        "votes_needed",
        "Votes that win an election, and replicas that commit a record.",
        value(lambda status: status.votes_needed),
    ),
    MetricSpec(
        "voters_fetching",
        "Voters that fetch from the leader, the leader included.",
        value(lambda status: status.voters_fetching),
    ),
    MetricSpec(
        "failure_tolerance",
        "How many more voters may fail before nothing can be committed; below 0 the majority is lost.",
        value(lambda status: status.failures_left),
    ),
    MetricSpec(
        "failure_tolerance_by_size",
        "How many voters may fail when all are active.",
        value(lambda status: status.failures_tolerated),
    ),
    MetricSpec(
        "electable",
        "1 if a leader could be elected if all controllers restarted now, by the endpoints that they dial.",
        value(lambda status: status.electable),
    ),
    MetricSpec(
        "voter_endpoint_ok",
        "1 if a voter's recorded endpoint, or in a static quorum its configured one, reaches it; 0 if not.",
        _endpoints,
        NODE,
    ),
    MetricSpec(
        "certificate_expiration_timestamp_seconds",
        "When the certificate that a controller presents expires, in seconds since 1970; absent without TLS.",
        _certificates,
        ("node_id",),
    ),
    MetricSpec(
        "controller_reached",
        "1 if a node reaches a voter, as its own host sees it (kraftwatch witness), 0 if it does not; "
        "absent where that is unknown.",
        lambda sample: {(str(one.by), str(one.of)): _REACHED.get(one.reached) for one in sample.status.reaches},
        ("from_node_id", "to_node_id"),
    ),
    MetricSpec(
        "witness_row_timestamp_seconds",
        "When the newest row of a node's host was made, in seconds since 1970; absent without one.",
        lambda sample: {
            (str(one.by),): None if one.seen_at_ms is None else one.seen_at_ms / 1000 for one in sample.status.reaches
        },
        ("node_id",),
    ),
    MetricSpec(
        "recovering_partitions",
        "Partitions whose LeaderRecoveryState is RECOVERING (KIP-704); Kafka has no metric of them.",
        value(lambda status: status.recovering_partitions),
    ),
    MetricSpec("registered_brokers", "Registered brokers.", _of_brokers(lambda brokers: brokers.registered)),
    MetricSpec(
        "fenced_brokers", "Registered brokers that are fenced.", _of_brokers(lambda brokers: len(brokers.fenced))
    ),
    MetricSpec(
        "kraft_version",
        "Finalized kraft.version: 0 static, 1 dynamic quorum.",
        value(lambda status: status.kraft_version),
    ),
    MetricSpec(
        "metadata_version", "Finalized level of metadata.version.", value(lambda status: status.metadata_version)
    ),
    MetricSpec(
        "findings",
        "Subjects for which a rule finds a condition now, before its hold expires.",
        counted(lambda status: ((finding.rule, finding.severity.value) for finding in status.findings)),
        ("rule", "severity"),
    ),
    MetricSpec(
        "unknown",
        "Subjects for which a rule's result is unknown now, because evidence is missing.",
        counted(lambda status: ((one.rule,) for one in status.unknown)),
        ("rule",),
    ),
    MetricSpec(
        "gather_failing",
        "Endpoints at which an observation fails now, by data source and reason.",
        counted(
            lambda status: ((observation.source.value, observation.reason.value) for observation in status.failing)
        ),
        ("source", "reason"),
    ),
)
