"""The tables of docs/performance.md, from the figures of its sections."""

from collections.abc import Mapping
from typing import Any

from tests.bench.markdown_table import number, table

Figures = Mapping[str, Any]
_COLLECTED = (
    "These figures are of an earlier bench: all three brokers were fenced, then unfenced. Half of the events changed",
    "an open incident, and `state written -> driver` contains the up to 1.2 s in which they were collected.",
    "",
)
"""For figures of a bench that did not yet measure the wait for a notification."""


def _spread(values: Figures) -> list[Any]:
    return [values.get(name) for name in ("p50", "p95", "p99", "max")]


def latency(figures: Figures) -> list[str]:
    """Returns the lines of the section `latency`."""
    rows = [
        ["**record -> sink called**", *_spread(figures["latency_ms"])],
        *([name, *_spread(values)] for name, values in figures["steps_ms"].items()),
        *([f"floor: {name}", *_spread(values)] for name, values in figures["spark_floor_ms"].items()),
        ["commit, as the controller's client sees it", *_spread(figures["admin_call_ms"])],
    ]
    floor = list(figures["spark_floor_ms"].values())[-1]["p50"]
    collected = "driver -> notification due" not in figures["steps_ms"]
    return [
        *table(["ms", "p50", "p95", "p99", "max"], rows),
        f"{figures['events']} events. The median is {figures['latency_ms']['p50'] / floor:.2f} times that of Spark's "
        "floor, measured in the minute after it.",
        "",
        *(_COLLECTED if collected else ()),
        "![The distribution of the latency](pictures/bench-latency.svg)",
        "",
    ]


def idle(figures: Figures) -> list[str]:
    """Returns the lines of the section `idle`."""
    rows = [[role, cost["cpu_percent"], cost["memory_mb"]] for role, cost in figures["processes"].items()]
    return [
        *table(["process", "% of a core", "MB"], [*rows, ["**all**", figures["cpu_percent"], figures["memory_mb"]]]),
        f"{number(figures['batches_per_s'])} micro-batches and {number(figures['requests_per_s'])} requests a second.",
        "",
    ]


def metadata(figures: Figures) -> list[str]:
    """Returns the lines of the section `metadata`."""
    partitions = [
        [
            f"{int(count):,}",
            row["load_cpu_ms"],
            row["batch_cpu_ms"],
            row["spark_batch_ms"]["p50"],
            row["spark_batch_cpu_ms"],
            row["state_bytes"],
            row["spark_state_bytes"],
        ]
        for count, row in figures["partitions"].items()
    ]
    clusters = [
        [
            f"{int(count):,}",
            row["second_ms"]["p50"],
            row["second_ms"]["max"],
            row["second_cpu_ms"],
            row["cluster_second_cpu_ms"],
            row["batches_per_second"],
        ]
        for count, row in figures["clusters"].items()
    ]
    heads = ("partitions", "snapshot, CPU ms", "decode and step, CPU ms", "batch, ms", "batch, CPU ms", "state, bytes")
    return [
        *table([*heads, "written by a batch, bytes"], partitions),
        "![The time of a batch by partitions](pictures/bench-partitions-time.svg)",
        "",
        "![The bytes of the state by partitions](pictures/bench-partitions-state.svg)",
        "",
        *table(["clusters", "a second's rows, ms", "slowest", "CPU ms", "CPU ms a cluster", "batches"], clusters),
    ]


def jobs(figures: Figures) -> list[str]:
    """Returns the lines of the section `jobs`."""
    rows = [
        [
            f"{row['clusters']:,}" + (f", {row['faulty']} faulty" if row["faulty"] else ""),
            f"{100 * sum(row['core'].values()):.0f} %",
            f"{1_000 * sum(row['core'].values()) / row['clusters']:.2f}",
            row["memory_mb"],
            *(row["batch_ms"][name] for name in ("p50", "p99")),
            *(row["age_ms"][name] for name in ("p50", "p99")),
            row["poll_late_ms"]["p99"],
            f"{row['missing']} of {row['changes']}",
            row.get("backlog_rows"),
        ]
        for row in figures.values()
    ]
    heads = ("clusters", "of a core", "CPU ms a cluster-second", "memory, MB", "batch p50, ms", "batch p99")
    roles = dict.fromkeys(role for row in figures.values() for role in row["core"])
    return [
        *table(
            [*heads, "age of an alert p50, ms", "p99", "polls late by p99, ms", "alerts missing", "rows waiting"], rows
        ),
        *table(
            ["of a core, %", *(f"{row['clusters']:,}" for row in figures.values())],
            [[role, *(100 * row["core"].get(role, 0.0) for row in figures.values())] for role in roles],
        ),
        "![The time of a batch by clusters](pictures/bench-clusters.svg)",
        "",
    ]


def executors(figures: Figures) -> list[str]:
    """Returns the lines of the section `executors`."""
    rows = [
        [
            int(count),
            row["partitions"],
            row["clusters_per_core"],
            row["executors_cpu_ms"],
            row["driver_cpu_ms"],
            " / ".join(f"{share} %" for share in row["cpu_share_percent"]),
            row["batch_ms"]["p50"],
            row["batch_ms"]["p99"],
            row["batches"],
        ]
        for count, row in figures["executors"].items()
    ]
    heads = ("executors", "partitions", "clusters per core", "executors, CPU ms a cluster-second", "driver")
    return [
        *table([*heads, "share of each executor", "batch p50, ms", "p99", "batches"], rows),
        f"{figures['clusters']} clusters, {figures['seconds']} s, {figures['rows']:,} rows; {figures['cores']} cores.",
        "",
    ]
