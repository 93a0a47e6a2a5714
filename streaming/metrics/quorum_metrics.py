"""Metrics of a quorum that no KIP names: lag, failure tolerance, endpoints, findings."""

from collections.abc import Callable
from math import inf

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
)
from streaming.status.voter_types import BrokerCounts, EndpointVerdict

_ENDPOINT_OK = {EndpointVerdict.OK: 1, EndpointVerdict.STALE: 0, EndpointVerdict.DOWN: 0}
"""`unknown` is left out."""


def _leaderless(sample: ClusterSample) -> Values:
    if sample.status.leaderless:
        return 1
    return 0 if sample.live else None


def _is_observer(sample: ClusterSample) -> Values:
    """Of controllers only: a broker is always an observer."""
    voters = [(str(one.id), one.directory_id or "") for one in sample.status.current_voters]
    observers = [(str(one.id), one.directory_id or "") for one in sample.status.could_be_voters]
    return {**dict.fromkeys(observers, 1), **dict.fromkeys(voters, 0)} if sample.polled else None


def _endpoints(sample: ClusterSample) -> Values:
    rows = sample.status.endpoints
    return {(str(one.id), one.directory_id or ""): _ENDPOINT_OK.get(one.verdict) for one in rows}


def _certificates(sample: ClusterSample) -> Values:
    """Of a node with several endpoints, the one that expires first."""
    expiry: dict[tuple[str, ...], float] = {}
    for one in sample.status.certificates:
        expiry[(str(one.id),)] = min(one.expires_at_ms / 1000, expiry.get((str(one.id),), inf))
    return expiry


def _of_brokers(of: Callable[[BrokerCounts], int]) -> Read:
    return lambda sample: None if sample.status.brokers is None else of(sample.status.brokers)


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
    MetricSpec("is_observer", "1 for a controller that is an observer, 0 for a voter.", _is_observer, NODE),
    MetricSpec(
        "votes_needed",
        "Votes that win an election, and replicas that commit a record.",
        value(lambda status: status.votes_needed),
    ),
    MetricSpec(
        "voters_fetching",
        "Committed voters that fetch from the leader, the leader included.",
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
        "1 if a leader could be elected if all controllers restarted now, by the recorded endpoints.",
        value(lambda status: status.electable),
    ),
    MetricSpec(
        "voter_endpoint_ok",
        "1 if the endpoint that the log records for a voter reaches it, 0 if it does not.",
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
        counted(lambda status: ((one.rule, one.severity.value) for one in status.findings)),
        ("rule", "severity"),
    ),
    MetricSpec(
        "cannot_tell",
        "Subjects for which a rule's result is unknown now, because evidence is missing.",
        counted(lambda status: ((one.rule,) for one in status.unknown)),
        ("rule",),
    ),
    MetricSpec(
        "gather_failing",
        "Endpoints at which an observation fails now, by data source and reason.",
        counted(lambda status: ((one.source.value, one.reason.value) for one in status.failing)),
        ("source", "reason"),
    ),
)
