"""`python -m tests.metric_page` (`make goldens`): writes docs/metrics.md from streaming/metrics."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streaming.metrics.batch_stats import BATCH_DURATION, DURATION_HELP
from streaming.metrics.gather_metrics import GATHER_METRICS
from streaming.metrics.job_metrics import JOB_METRICS
from streaming.metrics.kip_metrics import HIDDEN_METRICS, KIP_METRICS
from streaming.metrics.metric_spec import CLUSTER, MetricSpec, Origin
from streaming.metrics.notification_metrics import NOTIFICATION_METRICS
from streaming.metrics.quorum_metrics import QUORUM_METRICS
from streaming.metrics.relay_metrics import RELAY_METRICS

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
HEAD = """<!-- Written by `make goldens` from streaming/metrics: change those files. -->
# Metrics

`kraftwatch run --listen 127.0.0.1:9847` serves `/metrics` for Prometheus, in its text format or in OpenMetrics as
requested.

- **An unknown value is absent, never 0 or -1.** Metrics of the newest DescribeQuorum (replicas, lag, voters that fetch)
  disappear when it has not been answered for 10 s. Metrics of the log (voters, votes needed, high watermark) keep their
  last value. When the job has not evaluated a cluster for a minute, all of its metrics disappear except
  `kraftwatch_staleness_seconds`.
- **There are few labels**: node id and directory id, `voter` or `observer`, rule, sink. Partitions, topics, hosts and
  subjects are not labels: thousands of recovering partitions are one sample.
- **Dead man's switch**: with `heartbeat: {url: ..., every: 60}` in the configuration, the job requests a URL (of
  healthchecks.io, Dead Man's Snitch or a similar service) while batches complete and the gatherer runs. With
  Prometheus, `kraftwatch_watchdog` does the same: the alert `KraftwatchWatchdog` always fires; if it stops, kraftwatch
  is down.

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

- With `listen_certfile` and `listen_token_file` ([The page](page.md)), the job in `scrape_configs` needs
  `scheme: https`, `tls_config: {ca_file: FILE, server_name: NAME}` and `authorization: {credentials_file: FILE}`.
- [deploy/prometheus](../deploy/prometheus) holds two files with alert rules, tested with promtool.
  `kraftwatch-health.rules.yml` reports that kraftwatch is down, stuck, blind, lagging, or cannot notify a sink: the
  [runbook](runbook.md) says what to do. `kraftwatch-quorum.rules.yml` repeats kraftwatch's alerts about the quorums,
  with the same severities, for those who alert from metrics alone; leave it out where kraftwatch's own sinks reach
  people. To send alerts to Alertmanager directly, with evidence and commands, use the sink `alertmanager:URL`
  instead. In both files, replace `https://docs.example/kraftwatch` in `runbook_url` by the address of your copy of
  the documentation.
- `alertmanager.yml` beside them is a sample: critical alerts to a pager, the others to a chat, `KraftwatchWatchdog`
  to a receiver that alarms when no notification arrives for 5 min, and each consequence inhibited while its cause
  fires, as in kraftwatch itself.
- [deploy/grafana](../deploy/grafana) holds the dashboard `kraftwatch.json`: import it, choose the Prometheus data
  source, and enter the address of kraftwatch's page, to which the dashboard and its table link. Firing critical and
  warning alerts are annotations of the charts.
"""
KIPS = """## Quorum metrics that KIPs name

Every metric that KIP-595, KIP-853 and KIP-856 name, in Prometheus spelling: underscores instead of dashes, durations in
seconds. **Observed**: a response or a record holds the value. **Derived**: kraftwatch computes it as described.
"""
NOT_VISIBLE = """### Not visible from outside

Only the node's own JMX has these metrics, where Kafka implements them at all. kraftwatch does not export them.
"""
QUORUM_HEAD = """## Further quorum metrics
"""
RELAY_HEAD = """## Metrics of the relay

`kraftwatch relay --listen 127.0.0.1:9848` serves these ([Relay](relay.md)).
"""
OWN_HEAD = """## Metrics about kraftwatch
"""


def line(spec: MetricSpec[Any], *, cluster: bool) -> str:
    """Returns the table row of one metric."""
    labels = [CLUSTER, *spec.labels] if cluster else spec.labels
    name = f"`{spec.full_name}{{{', '.join(labels)}}}`" if labels else f"`{spec.full_name}`"
    cells = [name, spec.help]
    if spec.origin is not Origin.OWN:
        cells.append(spec.origin.value)
    if spec.named_by:
        cells.append(spec.named_by)
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
            KIPS,
            table("| metric | what it is | how | named by |", (line(one, cluster=True) for one in KIP_METRICS)),
            NOT_VISIBLE,
            table(
                "| metric | how | named by | why |",
                (
                    f"| `{name}` | {Origin.HIDDEN.value} | KIP-595 {theirs} | {why} |"
                    for name, (theirs, why) in HIDDEN_METRICS.items()
                ),
            ),
            QUORUM_HEAD,
            table("| metric | what it is | how |", (line(one, cluster=True) for one in QUORUM_METRICS)),
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


def main() -> int:
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
