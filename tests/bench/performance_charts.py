"""The pictures of docs/performance.md, from the figures of its sections."""

from collections.abc import Mapping
from typing import Any

from tests.bench.line_chart import Axis, LineChart

Figures = Mapping[str, Any]


def latency_charts(figures: Figures) -> dict[str, LineChart]:
    """Returns the distribution of the latency."""
    values = figures["distribution_ms"]
    chart = LineChart(
        title="Latency: record in the log -> HTTP sink called",
        x=Axis(label="milliseconds"),
        y=Axis(label="percent of events that are faster"),
        series={f"{figures['events']} events": [(value, 2.0 * part) for part, value in enumerate(values)]},
        dots=False,
    )
    return {"bench-latency.svg": chart}


def metadata_charts(figures: Figures) -> dict[str, LineChart]:
    """Returns time and state by partitions."""
    rows = {int(count): row for count, row in figures["partitions"].items()}
    axis = Axis(label="partitions of the cluster", logarithmic=True)
    time = LineChart(
        title="One batch with 10 changed partitions",
        x=axis,
        y=Axis(label="milliseconds", logarithmic=True),
        series={
            "with Spark, p50": [(count, row["spark_batch_ms"]["p50"]) for count, row in rows.items()],
            "CPU of Spark's processes": [(count, row["spark_batch_cpu_ms"]) for count, row in rows.items()],
            "CPU of decode and step": [(count, row["batch_cpu_ms"]) for count, row in rows.items()],
        },
    )
    state = LineChart(
        title="The state of the cluster",
        x=axis,
        y=Axis(label="bytes", logarithmic=True),
        series={
            "state": [(count, row["state_bytes"]) for count, row in rows.items()],
            "written by a batch": [(count, row["spark_state_bytes"]) for count, row in rows.items()],
        },
    )
    return {"bench-partitions-time.svg": time, "bench-partitions-state.svg": state}


def jobs_charts(figures: Figures) -> dict[str, LineChart]:
    """Returns the time of a batch by clusters."""
    measured = [row for row in figures.values() if None not in (row["batch_ms"]["p99"], row["age_ms"]["p99"])]
    chart = LineChart(
        title="One micro-batch of the whole job",
        x=Axis(label="clusters", logarithmic=True),
        y=Axis(label="milliseconds", logarithmic=True),
        series={
            f"batch {name}": [(row["clusters"], row["batch_ms"][name]) for row in measured] for name in ("p50", "p99")
        }
        | {"age of an alert p99": [(row["clusters"], row["age_ms"]["p99"]) for row in measured]},
    )
    return {"bench-clusters.svg": chart}
