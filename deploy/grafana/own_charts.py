"""The dashboard's charts of kraftwatch itself: does it see, does it keep up, is it heard."""

from deploy.grafana.chart import HALF, OF_CLUSTER, OK_BELOW, YES_IS_BAD, Ask, Chart, Look

BATCHES = "kraftwatch_batch_duration_seconds"

OWN = (
    Chart(
        title="Seen before",
        words="How long ago a leader last answered us. What is stale is not well: nobody can tell.",
        asks=(Ask(expr=f"kraftwatch_staleness_seconds{OF_CLUSTER}", legend="{{cluster}}"),),
        unit="s",
    ),
    Chart(
        title="Behind the log",
        words="Age of the newest record that was applied. An idle log grows twice a second.",
        asks=(Ask(expr=f"kraftwatch_log_lag_seconds{OF_CLUSTER}", legend="{{cluster}}"),),
        unit="s",
    ),
    Chart(
        title="Micro-batches",
        words="From Spark's call to the end of delivery.",
        asks=(
            Ask(
                expr=f"histogram_quantile(0.9, sum by (instance, le) (rate({BATCHES}_bucket[5m])))",
                legend="{{instance}} nine in ten",
            ),
            Ask(
                expr=f"rate({BATCHES}_sum[5m]) / rate({BATCHES}_count[5m])",
                legend="{{instance}} average",
            ),
        ),
        unit="s",
    ),
    Chart(
        title="Looks that fail",
        words="A second, by what was to be seen and why not. `kraftwatch doctor` says what is missing.",
        asks=(
            Ask(
                expr=f"sum by (cluster, sight, reason) (rate(kraftwatch_gather_errors_total{OF_CLUSTER}[5m])) > 0",
                legend="{{cluster}} {{sight}} {{reason}}",
            ),
        ),
        width=HALF,
    ),
    Chart(
        title="Rules that cannot tell",
        words="For want of evidence: what is not known is not well.",
        asks=(Ask(expr=f"sum by (cluster, rule) (kraftwatch_cannot_tell{OF_CLUSTER})", legend="{{cluster}} {{rule}}"),),
        look=Look.STATES,
        width=HALF,
        steps=((None, "orange"),),
    ),
    Chart(
        title="Alerts that wait for a sink",
        words="They are safe in the ledger, and told when the sink is back.",
        asks=(Ask(expr="kraftwatch_sink_pending_alerts", legend="{{sink}}"),),
    ),
    Chart(
        title="Sinks that fail",
        words="kraftwatch's log says why.",
        asks=(Ask(expr="kraftwatch_sink_failing", legend="{{sink}}"),),
        look=Look.STATES,
        values=YES_IS_BAD,
    ),
    Chart(
        title="Quarantine",
        words="Records that did not decode, an hour: what they said is missing in what is shown.",
        asks=(Ask(expr=f"increase(kraftwatch_quarantined_total{OF_CLUSTER}[1h])", legend="{{cluster}}"),),
        steps=OK_BELOW,
    ),
    Chart(
        title="Requests",
        words="A second to each cluster: never more than 20, about 5 to an idle one.",
        asks=(Ask(expr=f"rate(kraftwatch_gather_requests_total{OF_CLUSTER}[5m])", legend="{{cluster}}"),),
    ),
    Chart(
        title="Journal",
        words="On the disk, beside the checkpoint.",
        asks=(Ask(expr="kraftwatch_journal_bytes", legend="{{instance}}"),),
        unit="bytes",
    ),
    Chart(
        title="Version",
        words="What runs.",
        asks=(Ask(expr="count by (version) (kraftwatch_build_info)", legend="{{version}}"),),
        look=Look.NUMBER,
    ),
)
