"""What /metrics tells of a quorum beyond the KIPs: who lags, how many may fail, what is wrong."""

from streaming.metrics.metric import Measure, Origin, Values
from streaming.metrics.readers import NODE, REPLICA, Read, Shown, counted, field, of_replicas


def _leaderless(shown: Shown) -> Values:
    if shown.portrait["leaderless"]:
        return 1
    return 0 if shown.live else None


def _observing(shown: Shown) -> Values:
    """Controllers alone: a broker can be nothing else."""
    voting = [(str(one["id"]), one["directory_id"] or "") for one in shown.portrait["current_voters"]]
    waiting = [(str(one["id"]), one["directory_id"] or "") for one in shown.portrait["could_be_voters"]]
    return {**dict.fromkeys(waiting, 1), **dict.fromkeys(voting, 0)} if shown.polled else None


def _endpoints(shown: Shown) -> Values:
    """`stale` and `down` lead nowhere; `unknown` is left out."""
    well = {"ok": 1, "stale": 0, "down": 0}
    rows = shown.portrait["endpoints"]
    return {(str(one["id"]), one["directory_id"] or ""): well.get(one["verdict"]) for one in rows}


def _brokers(field: str) -> Read:
    def read(shown: Shown) -> Values:
        brokers = shown.portrait["brokers"]
        if brokers is None:
            return None
        value = brokers[field]
        return len(value) if isinstance(value, list) else value

    return read


SEEN, DERIVED = Origin.SEEN, Origin.DERIVED

BEYOND: tuple[Measure[Shown], ...] = (
    Measure(
        name="leaderless",
        words="1 while some node says that nobody leads, or all refuse; 0 while a leader answers.",
        read=_leaderless,
        origin=DERIVED,
    ),
    Measure(
        name="replica_lag_records",
        words="Records of the leader's log that a replica has not fetched yet.",
        read=of_replicas("lag"),
        labels=REPLICA,
        origin=SEEN,
    ),
    Measure(
        name="replica_lag_seconds",
        words="How long ago a replica had last caught up, by the leader's clock. Half a second is nothing.",
        read=of_replicas("lag_time_ms", per=1000),
        labels=REPLICA,
        origin=DERIVED,
    ),
    Measure(
        name="replica_fetch_age_seconds",
        words="How long ago a replica last fetched, by the leader's clock.",
        read=of_replicas("fetch_age_ms", per=1000),
        labels=REPLICA,
        origin=DERIVED,
    ),
    Measure(
        name="is_observer",
        words="1 for a controller that is no voter, 0 for a voter.",
        read=_observing,
        labels=NODE,
        origin=DERIVED,
    ),
    Measure(
        name="votes_needed",
        words="Votes that win an election, and replicas that commit a record.",
        read=field("votes_needed"),
        origin=DERIVED,
    ),
    Measure(
        name="voters_fetching",
        words="Committed voters that take part now.",
        read=field("voters_fetching"),
        origin=DERIVED,
    ),
    Measure(
        name="failure_tolerance",
        words="How many more voters may fail before nothing can be committed; below 0 the majority is gone.",
        read=field("failures_left"),
        origin=DERIVED,
    ),
    Measure(
        name="failure_tolerance_by_size",
        words="The same if every voter were well.",
        read=field("failures_tolerated"),
        origin=DERIVED,
    ),
    Measure(
        name="electable",
        words="1 where some controller could still win an election if all restarted now, by the recorded endpoints.",
        read=field("electable"),
        origin=DERIVED,
    ),
    Measure(
        name="voter_endpoint_ok",
        words="1 where the endpoint that the log records for a voter leads to it, 0 where it does not.",
        read=_endpoints,
        labels=NODE,
        origin=DERIVED,
    ),
    Measure(
        name="recovering_partitions",
        words="Partitions whose LeaderRecoveryState is RECOVERING (KIP-704): no metric of Kafka's tells them.",
        read=field("recovering_partitions"),
        origin=SEEN,
    ),
    Measure(
        name="registered_brokers",
        words="Brokers that are registered.",
        read=_brokers("registered"),
        origin=SEEN,
    ),
    Measure(
        name="fenced_brokers",
        words="Registered brokers that are fenced.",
        read=_brokers("fenced"),
        origin=SEEN,
    ),
    Measure(
        name="kraft_version",
        words="Finalized kraft.version: 0 static, 1 dynamic quorum.",
        read=field("kraft_version"),
        origin=SEEN,
    ),
    Measure(
        name="metadata_version",
        words="Finalized level of metadata.version.",
        read=field("metadata_version"),
        origin=SEEN,
    ),
    Measure(
        name="findings",
        words="What a rule finds now, before its hold: how many subjects.",
        read=counted("findings", "rule", "severity"),
        labels=("rule", "severity"),
        origin=DERIVED,
    ),
    Measure(
        name="cannot_tell",
        words="What a rule cannot judge now, for want of evidence: how many subjects.",
        read=counted("cannot_tell", "rule"),
        labels=("rule",),
        origin=DERIVED,
    ),
    Measure(
        name="gather_failing",
        words="Places that a look fails at now, by what was to be seen and why not.",
        read=counted("failing", "sight", "reason"),
        labels=("sight", "reason"),
        origin=SEEN,
    ),
)
