"""docs/metrics.md, from streaming/metrics (`make goldens`)."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from streaming.metrics.batch_stats import BATCH_DURATION, DURATION_HELP
from streaming.metrics.job_metrics import GATHER_METRICS, JOB_METRICS, NOTIFICATION_METRICS
from streaming.metrics.metric_spec import CLUSTER, MetricSpec
from streaming.metrics.quorum_metrics import KIP_METRICS, QUORUM_METRICS
from streaming.metrics.relay_metrics import RELAY_METRICS

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
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
HEAD = """<!-- Written by `make goldens` from streaming/metrics: change those files. -->
# Metrics

`kraftwatch run --listen 127.0.0.1:9847` serves `/metrics` for Prometheus, in its text format or in OpenMetrics as
requested.

- **An unknown value is absent, never 0 or -1.** Metrics of the newest DescribeQuorum disappear when it has not been
  answered for 10 s; metrics of the log keep their last value. When the job has not evaluated a cluster for a minute,
  all of its quorum metrics disappear, and `kraftwatch_staleness_seconds` grows.
- **Dead man's switch**: `heartbeat` in the configuration, or the alert `KraftwatchWatchdog`, which always fires while
  `kraftwatch_watchdog` is 1.

## Prometheus, Alertmanager and Grafana

```yaml
scrape_configs:
  - job_name: kraftwatch
    scrape_interval: 15s
    static_configs:
      # An address, or the host name of --listen or page_url: the server answers 421 to any other name.
      - targets: ["127.0.0.1:9847"]
rule_files:
  - kraftwatch-health.rules.yml
  - kraftwatch-quorum.rules.yml
```

- With `listen_certfile` and `listen_token_file` ([The page](page.md)), the job needs `scheme: https`, `tls_config:
  {ca_file: FILE, server_name: NAME}` and `authorization: {credentials_file: FILE}`.
- [deploy/prometheus](../deploy/prometheus): `kraftwatch-health.rules.yml` is about kraftwatch itself
  ([runbook](runbook.md)). `kraftwatch-quorum.rules.yml` repeats kraftwatch's alerts for those who alert from metrics
  alone; the sink `alertmanager:URL` sends them with evidence and commands. In both files, replace
  `https://docs.example/kraftwatch` in `runbook_url`. `alertmanager.yml` is a sample with routes and inhibition.
- [deploy/grafana](../deploy/grafana): import `kraftwatch.json`, choose the Prometheus data source, and enter the
  address of kraftwatch's page.
"""
QUORUM_HEAD = """## Quorum metrics

The first are those of KIP-595, KIP-853 and KIP-856, in Prometheus spelling.
"""
NOT_VISIBLE = "Only the node's own JMX has:"
RELAY_HEAD = """## Metrics of the relay

`kraftwatch relay --listen 127.0.0.1:9848` serves these ([Relay](relay.md)).
"""
OWN_HEAD = """## Metrics about kraftwatch
"""


def line(spec: MetricSpec[Any], *, cluster: bool) -> str:
    """Returns the table row of one metric."""
    labels = [CLUSTER, *spec.labels] if cluster else spec.labels
    name = f"`{spec.full_name}{{{','.join(labels)}}}`" if labels else f"`{spec.full_name}`"
    cells = [name, spec.help]
    return f"| {' | '.join(cells)} |"


def table(head: str, rows: Iterable[str]) -> str:
    """Returns a table; `head` names its columns."""
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *rows, ""])


def page() -> str:
    """Returns the whole page."""
    durations = f"| `{BATCH_DURATION}` | {DURATION_HELP} A histogram. |"
    return "\n".join(
        [
            HEAD,
            QUORUM_HEAD,
            table("| metric | what it is |", (line(one, cluster=True) for one in (*KIP_METRICS, *QUORUM_METRICS))),
            f"{NOT_VISIBLE} {', '.join(HIDDEN_METRICS.values())}.\n",
            OWN_HEAD,
            table(
                "| metric | what it is |",
                (
                    *(line(one, cluster=False) for one in (*JOB_METRICS, *GATHER_METRICS, *NOTIFICATION_METRICS)),
                    durations,
                ),
            ),
            RELAY_HEAD,
            table("| metric | what it is |", (line(one, cluster=False) for one in RELAY_METRICS)),
        ]
    )
