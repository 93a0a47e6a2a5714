"""The tables of docs/metrics.md, from streaming/metrics."""

from collections.abc import Mapping
from typing import Any

from streaming.metrics.batch_stats import BATCH_DURATION, DURATION_HELP
from streaming.metrics.job_metrics import GATHER_METRICS, JOB_METRICS, NOTIFICATION_METRICS
from streaming.metrics.metric_spec import CLUSTER, MetricSpec
from streaming.metrics.quorum_metrics import KIP_METRICS, QUORUM_METRICS
from streaming.metrics.relay_metrics import RELAY_METRICS
from tests.page_tables import DOCS, table, with_tables

PAGE = DOCS / "metrics.md"
HIDDEN_METRICS: Mapping[str, str] = {
    "current_vote": "current-vote",
    "number_unknown_voter_connections": "number-unknown-voter-connections",
    "poll_idle_ratio_avg": "poll-idle-ratio-avg",
    "inbound_requests_rate": "InboundRequestPerSec",
    "outbound_requests_rate": "OutboundRequestPerSec",
    "error_responses_rate": "ErrorResponsePerSec",
    "inbound_channel_size": "InboundChannelSize",
    "outbound_channel_size": "OutboundChannelSize",
    "total_time": "TotalTimeMs",
    "inbound_queue_time": "InboundQueueTimeMs",
    "handle_time": "HandleTimeMs",
    "outbound_queue_time": "OutboundQueueTimeMs",
    "avg_idle_percent": "AvgIdlePercent",
}
"""Metrics that KIP-595 names (from InboundRequestPerSec on: struck out) and that only the node itself has."""


def line(spec: MetricSpec[Any], *labels: str) -> str:
    """Returns the table row of one metric; `labels` come before its own."""
    every = [*labels, *spec.labels]
    name = f"{spec.full_name}{{{','.join(every)}}}" if every else spec.full_name
    return f"| `{name}` | {spec.help} |"


def page() -> str:
    """Returns the whole page."""
    head = "| metric | what it is |"
    durations = f"| `{BATCH_DURATION}` | {DURATION_HELP} A histogram. |"
    own = (*JOB_METRICS, *GATHER_METRICS, *NOTIFICATION_METRICS)
    return with_tables(
        PAGE,
        {
            "quorum": table(head, [line(one, CLUSTER) for one in (*KIP_METRICS, *QUORUM_METRICS)]),
            "not-visible": f"Only the node's own JMX has: {', '.join(HIDDEN_METRICS.values())}.\n",
            "own": table(head, [*map(line, own), durations]),
            "relay": table(head, map(line, RELAY_METRICS)),
        },
    )
