"""The dashboard's charts about kraftwatch itself: age of its data, its lag, its sinks."""

from deploy.grafana.chart import HALF, OF_CLUSTER, OK_BELOW, YES_IS_BAD, Chart, ChartForm, ChartQuery

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
