"""`python -m tests.bench.scale_estimate`: what large fleets need, computed from the slopes in docs/performance.json.

The estimate is part of docs/scale.md, between two comments; `make bench` writes it.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tests.bench.markdown_table import number, table
from tests.bench.measured_sections import read_figures

CLUSTERS = (1_000, 10_000, 30_000, 100_000)
PARTITIONS_PER_CLUSTER = 1_000
BUSY = 0.7
"""The share of a core, or of a single-threaded process, that is planned for."""
RETENTION_H = 6
"""Hours that the relay's topic keeps."""
CORE_HOUR = 0.04
"""US dollars for an hour of one core with 4 GiB of memory: the order of the list prices of large clouds."""
_NEEDED = ("metadata", "jobs", "executors", "relay")
_BLOCK = re.compile(r"(?P<begin><!-- estimate -->\n).*?(?P<end><!-- /estimate -->)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSlopes:
    """What one cluster adds; CPU in milliseconds a second."""

    gather_ms: float
    executor_ms: float
    driver_ms: float
    memory_mb: float
    rows: float
    """Rows a second."""
    row_bytes: float
    """Payload bytes a second."""
    partition_bytes: float
    """Bytes of state for each partition."""
    batch_bytes: float
    """Bytes of state that a batch writes for each partition."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Returns the slopes between the two largest jobs and the two largest clusters that were measured."""
        small, large = list(stored["jobs"]["figures"].values())[-2:]
        more = large["clusters"] - small["clusters"]

        def slope(value: Any) -> float:
            return float((value(large) - value(small)) / more)

        rows = list(stored["metadata"]["figures"]["partitions"].items())[-2:]
        (fewer, smaller), (most, larger) = ((int(count), row) for count, row in rows)
        executors = list(stored["executors"]["figures"]["executors"].values())[-1]
        relay = stored["relay"]["figures"]
        return cls(
            gather_ms=1_000 * slope(lambda job: job["core"]["gatherer"]),
            executor_ms=executors["executors_cpu_ms"],
            driver_ms=executors["driver_cpu_ms"],
            memory_mb=max(0.0, slope(lambda job: job["memory_mb"])),
            rows=relay["rows_per_cluster_second"],
            row_bytes=relay["payload_bytes_per_cluster_second"],
            partition_bytes=(larger["state_bytes"] - smaller["state_bytes"]) / (most - fewer),
            batch_bytes=(larger["spark_state_bytes"] - smaller["spark_state_bytes"]) / (most - fewer),
        )

    def limits(self) -> list[tuple[float, str, str]]:
        """Returns how many clusters each part carries, what the part is, and what then helps; the smallest first."""
        per_core = 1_000 * BUSY
        return sorted(
            [
                (per_core / self.gather_ms, "one process that gathers", "relays"),
                (per_core / self.executor_ms, "one task that decodes and evaluates", "more `pipeline.partitions`"),
                (
                    per_core / self.driver_ms,
                    "the driver: planner, Java and delivery, as if they had one core",
                    "`source: kafka`: the executors read the topic themselves; beyond that, several jobs",
                ),
            ]
        )


def estimate(stored: Mapping[str, Any]) -> str:
    """Returns the text between the comments."""
    missing = [name for name in _NEEDED if name not in stored]
    if missing:
        return f"Not measured yet: `make bench ONLY={','.join(missing)}`\n"
    slopes = ScaleSlopes.of(stored)
    rows = [[what, *values] for what, values in _needs(slopes)]
    first = slopes.limits()[0]
    commits = ", ".join(dict.fromkeys(stored[name]["measured"]["commit"] for name in _NEEDED))
    lines = [
        *table(["what one cluster adds", "a second"], _slope_rows(slopes)),
        *table(["clusters", *(f"{clusters:,}" for clusters in CLUSTERS)], rows),
        *table(
            ["part", "clusters", "then"], [[what, round(clusters), then] for clusters, what, then in slopes.limits()]
        ),
        f"First, at about {round(first[0]):,} clusters: {first[1]} is then busy for {BUSY:.0%} of the time.",
        "",
        f"Computed from docs/performance.json (commit {commits}), for {PARTITIONS_PER_CLUSTER:,} partitions in each",
        f"cluster, at most {BUSY:.0%} of a core in use, and ${CORE_HOUR} for a core and 4 GiB for an hour. The slopes",
        "are those of a machine whose cores all processes share: several machines add network and lose contention.",
        "Nothing beyond the largest measured job was run.",
        "",
    ]
    return "\n".join(lines)


def scale_page(text: str, stored: Mapping[str, Any]) -> str:
    """Returns docs/scale.md with the estimate."""
    assert _BLOCK.search(text), "docs/scale.md has no <!-- estimate -->"
    return _BLOCK.sub(lambda found: f"{found['begin']}{estimate(stored)}{found['end']}", text)


def _slope_rows(slopes: ScaleSlopes) -> Sequence[Sequence[Any]]:
    return [
        ["gathering", f"{slopes.gather_ms:.2f} ms of CPU time"],
        ["decoding and evaluation, on the executors", f"{slopes.executor_ms:.2f} ms"],
        ["planning, committing and delivery, on the driver", f"{slopes.driver_ms:.2f} ms"],
        ["observations", f"{number(slopes.rows)} rows, {number(slopes.row_bytes)} bytes of payload"],
        ["memory of all processes", f"{number(slopes.memory_mb)} MB"],
        ["state, for each partition", f"{number(slopes.partition_bytes)} bytes"],
        ["state written by a batch, for each partition", f"{number(slopes.batch_bytes)} bytes"],
    ]


def _needs(slopes: ScaleSlopes) -> Sequence[tuple[str, Sequence[Any]]]:
    def each(what: Any) -> list[Any]:
        return [what(clusters) for clusters in CLUSTERS]

    def busy(ms: float) -> list[int]:
        return each(lambda clusters: max(1, math.ceil(clusters * ms / 1_000 / BUSY)))

    cores = [
        sum(parts) for parts in zip(*map(busy, (slopes.gather_ms, slopes.executor_ms, slopes.driver_ms)), strict=True)
    ]
    state = PARTITIONS_PER_CLUSTER * slopes.partition_bytes
    return [
        ("processes that gather", busy(slopes.gather_ms)),
        ("executors of one core = partitions of the pipeline", busy(slopes.executor_ms)),
        ("cores of drivers", busy(slopes.driver_ms)),
        ("cores", cores),
        ("memory, GB", each(lambda clusters: round(1 + clusters * slopes.memory_mb / 1_000, 1))),
        ("rows a second", each(lambda clusters: round(clusters * slopes.rows))),
        ("relay topic, MB a second", each(lambda clusters: round(clusters * slopes.row_bytes / 1e6, 1))),
        (
            f"relay topic, GB in {RETENTION_H} hours",
            each(lambda clusters: round(clusters * slopes.row_bytes * 3_600 * RETENTION_H / 1e9)),
        ),
        ("partitions of the relay topic", busy(slopes.executor_ms)),
        ("journals, GB a day", each(lambda clusters: round(clusters * slopes.row_bytes * 86_400 / 1e9))),
        ("state, GB", each(lambda clusters: round(clusters * state / 1e9, 2))),
        ("dollars a month", [round(count * CORE_HOUR * 730) for count in cores]),
    ]


def main() -> None:
    """Prints the estimate."""
    print(estimate(read_figures()))


if __name__ == "__main__":
    main()
