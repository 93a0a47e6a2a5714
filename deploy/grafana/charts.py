"""The charts of the dashboard, in rows: of the clusters, and of kraftwatch itself (`OWN_CHARTS`).

`$cluster` is the selection at the top. An unknown value is absent, so a gap in a line means unknown, never 0.
"""

from dataclasses import dataclass
from enum import Enum

THIRD, HALF, WHOLE = 8, 12, 24


class ChartForm(Enum):
    """The form of a chart."""

    LINES = "lines"
    STATES = "states"
    """A bar for each series that changes colour with its value."""
    NUMBER = "number"
    """The newest value, large."""
    TABLE = "table"
    """A row for each cluster, a column for each query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartQuery:
    """One Prometheus query."""

    expr: str
    legend: str
    """The name of its series, with labels in `{{ }}`; in a table the name of the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One panel."""

    title: str
    description: str
    """What the chart shows and what to do about it."""
    queries: tuple[ChartQuery, ...]
    form: ChartForm = ChartForm.LINES
    width: int = THIRD
    unit: str = "short"
    """Grafana's name of the unit: short, s, bytes, percentunit."""
    steps: tuple[tuple[float | None, str], ...] = ()
    """Colours, each from a value on; the first one has no value."""
    values: tuple[tuple[str, str, str], ...] = ()
    """Value, text and colour."""


OK_BELOW = ((None, "green"), (1, "red"))
OF_CLUSTER = '{cluster=~"$cluster"}'
YES_IS_BAD = (("0", "no", "green"), ("1", "yes", "red"))

OF_VOTERS = '{cluster=~"$cluster", role="voter"}'
OF_OBSERVERS = '{cluster=~"$cluster", role="observer"}'
NODE = "{{cluster}} {{node_id}}"

BATCHES = "kraftwatch_batch_duration_seconds"

OWN_CHARTS = (
    Chart(
        title="Age of the data",
        description="Time since a leader last answered. A stale cluster is unknown, not healthy.",
        queries=(ChartQuery(expr=f"kraftwatch_staleness_seconds{OF_CLUSTER}", legend="{{cluster}}"),),
        unit="s",
    ),
    Chart(
        title="Lag behind the log",
        description="Age of the newest applied record. An idle log gets a record twice a second.",
        queries=(ChartQuery(expr=f"kraftwatch_log_lag_seconds{OF_CLUSTER}", legend="{{cluster}}"),),
        unit="s",
    ),
    Chart(
        title="Micro-batches",
        description="From Spark's call to the end of delivery.",
        queries=(
            ChartQuery(
                expr=f"histogram_quantile(0.9, sum by (instance, le) (rate({BATCHES}_bucket[5m])))",
                legend="{{instance}} p90",
            ),
            ChartQuery(
                expr=f"rate({BATCHES}_sum[5m]) / rate({BATCHES}_count[5m])",
                legend="{{instance}} average",
            ),
        ),
        unit="s",
    ),
    Chart(
        title="Failed observations",
        description="Per second, by data source and reason. `kraftwatch doctor` shows what is missing.",
        queries=(
            ChartQuery(
                expr=f"sum by (cluster, source, reason) (rate(kraftwatch_gather_errors_total{OF_CLUSTER}[5m])) > 0",
                legend="{{cluster}} {{source}} {{reason}}",
            ),
        ),
        width=HALF,
    ),
    Chart(
        title="Rules with an unknown result",
        description="Evidence is missing: unknown is not healthy.",
        queries=(
            ChartQuery(
                expr=f"sum by (cluster, rule) (kraftwatch_cannot_tell{OF_CLUSTER})", legend="{{cluster}} {{rule}}"
            ),
        ),
        form=ChartForm.STATES,
        width=HALF,
        steps=((None, "orange"),),
    ),
    Chart(
        title="Pending alerts by sink",
        description="The ledger keeps them until the sink accepts them.",
        queries=(ChartQuery(expr="kraftwatch_sink_pending_alerts", legend="{{sink}}"),),
    ),
    Chart(
        title="Failing sinks",
        description="kraftwatch's log shows the reason.",
        queries=(ChartQuery(expr="kraftwatch_sink_failing", legend="{{sink}}"),),
        form=ChartForm.STATES,
        values=YES_IS_BAD,
    ),
    Chart(
        title="Quarantine",
        description="Skipped data and damaged states per hour: kraftwatch does not know what they changed.",
        queries=(ChartQuery(expr=f"increase(kraftwatch_quarantined_total{OF_CLUSTER}[1h])", legend="{{cluster}}"),),
        steps=OK_BELOW,
    ),
    Chart(
        title="Requests",
        description="Per second and cluster: at most 20, about 5 for an idle cluster.",
        queries=(ChartQuery(expr=f"rate(kraftwatch_gather_requests_total{OF_CLUSTER}[5m])", legend="{{cluster}}"),),
    ),
    Chart(
        title="Journal",
        description="Its size on the disk.",
        queries=(ChartQuery(expr="kraftwatch_journal_bytes", legend="{{instance}}"),),
        unit="bytes",
    ),
    Chart(
        title="Version",
        description="Versions in use.",
        queries=(ChartQuery(expr="count by (version) (kraftwatch_build_info)", legend="{{version}}"),),
        form=ChartForm.NUMBER,
    ),
)

FLEET = (
    Chart(
        title="Critical",
        description="Firing alerts: act now. kraftwatch's sinks received them with evidence and remedy.",
        queries=(
            ChartQuery(
                expr='sum(kraftwatch_alerts_firing{cluster=~"$cluster", severity="critical"})', legend="critical"
            ),
        ),
        form=ChartForm.NUMBER,
        width=4,
        steps=OK_BELOW,
    ),
    Chart(
        title="Warning",
        description="Firing alerts: act today.",
        queries=(
            ChartQuery(expr='sum(kraftwatch_alerts_firing{cluster=~"$cluster", severity="warning"})', legend="warning"),
        ),
        form=ChartForm.NUMBER,
        width=4,
        steps=((None, "green"), (1, "orange")),
    ),
    Chart(
        title="Firing alerts",
        description="By cluster and rule: `kraftwatch explain RULE` prints meaning and remedy. Empty means healthy, "
        "unless the data is stale.",
        queries=(
            ChartQuery(
                expr=f"sum by (cluster, rule, severity) (kraftwatch_rule_firing{OF_CLUSTER})",
                legend="{{cluster}}: {{rule}} ({{severity}})",
            ),
        ),
        form=ChartForm.STATES,
        width=16,
        steps=((None, "orange"),),
    ),
    Chart(
        title="Clusters",
        description="Each cluster now. An empty cell means unknown.",
        queries=(
            ChartQuery(expr=f"sum by (cluster) (kraftwatch_alerts_firing{OF_CLUSTER})", legend="alerts"),
            ChartQuery(expr=f"max by (cluster) (kraftwatch_current_leader{OF_CLUSTER})", legend="leader"),
            ChartQuery(expr=f"max by (cluster) (kraftwatch_current_epoch{OF_CLUSTER})", legend="epoch"),
            ChartQuery(expr=f"max by (cluster) (kraftwatch_number_of_voters{OF_CLUSTER})", legend="voters"),
            ChartQuery(expr=f"max by (cluster) (kraftwatch_voters_fetching{OF_CLUSTER})", legend="fetching"),
            ChartQuery(
                expr=f"min by (cluster) (kraftwatch_failure_tolerance{OF_CLUSTER})", legend="failures tolerated"
            ),
            ChartQuery(expr=f"max by (cluster) (kraftwatch_recovering_partitions{OF_CLUSTER})", legend="recovering"),
            ChartQuery(
                expr=f"max by (cluster) (kraftwatch_staleness_seconds{OF_CLUSTER})", legend="age of the data (s)"
            ),
        ),
        form=ChartForm.TABLE,
        width=WHOLE,
    ),
)

QUORUM = (
    Chart(
        title="Leader",
        description="Node id of the leader. A gap means that no leader answers.",
        queries=(ChartQuery(expr=f"kraftwatch_current_leader{OF_CLUSTER}", legend="{{cluster}}"),),
        form=ChartForm.STATES,
        width=HALF,
    ),
    Chart(
        title="No leader",
        description="A node reports that no controller leads, or all refuse connections. An election takes seconds.",
        queries=(ChartQuery(expr=f"kraftwatch_leaderless{OF_CLUSTER}", legend="{{cluster}}"),),
        form=ChartForm.STATES,
        width=HALF,
        values=YES_IS_BAD,
    ),
    Chart(
        title="Failure tolerance",
        description="How many more voters may fail. At 0 the next failure stops commits; below 0 it has happened.",
        queries=(ChartQuery(expr=f"kraftwatch_failure_tolerance{OF_CLUSTER}", legend="{{cluster}}"),),
        steps=((None, "red"), (1, "green")),
    ),
    Chart(
        title="Voters",
        description="`needed` is the majority of all voters, including those that are down.",
        queries=(
            ChartQuery(expr=f"kraftwatch_number_of_voters{OF_CLUSTER}", legend="{{cluster}} voters"),
            ChartQuery(expr=f"kraftwatch_voters_fetching{OF_CLUSTER}", legend="{{cluster}} fetching"),
            ChartQuery(expr=f"kraftwatch_votes_needed{OF_CLUSTER}", legend="{{cluster}} needed"),
            ChartQuery(expr=f"kraftwatch_number_of_offline_voters{OF_CLUSTER}", legend="{{cluster}} offline"),
        ),
    ),
    Chart(
        title="Epoch",
        description="Each step is an election. Many steps without a restart: see the rule epoch-churn.",
        queries=(ChartQuery(expr=f"kraftwatch_current_epoch{OF_CLUSTER}", legend="{{cluster}}"),),
    ),
    Chart(
        title="Recorded voter endpoints reachable",
        description="Other controllers connect to these endpoints after a restart. `no` may prevent the next election.",
        queries=(ChartQuery(expr=f"kraftwatch_voter_endpoint_ok{OF_CLUSTER}", legend=NODE),),
        form=ChartForm.STATES,
        width=HALF,
        values=(("0", "no", "red"), ("1", "yes", "green")),
    ),
    Chart(
        title="Uncommitted voter change",
        description="Pending for longer than a minute: see the rule voter-change-stuck.",
        queries=(
            ChartQuery(expr=f"kraftwatch_uncommitted_voter_change{OF_CLUSTER}", legend="{{cluster}} any"),
            ChartQuery(expr=f"kraftwatch_pending_add_voter{OF_CLUSTER}", legend="{{cluster}} add"),
            ChartQuery(expr=f"kraftwatch_pending_remove_voter{OF_CLUSTER}", legend="{{cluster}} remove"),
        ),
        form=ChartForm.STATES,
        width=HALF,
        values=(("0", "no", "green"), ("1", "yes", "orange")),
    ),
    Chart(
        title="Observers",
        description="Possible voters are controllers that fetch as observers: see the rule observer-could-be-voter.",
        queries=(
            ChartQuery(expr=f"kraftwatch_number_of_observers{OF_CLUSTER}", legend="{{cluster}} observers"),
            ChartQuery(expr=f"kraftwatch_number_of_possible_voters{OF_CLUSTER}", legend="{{cluster}} possible voters"),
        ),
        width=THIRD,
    ),
    Chart(
        title="Recovering partitions",
        description="After an unclean election (KIP-704). Kafka has no metric of them.",
        queries=(ChartQuery(expr=f"kraftwatch_recovering_partitions{OF_CLUSTER}", legend="{{cluster}}"),),
    ),
    Chart(
        title="Fenced brokers",
        description="Registered brokers whose heartbeats the active controller does not receive.",
        queries=(
            ChartQuery(expr=f"kraftwatch_fenced_brokers{OF_CLUSTER}", legend="{{cluster}} fenced"),
            ChartQuery(expr=f"kraftwatch_registered_brokers{OF_CLUSTER}", legend="{{cluster}} registered"),
        ),
    ),
)

LOG = (
    Chart(
        title="Voter lag",
        description="Records of the leader's log that a voter has not fetched. A lagging voter delays commits.",
        queries=(ChartQuery(expr=f"kraftwatch_replica_lag_records{OF_VOTERS}", legend=NODE),),
        width=HALF,
    ),
    Chart(
        title="Voter lag time",
        description="Time since a voter was last caught up, by the leader's clock. Half a second is normal.",
        queries=(ChartQuery(expr=f"kraftwatch_replica_lag_seconds{OF_VOTERS}", legend=NODE),),
        width=HALF,
        unit="s",
    ),
    Chart(
        title="Largest observer lag times",
        description="Brokers and controllers that are observers: a lagging broker works with old metadata.",
        queries=(ChartQuery(expr=f"topk(10, kraftwatch_replica_lag_seconds{OF_OBSERVERS})", legend=NODE),),
        width=HALF,
        unit="s",
    ),
    Chart(
        title="Appended, fetched and committed",
        description="Records per second. Appended but not committed: see the rule high-watermark-stalled.",
        queries=(
            ChartQuery(expr=f"kraftwatch_append_records_rate{OF_CLUSTER}", legend="{{cluster}} appended"),
            ChartQuery(
                expr=f"max by (cluster) (kraftwatch_fetch_records_rate{OF_CLUSTER})", legend="{{cluster}} fetched"
            ),
            ChartQuery(expr=f"deriv(kraftwatch_high_watermark{OF_CLUSTER}[2m])", legend="{{cluster}} committed"),
        ),
        width=HALF,
    ),
    Chart(
        title="Commit latency",
        description="How long a majority lagged behind the leader, polled once a second: an estimate.",
        queries=(
            ChartQuery(expr=f"kraftwatch_commit_latency_max_seconds{OF_CLUSTER}", legend="{{cluster}} longest"),
            ChartQuery(expr=f"kraftwatch_commit_latency_avg_seconds{OF_CLUSTER}", legend="{{cluster}} average"),
        ),
        width=HALF,
        unit="s",
    ),
    Chart(
        title="Election latency",
        description="Duration of the elections of the last 10 minutes.",
        queries=(
            ChartQuery(expr=f"kraftwatch_election_latency_max_seconds{OF_CLUSTER}", legend="{{cluster}} longest"),
        ),
        width=HALF,
        unit="s",
    ),
)

ROWS = (
    ("Clusters", FLEET),
    ("Quorum", QUORUM),
    ("Metadata log", LOG),
    ("kraftwatch itself", OWN_CHARTS),
)
