"""The metrics that KIP-595, 853 and 856 name, as far as they can be known from outside; the others, with the reason.

Kafka's -1 and 0 for "unknown" are no values here: what is not known is left out.
"""

from collections.abc import Callable, Mapping

from streaming.metrics.metric import Measure, Origin, Values
from streaming.metrics.rates import Node, Pace, node_of
from streaming.metrics.readers import NODE, REPLICA, Read, Shown, field, length, of_replicas


def _leader(shown: Shown) -> Values:
    leader: int | None = shown.portrait["leader_id"] if shown.live else None
    return leader


def _states(shown: Shown) -> Values:
    rows = shown.portrait["replicas"] if shown.polled else ()
    return {(*node_of(row), row["status"].lower()): 1 for row in rows}


def _offline(shown: Shown) -> Values:
    voters, fetching = shown.portrait["voters"], shown.portrait["voters_fetching"]
    return None if voters is None or fetching is None else voters - fetching


def _pending(*kinds: str) -> Read:
    def read(shown: Shown) -> Values:
        pending = shown.portrait["pending_voters"] if shown.polled else None
        return None if pending is None else any(pending[kind] for kind in kinds)

    return read


def _dynamic(shown: Shown) -> Values:
    mode = shown.portrait["mode"]
    return None if mode is None else mode == "dynamic"


def _booted(shown: Shown) -> Values:
    times = shown.portrait["registered_at_ms"]
    return {(node,): at_ms / 1000 for node, at_ms in times.items() if at_ms is not None}


def _average(of: Callable[[Pace], tuple[float, float] | None]) -> Read:
    return lambda shown: None if (both := of(shown.pace)) is None else both[0]


def _longest(of: Callable[[Pace], tuple[float, float] | None]) -> Read:
    return lambda shown: None if (both := of(shown.pace)) is None else both[1]


def _fetch_rates(shown: Shown) -> Values:
    rates: dict[Node, float | None] = shown.pace.fetch_rates()
    return rates if shown.polled else None


SEEN, DERIVED = Origin.SEEN, Origin.DERIVED
_595, _853, _856 = "KIP-595 ", "KIP-853 ", "KIP-856 "

OF_KIPS: tuple[Measure[Shown], ...] = (
    Measure(
        name="current_leader",
        words="Node id of the leader, while one answers.",
        read=_leader,
        origin=SEEN,
        of=_595 + "current-leader",
    ),
    Measure(
        name="current_epoch",
        words="Newest leader epoch that was seen.",
        read=field("leader_epoch"),
        origin=SEEN,
        of=_595 + "current-epoch",
    ),
    Measure(
        name="current_state",
        words="1 for what a node is (leader, follower, observer) in the leader's view. "
        "Candidates and voted or unattached nodes cannot be told apart from outside.",
        read=_states,
        labels=(*NODE, "state"),
        origin=DERIVED,
        of=_595 + "current-state",
    ),
    Measure(
        name="high_watermark",
        words="Offset below which everything is committed.",
        read=field("high_watermark"),
        origin=SEEN,
        of=_595 + "high-watermark",
    ),
    Measure(
        name="log_end_offset",
        words="Where a replica's log ends, in the leader's view.",
        read=of_replicas("log_end_offset"),
        labels=REPLICA,
        origin=SEEN,
        of=_595 + "log-end-offset",
    ),
    Measure(
        name="log_end_epoch",
        words="Leader epoch of the first poll that showed a replica's log end: its last record is no newer.",
        read=of_replicas("log_end_epoch"),
        labels=REPLICA,
        origin=DERIVED,
        of=_595 + "log-end-epoch",
    ),
    Measure(
        name="election_latency_avg_seconds",
        words="How long the log stood still around the elections of the last 10 minutes, by its own time: "
        "from the newest record before to the LeaderChangeMessage. Up to a second too long.",
        read=_average(Pace.elections_s),
        origin=DERIVED,
        of=_595 + "election-latency-avg",
    ),
    Measure(
        name="election_latency_max_seconds",
        words="The longest of the same.",
        read=_longest(Pace.elections_s),
        origin=DERIVED,
        of=_595 + "election-latency-max",
    ),
    Measure(
        name="commit_latency_avg_seconds",
        words="How long a majority of voters had been behind the leader's log, by the leader's clock: "
        "average of the looks (one a second) of the last minute.",
        read=_average(Pace.commit_waits_s),
        origin=DERIVED,
        of=_595 + "commit-latency-avg, ReplicationLatencyAvg (struck out)",
    ),
    Measure(
        name="commit_latency_max_seconds",
        words="The longest of the same.",
        read=_longest(Pace.commit_waits_s),
        origin=DERIVED,
        of=_595 + "commit-latency-max, ReplicationLatencyMax (struck out)",
    ),
    Measure(
        name="fetch_records_rate",
        words="Records a second by which the log of a follower or observer grew in the last minute.",
        read=_fetch_rates,
        labels=NODE,
        origin=DERIVED,
        of=_595 + "fetch-records-rate, FetchRecordsPerSec (struck out)",
    ),
    Measure(
        name="append_records_rate",
        words="Records a second by which the leader's log grew in the last minute, while one node led.",
        read=lambda shown: shown.pace.append_rate() if shown.polled else None,
        origin=DERIVED,
        of=_595 + "append-records-rate, AppendRecordsPerSec (struck out)",
    ),
    Measure(
        name="boot_timestamp_seconds",
        words="When a controller last registered, which it does at its start, by the log's time.",
        read=_booted,
        labels=("node_id",),
        origin=DERIVED,
        of=_595 + "BootTimestamp (struck out)",
    ),
    Measure(
        name="number_of_voters",
        words="Voters of the metadata partition: the committed set, or the leader's where the log holds none.",
        read=field("voters"),
        origin=SEEN,
        of=f"{_856}and {_853}number-of-voters, {_595}NumQuorumVoters (struck out)",
    ),
    Measure(
        name="number_of_observers",
        words="Observers that the leader hears, brokers among them.",
        read=length("current_observers"),
        origin=SEEN,
        of=_853 + "number-of-observers",
    ),
    Measure(
        name="number_of_possible_voters",
        words="Observers that could be promoted: registered controllers with a directory id.",
        read=length("could_be_voters"),
        origin=DERIVED,
        of=_856 + "number-of-possible-voters (never shipped)",
    ),
    Measure(
        name="number_of_offline_voters",
        words="Committed voters that do not fetch.",
        read=_offline,
        origin=DERIVED,
        of=_853 + "number-of-offline-voters (never shipped)",
    ),
    Measure(
        name="pending_add_voter",
        words="1 while the leader's voter set has a voter that the committed one has not, else 0.",
        read=_pending("added"),
        origin=DERIVED,
        of=_856 + "pending-add-voter (never shipped)",
    ),
    Measure(
        name="pending_remove_voter",
        words="1 while the committed voter set has a voter that the leader's has not, else 0.",
        read=_pending("removed"),
        origin=DERIVED,
        of=_856 + "pending-remove-voter (never shipped)",
    ),
    Measure(
        name="uncommitted_voter_change",
        words="1 while the leader's voter set is not the committed one, else 0. A changed endpoint alone is not seen.",
        read=_pending("added", "removed"),
        origin=DERIVED,
        of=_853 + "uncommitted-voter-change",
    ),
    Measure(
        name="ignored_static_voters",
        words="1 where voters come from the log and a controller.quorum.voters would be ignored, "
        "0 where they come from that configuration.",
        read=_dynamic,
        origin=DERIVED,
        of=_853 + "ignored-static-voters",
    ),
)

HIDDEN: Mapping[str, tuple[str, str]] = {
    "current_vote": ("current-vote", "for whom a node voted is in its quorum-state file alone"),
    "number_unknown_voter_connections": (
        "number-unknown-voter-connections",
        "a node's own cache; Kafka itself always exports 0",
    ),
    "poll_idle_ratio_avg": ("poll-idle-ratio-avg", "how idle a node's Raft thread is"),
    "inbound_requests_rate": ("InboundRequestPerSec (struck out)", "between the nodes"),
    "outbound_requests_rate": ("OutboundRequestPerSec (struck out)", "between the nodes"),
    "error_responses_rate": ("ErrorResponsePerSec (struck out)", "between the nodes"),
    "inbound_channel_size": ("InboundChannelSize (struck out)", "a node's own queue"),
    "outbound_channel_size": ("OutboundChannelSize (struck out)", "a node's own queue"),
    "total_time": ("TotalTimeMs (struck out)", "how long a node took for a request"),
    "inbound_queue_time": ("InboundQueueTimeMs (struck out)", "a node's own queue"),
    "handle_time": ("HandleTimeMs (struck out)", "how long a node took for a request"),
    "outbound_queue_time": ("OutboundQueueTimeMs (struck out)", "a node's own queue"),
    "avg_idle_percent": ("AvgIdlePercent (struck out)", "how idle a node's threads are"),
}
"""What KIP-595 names and is not visible from outside: by our spelling the KIP's, and why."""
