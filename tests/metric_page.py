"""`python -m tests.metric_page` (`make goldens`): writes docs/metrics.md from the measures themselves."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streaming.metrics.batch_stats import BATCH_DURATION, DURATION_WORDS
from streaming.metrics.gather_metrics import SIGHT
from streaming.metrics.job_metrics import WORK
from streaming.metrics.kip_metrics import HIDDEN, OF_KIPS
from streaming.metrics.metric import CLUSTER, Measure, Origin
from streaming.metrics.notification_metrics import TELLING
from streaming.metrics.quorum_metrics import BEYOND

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
HEAD = """<!-- Written by `make goldens` from streaming/metrics: change those. -->
# Metrics

`kraftwatch run --listen 127.0.0.1:9847` serves `/metrics` for Prometheus: its text format, and OpenMetrics where that
is asked for.

- **What is not known is absent, and never 0 or -1.** What a leader says (replicas, lag, who takes part) goes when
  DescribeQuorum has not been answered for 10 s; what the log said (voters, votes needed, high watermark) stays as it
  was last seen. When the job has not judged a cluster for a minute all of it goes, and `kraftwatch_staleness_seconds`
  stays.
- **Labels are few.** A node's id and directory id, `voter` or `observer`, a rule, a sink. No partition, topic, host or
  subject is a label: thousands of partitions in recovery are one number.
- **A dead man's switch**: `heartbeat: {url: ..., every: 60}` in the configuration asks a URL (of healthchecks.io, Dead
  Man's Snitch or the like) as long as batches end and the gatherer runs. `kraftwatch_watchdog` is the same for whoever
  has Prometheus: the alert `KraftwatchWatchdog` fires always, and its silence is the alarm.

## With Prometheus, Alertmanager and Grafana

```yaml
scrape_configs:
  - job_name: kraftwatch
    scrape_interval: 15s
    static_configs:
      # By address, or by the name of --listen or page_url: others are refused with 421, as a lured browser is.
      - targets: ["127.0.0.1:9847"]
rule_files:
  - kraftwatch.rules.yml
```

- [deploy/prometheus](../deploy/prometheus) holds the alert rules: is kraftwatch gone, stuck, blind, behind, not heard;
  and what it says of the clusters, for those who want all alerts in one place. They are tested with promtool. To let
  kraftwatch speak to Alertmanager itself, with evidence and commands, use its sink `alertmanager:URL` instead of the
  group `kraftwatch-says`.
- In Alertmanager, route `alertname="KraftwatchWatchdog"` to a receiver that alarms when it hears nothing, every 5 min.
- [deploy/grafana](../deploy/grafana) holds a dashboard, `kraftwatch.json`: import it and choose the Prometheus.
"""
KIPS = """## The quorum, under the KIPs' names

Every metric that KIP-595, KIP-853 and KIP-856 name, in Prometheus' spelling: dashes become underscores, durations are
seconds. **Seen**: it stands in an answer or a record. **Derived**: worked out of what is seen, as the words say.
"""
OUT_OF_SIGHT = """### Not visible from outside

They never leave the node that counts them: its own JMX tells them where Kafka has them at all. There is no such metric
here.
"""
BEYOND_HEAD = """## The quorum, beyond the KIPs
"""
OWN_HEAD = """## kraftwatch itself
"""


def line(measure: Measure[Any], *, cluster: bool) -> str:
    """The row of one metric."""
    labels = [CLUSTER, *measure.labels] if cluster else measure.labels
    shown = f"`{measure.full_name}{{{', '.join(labels)}}}`" if labels else f"`{measure.full_name}`"
    cells = [shown, measure.words]
    if measure.origin is not Origin.OWN:
        cells.append(measure.origin.value)
    if measure.of:
        cells.append(measure.of)
    return f"| {' | '.join(cells)} |"


def table(head: str, rows: Iterable[str]) -> str:
    """A table whose head names its columns."""
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *rows, ""])


def page() -> str:
    """The whole page."""
    durations = f"| `{BATCH_DURATION}` | {DURATION_WORDS} A histogram. |"
    return "\n".join(
        [
            HEAD,
            KIPS,
            table("| metric | what it is | how | named by |", (line(one, cluster=True) for one in OF_KIPS)),
            OUT_OF_SIGHT,
            table(
                "| metric | how | named by | why |",
                (
                    f"| `{name}` | {Origin.HIDDEN.value} | KIP-595 {theirs} | {why} |"
                    for name, (theirs, why) in HIDDEN.items()
                ),
            ),
            BEYOND_HEAD,
            table("| metric | what it is | how |", (line(one, cluster=True) for one in BEYOND)),
            OWN_HEAD,
            table(
                "| metric | what it is |",
                (*(line(one, cluster=False) for one in (*WORK, *SIGHT, *TELLING)), durations),
            ),
        ]
    )


def main() -> int:
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
