"""The metrics that KIP-595, KIP-853 and KIP-856 name and that are visible from outside; the names of the others.

Kafka exports -1 or 0 for "unknown"; here an unknown value is left out.
"""

from collections.abc import Callable

from streaming.metrics.metric_spec import (
    NODE,
    REPLICA,
    ClusterSample,
    MetricSpec,
    Read,
    Values,
    length_while_polled,
    of_replicas,
    value,
)
from streaming.metrics.rates import Node, Rates, node_of
from streaming.status.cluster_status import QuorumMode
from streaming.status.voter_types import PendingVoters


def _leader(sample: ClusterSample) -> Values:
    return sample.status.leader_id if sample.live else None


def _states(sample: ClusterSample) -> Values:
    rows = sample.status.replicas if sample.polled else ()
    return {(*node_of(row), row.status.lower()): 1 for row in rows}


def _offline(sample: ClusterSample) -> Values:
    voters, fetching = sample.status.voters, sample.status.voters_fetching
    return None if voters is None or fetching is None else voters - fetching


def _pending(of: Callable[[PendingVoters], bool]) -> Read:
    def read(sample: ClusterSample) -> Values:
        pending = sample.status.pending_voters if sample.polled else None
        return None if pending is None else of(pending)

    return read


def _dynamic(sample: ClusterSample) -> Values:
    mode = sample.status.mode
    return None if mode is None else mode is QuorumMode.DYNAMIC


def _boot_times(sample: ClusterSample) -> Values:
    times = sample.status.registered_at_ms
    return {(str(node),): at_ms / 1000 for node, at_ms in times.items() if at_ms is not None}


def _average(of: Callable[[Rates], tuple[float, float] | None]) -> Read:
    return lambda sample: None if (both := of(sample.rates)) is None else both[0]


def _longest(of: Callable[[Rates], tuple[float, float] | None]) -> Read:
    return lambda sample: None if (both := of(sample.rates)) is None else both[1]


def _fetch_rates(sample: ClusterSample) -> Values:
    rates: dict[Node, float | None] = sample.rates.fetch_rates()
    return rates if sample.polled else None


_595, _853, _856 = "KIP-595 ", "KIP-853 ", "KIP-856 "

KIP_METRICS: tuple[MetricSpec[ClusterSample], ...] = (
    MetricSpec(
        name="current_leader",
        help="Node id of the leader, while it answers.",
        read=_leader,
        named_by=_595 + "current-leader",
    ),
    MetricSpec(
        name="current_epoch",
        help="Newest known leader epoch.",
        read=value(lambda status: status.leader_epoch),
        named_by=_595 + "current-epoch",
    ),
    MetricSpec(
        name="current_state",
        help="1 for the role of a node (leader, follower, observer) as the leader reports it. "
        "From outside, candidates cannot be distinguished from voted or unattached nodes.",
        read=_states,
        labels=(*NODE, "state"),
        named_by=_595 + "current-state",
    ),
    MetricSpec(
        name="high_watermark",
        help="Records below this offset are committed.",
        read=value(lambda status: status.high_watermark),
        named_by=_595 + "high-watermark",
    ),
    MetricSpec(
        name="log_end_offset",
        help="End offset of a replica's log, as the leader reports it.",
        read=of_replicas(lambda row: row.log_end_offset),
        labels=REPLICA,
        named_by=_595 + "log-end-offset",
    ),
    MetricSpec(
        name="log_end_epoch",
        help="Leader epoch of the first poll that showed this log end offset: the replica's last record is not newer.",
        read=of_replicas(lambda row: row.log_end_epoch),
        labels=REPLICA,
        named_by=_595 + "log-end-epoch",
    ),
    MetricSpec(
        name="election_latency_avg_seconds",
        help="Average duration of the elections of the last 10 minutes, by record timestamps: from the last record "
        "before an election to its LeaderChangeMessage. Up to a second too long.",
        read=_average(Rates.elections_s),
        named_by=_595 + "election-latency-avg",
    ),
    MetricSpec(
        name="election_latency_max_seconds",
        help="Longest of those elections.",
        read=_longest(Rates.elections_s),
        named_by=_595 + "election-latency-max",
    ),
    MetricSpec(
        name="commit_latency_avg_seconds",
        help="Average time that a majority of voters lagged behind the leader's log, by the leader's clock, over the "
        "polls of the last minute (one a second).",
        read=_average(Rates.commit_waits_s),
        named_by=_595 + "commit-latency-avg, ReplicationLatencyAvg (struck out)",
    ),
    MetricSpec(
        name="commit_latency_max_seconds",
        help="Longest of those times.",
        read=_longest(Rates.commit_waits_s),
        named_by=_595 + "commit-latency-max, ReplicationLatencyMax (struck out)",
    ),
    MetricSpec(
        name="fetch_records_rate",
        help="Records per second that a follower or observer fetched in the last minute.",
        read=_fetch_rates,
        labels=NODE,
        named_by=_595 + "fetch-records-rate, FetchRecordsPerSec (struck out)",
    ),
    MetricSpec(
        name="append_records_rate",
        help="Records per second that the leader appended in the last minute, if one node led all the time.",
        read=lambda sample: sample.rates.append_rate() if sample.polled else None,
        named_by=_595 + "append-records-rate, AppendRecordsPerSec (struck out)",
    ),
    MetricSpec(
        name="boot_timestamp_seconds",
        help="When a controller last registered, which it does at its start, by the record's timestamp.",
        read=_boot_times,
        labels=("node_id",),
        named_by=_595 + "BootTimestamp (struck out)",
    ),
    MetricSpec(
        name="number_of_voters",
        help="Voters of the metadata partition: the committed set, or the leader's set where the log holds none.",
        read=value(lambda status: status.voters),
        named_by=f"{_856}and {_853}number-of-voters, {_595}NumQuorumVoters (struck out)",
    ),
    MetricSpec(
        name="number_of_observers",
        help="Observers that the leader reports, brokers included.",
        read=length_while_polled(lambda status: status.current_observers),
        named_by=_853 + "number-of-observers",
    ),
    MetricSpec(
        name="number_of_possible_voters",
        help="Observers that can be added to the voters: registered controllers with a directory id.",
        read=length_while_polled(lambda status: status.could_be_voters),
        named_by=_856 + "number-of-possible-voters (never shipped)",
    ),
    MetricSpec(
        name="number_of_offline_voters",
        help="Committed voters that do not fetch from the leader.",
        read=_offline,
        named_by=_853 + "number-of-offline-voters (never shipped)",
    ),
    MetricSpec(
        name="pending_add_voter",
        help="1 while the leader's voter set holds a voter that the committed set does not, else 0.",
        read=_pending(lambda pending: bool(pending.added)),
        named_by=_856 + "pending-add-voter (never shipped)",
    ),
    MetricSpec(
        name="pending_remove_voter",
        help="1 while the committed voter set holds a voter that the leader's set does not, else 0.",
        read=_pending(lambda pending: bool(pending.removed)),
        named_by=_856 + "pending-remove-voter (never shipped)",
    ),
    MetricSpec(
        name="uncommitted_voter_change",
        help="1 while the leader's voter set differs from the committed set, else 0.",
        read=_pending(lambda pending: bool(pending.added or pending.removed or pending.moved)),
        named_by=_853 + "uncommitted-voter-change",
    ),
    MetricSpec(
        name="ignored_static_voters",
        help="1 if the voters come from the log, so that controller.quorum.voters is ignored; "
        "0 if they come from that configuration.",
        read=_dynamic,
        named_by=_853 + "ignored-static-voters",
    ),
)
