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
        name="leaderless",
        help="1 while a node reports that no controller leads, or all refuse connections; 0 while a leader answers.",
        read=_leaderless,
    ),
    MetricSpec(
        name="replica_lag_records",
        help="Records of the leader's log that a replica has not fetched yet.",
        read=of_replicas(lambda row: row.lag),
        labels=REPLICA,
    ),
    MetricSpec(
        name="replica_lag_seconds",
        help="Time since a replica was last caught up, by the leader's clock. Half a second is normal.",
        read=of_replicas(lambda row: row.lag_time_ms, divisor=1000),
        labels=REPLICA,
    ),
    MetricSpec(
        name="replica_fetch_age_seconds",
        help="Time since a replica last fetched, by the leader's clock.",
        read=of_replicas(lambda row: row.fetch_age_ms, divisor=1000),
        labels=REPLICA,
    ),
    MetricSpec(
        name="is_observer",
        help="1 for a controller that is an observer, 0 for a voter.",
        read=_is_observer,
        labels=NODE,
    ),
    MetricSpec(
        name="votes_needed",
        help="Votes that win an election, and replicas that commit a record.",
        read=value(lambda status: status.votes_needed),
    ),
    MetricSpec(
        name="voters_fetching",
        help="Committed voters that fetch from the leader, the leader included.",
        read=value(lambda status: status.voters_fetching),
    ),
    MetricSpec(
        name="failure_tolerance",
        help="How many more voters may fail before nothing can be committed; below 0 the majority is lost.",
        read=value(lambda status: status.failures_left),
    ),
    MetricSpec(
        name="failure_tolerance_by_size",
        help="How many voters may fail when all are active.",
        read=value(lambda status: status.failures_tolerated),
    ),
    MetricSpec(
        name="electable",
        help="1 if a leader could be elected if all controllers restarted now, by the recorded endpoints.",
        read=value(lambda status: status.electable),
    ),
    MetricSpec(
        name="voter_endpoint_ok",
        help="1 if the endpoint that the log records for a voter reaches it, 0 if it does not.",
        read=_endpoints,
        labels=NODE,
    ),
    MetricSpec(
        name="certificate_expiration_timestamp_seconds",
        help="When the certificate that a controller presents expires, in seconds since 1970; absent without TLS.",
        read=_certificates,
        labels=("node_id",),
    ),
    MetricSpec(
        name="recovering_partitions",
        help="Partitions whose LeaderRecoveryState is RECOVERING (KIP-704); Kafka has no metric of them.",
        read=value(lambda status: status.recovering_partitions),
    ),
    MetricSpec(
        name="registered_brokers",
        help="Registered brokers.",
        read=_of_brokers(lambda brokers: brokers.registered),
    ),
    MetricSpec(
        name="fenced_brokers",
        help="Registered brokers that are fenced.",
        read=_of_brokers(lambda brokers: len(brokers.fenced)),
    ),
    MetricSpec(
        name="kraft_version",
        help="Finalized kraft.version: 0 static, 1 dynamic quorum.",
        read=value(lambda status: status.kraft_version),
    ),
    MetricSpec(
        name="metadata_version",
        help="Finalized level of metadata.version.",
        read=value(lambda status: status.metadata_version),
    ),
    MetricSpec(
        name="findings",
        help="Subjects for which a rule finds a condition now, before its hold expires.",
        read=counted(lambda status: ((one.rule, one.severity.value) for one in status.findings)),
        labels=("rule", "severity"),
    ),
    MetricSpec(
        name="cannot_tell",
        help="Subjects for which a rule's result is unknown now, because evidence is missing.",
        read=counted(lambda status: ((one.rule,) for one in status.unknown)),
        labels=("rule",),
    ),
    MetricSpec(
        name="gather_failing",
        help="Endpoints at which an observation fails now, by data source and reason.",
        read=counted(lambda status: ((one.source.value, one.reason.value) for one in status.failing)),
        labels=("source", "reason"),
    ),
)
