"""`python -m tests.bench.performance_page`: docs/performance.md and its pictures, from docs/performance.json.

Nothing on the page that is a measurement is written by hand.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.bench import performance_charts, performance_tables
from tests.bench.line_chart import LineChart
from tests.bench.markdown_table import tables_of
from tests.bench.measured_sections import ROOT, SECTIONS, read_figures
from tests.bench.scale_estimate import scale_page

DOCS = ROOT / "docs"
PAGE = DOCS / "performance.md"
SCALE = DOCS / "scale.md"
PICTURES = DOCS / "pictures"
_HEAD = """\
# Performance

Everything here is measured by one command, and the page is written from its figures (`docs/performance.json`):

```
make bench                   every section, about 25 minutes
make bench ONLY=latency      one section; the others stay as they are
```

Each section names the machine, the commit and the load average at its beginning and end. A `+` behind the commit: files
of the product differed from it. On a machine that does other work, compare ratios and CPU time, not durations. CPU time
is that of all processes that the text names, including their ended children.
"""
Figures = Mapping[str, Any]


def render(stored: Figures) -> str:
    """Returns the page."""
    return "\n".join([_HEAD, *(_section(section.name, stored) for section in SECTIONS)]).rstrip() + "\n"


def pictures(stored: Figures) -> dict[str, str]:
    """Returns the pictures by file name."""
    found: dict[str, str] = {}
    for name, draw in _CHARTS.items():
        if name in stored:
            found |= {file: chart.svg() for file, chart in draw(stored[name]["figures"]).items()}
    return found


def write_pages(stored: Figures, shown: str | None = None) -> str:
    """Writes the page, its pictures and the estimate in docs/scale.md; returns the text of one section."""
    PAGE.write_text(render(stored), encoding="utf-8")
    for file, svg in pictures(stored).items():
        (PICTURES / file).write_text(svg, encoding="utf-8")
    SCALE.write_text(scale_page(SCALE.read_text(encoding="utf-8"), stored), encoding="utf-8")
    return "" if shown is None else _section(shown, stored)


def _section(name: str, stored: Figures) -> str:
    title, text, lines = _TEXTS[name]
    command = f"make bench ONLY={name}"
    if name not in stored:
        return f"## {title}\n\n{text}\n\nNot measured yet: `{command}`\n"
    measured = stored[name]["measured"]
    runs = f"; medians of {measured['runs']} runs" if measured["runs"] > 1 else ""
    facts = (
        f"`{command}`, {measured['at']}, {measured['seconds']} s{runs}. {measured['machine']}; commit "
        f"{measured['commit']}; load average {measured['load']}."
    )
    return "\n".join([f"## {title}", "", text, "", *lines(stored[name]["figures"]), facts, ""])


_TEXTS: Mapping[str, tuple[str, str, Callable[[Figures], Sequence[str]]]] = {
    "latency": (
        "Latency of an alert",
        """\
From a record in the metadata log to the call of an HTTP sink, with holds at zero: a quorum of three controllers, the
job with its defaults, and three registered brokers that are fenced and unfenced at random moments, twice a second. The
clock starts at the timestamp of the record's batch: the leader has appended the record, and its replication is part of
the latency (a controller collects records for up to 25 ms before it appends them). The steps are read from the journal,
the checkpoint's files, the ledger and the alert. The floor is Spark with the job's session, trigger and source: from
the publication of a row until foreachBatch has collected it; once without Python stages and state, once with the job's
plan and functions that do nothing.

What happens within an open incident is collected for a minute ([alerts](alerts.md)). So one broker is fenced at a time:
each event begins or ends an incident and is sent at once, unless the section says otherwise.""",
        performance_tables.latency,
    ),
    "idle": (
        "The idle job",
        """\
One quorum of three controllers and two brokers, the defaults, over one minute. A page of memory that n processes share
counts 1/n for each.""",
        performance_tables.idle,
    ),
    "decode": (
        "Decoding and replay",
        "Peers are Kafka's own tools, run alternately with kraftwatch on the same files.",
        lambda figures: tables_of(figures, "what"),
    ),
    "metadata": (
        "A batch by partitions and by clusters",
        """\
Spark with rows that are made up, without gatherer and sinks. A batch of the first table holds one second of a cluster
in which 10 partitions change; decode and step are measured in one process, the batch from the publication of its rows
until they are collected. The rows of the second table are one second of healthy, quiet clusters.""",
        performance_tables.metadata,
    ),
    "million": (
        "A controller with a million partitions",
        "A real controller that starts on a snapshot, the real job, and 10 changes a second; and a small cluster.",
        lambda figures: tables_of(figures, "cluster"),
    ),
    "jobs": (
        "The whole job by clusters",
        """\
Gatherer, Spark, an HTTP sink and a file of alerts, against a farm of clusters in a process of its own that is not part
of the figures. With 100 clusters or more, one hangs, one answers with random bytes, ten elect leaders all the time and
one begins with a snapshot of 8,000 partitions; times are those of the others. The age of an alert is from the change of
the cluster to its line in the file, with holds at zero.""",
        performance_tables.jobs,
    ),
    "executors": (
        "Executors of a Spark cluster",
        """\
A backlog of real rows on a standalone cluster: each executor is a Java process with one core of its own, as far as the
machine has so many. Where it does not, as here with more than one executor beside the driver, the table shows what an
executor costs and that the work is divided evenly; durations then say how the processes share the cores, not how fast
as many machines would be. Clusters per core: cluster-seconds of rows for each second of CPU time of the executors.""",
        performance_tables.executors,
    ),
    "relay": (
        "Backlog of a relay",
        "The rows of one cluster are forwarded to a topic of a real broker, then read and evaluated by the query.",
        lambda figures: tables_of(figures, "what"),
    ),
}
_CHARTS: Mapping[str, Callable[[Figures], Mapping[str, LineChart]]] = {
    "latency": performance_charts.latency_charts,
    "metadata": performance_charts.metadata_charts,
    "jobs": performance_charts.jobs_charts,
}


def main() -> None:
    """Writes the page from the stored figures."""
    write_pages(read_figures())


if __name__ == "__main__":
    main()
