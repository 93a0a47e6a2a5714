"""`kraftwatch doctor`: what can be reached, what is allowed, what will not be seen, and what mends that."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rules.formatting import plural
from streaming.cli import options
from streaming.cli.options import Asked
from streaming.cli.output import printed
from streaming.config import ClusterSection, Config
from streaming.doctor.check_result import Check, Verdict, worst

_STYLE = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILS: "bold red"}


@options.options(Asked)
def doctor(wanted: Asked) -> None:
    """Look for what keeps a job from running, seeing or telling.

    For before the first start, and for when the job says that it is blind.

    For each address of each cluster: its name, the connection, TLS, the login,
    and the rights to DescribeQuorum, Fetch and DescribeCluster; then the clock,
    this machine, the checkpoint and the sinks. Nothing is written, and nobody
    is told. What can be mended comes with the command that mends it.

    Exit codes: 0 all is well, 1 the job would see or tell less than it could,
    2 it would not run or be blind (or something given cannot be).

      kraftwatch doctor --cluster prod=c1:9093,c2:9093,c3:9093

      kraftwatch doctor --config kraftwatch.yaml
    """
    # Kafka's client takes a second to import: help and mistakes should not wait for it.
    from connectors.kafka.kafka_python import limit_kafka_logging
    from streaming.doctor.host_checks import machine_checks, telling_checks

    limit_kafka_logging()
    settled = wanted.settled()
    checks = [*_clusters(settled, wanted.timeout), *machine_checks(settled), *telling_checks(settled)]
    verdict = worst(checks)
    if wanted.as_json:
        options.print_json({"verdict": verdict.value, "checks": [check.plain() for check in checks]})
    else:
        printed().print(_shown(checks))
    raise typer.Exit(verdict.exit_code)


def _clusters(config: Config, timeout_s: float) -> Iterator[Check]:
    from connectors.gather.connectivity_check import check_connectivity
    from streaming.doctor.cluster_checks import Examined
    from streaming.doctor.host_checks import recorded_ids

    recorded = recorded_ids(config)

    def examined(section: ClusterSection) -> Examined:
        # A step that is not answered must not take the time of those behind it.
        cluster = replace(section.cluster(), request_timeout_ms=round(min(timeout_s, 3.0) * 1000))
        return Examined(section=section, checkups=check_connectivity(cluster), recorded=recorded.get(section.name))

    with ThreadPoolExecutor(max_workers=16) as pool:
        for one in pool.map(examined, config.watched):
            yield from one.checks()


def _shown(checks: Sequence[Check]) -> RenderableType:
    parts: list[RenderableType] = []
    for of, group in groupby(checks, key=lambda check: check.of):
        parts += [Text(of, style="bold"), _table(list(group)), Text()]
    count = {verdict: sum(check.verdict is verdict for check in checks) for verdict in Verdict}
    named = (("warning", Verdict.WARNING), ("failure", Verdict.FAILS))
    said = ", ".join([f"{count[Verdict.OK]} ok", *(plural(count[verdict], noun) for noun, verdict in named)])
    parts.append(Text(said))
    return Group(*parts)


def _table(checks: Sequence[Check]) -> RenderableType:
    parts: list[RenderableType] = []
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for check in checks:
        verdict = Text(check.verdict.value, style=_STYLE[check.verdict])
        table.add_row(verdict, Text(check.subject), Text(check.name), Text(check.said))
    parts.append(table)
    for check in checks:
        if check.mend:
            parts.append(Text(f"{check.subject} {check.name}:", style="bold"))
            # A command is pasted: it is never folded.
            parts += [Text(f"  {line}", no_wrap=True, overflow="ignore") for line in check.mend]
    return Group(*parts)
