"""`kraftwatch doctor`: checks connections, permissions, this machine and the sinks, and prints the fixes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rules.formatting import visible
from streaming.cli.config_from_options import resolve_config
from streaming.cli.options import ClusterOptions, with_options
from streaming.cli.output import print_json, stdout_console

if TYPE_CHECKING:
    from streaming.config import ClusterSection, Config
    from streaming.doctor.check_result import CheckResult
    from streaming.doctor.cluster_checks import ClusterChecks

_STYLES = {"ok": "green", "warning": "yellow", "fails": "bold red"}


@with_options(ClusterOptions)
def doctor(opts: ClusterOptions) -> None:
    """Check everything that the job needs, and print how to fix what fails.

    Run it before the first start, and when the alert monitor-blind fires.

    For each address of each cluster it checks name resolution, the connection,
    TLS, the login, and the permissions for DescribeQuorum, Fetch and
    DescribeCluster. Then it checks the clock, this machine, the checkpoint and
    the address of the page, reads the topics of the relays, their settings and
    permissions and the rows that wait in the relay's folder, and connects to
    the servers of the heartbeat, of OTLP and of each sink. It writes nothing and
    sends no notification, no heartbeat and no metrics. Each problem is printed
    with the command or setting that fixes it. Where Spark is not installed, it
    checks what on-call commands and a relay need.

    Exit codes: 0 everything is ok, 1 the job would observe or send less than it
    could, or expose more than it should, 2 it would not start, would observe
    nothing, or could not reach a sink or the heartbeat (or invalid usage).

      kraftwatch doctor --cluster prod=c1:9093,c2:9093,c3:9093

      kraftwatch doctor --config kraftwatch.yaml
    """
    # Imported here: kafka-python takes a second to import, and help and usage errors must not wait for it.
    from streaming.doctor.check_result import worst_status
    from streaming.doctor.host_checks import check_exposure, check_heartbeat, check_host, check_otlp, check_sinks
    from streaming.doctor.topic_checks import check_topics

    config = resolve_config(opts)
    host = [*check_host(config), *check_exposure(config, opts.config), *check_heartbeat(config), *check_otlp(config)]
    clusters = [*_known_from_job(opts, config), *_check_clusters(config, opts.timeout)]
    results = [*clusters, *host, *check_topics(config), *check_sinks(config)]
    status = worst_status(results)
    if opts.as_json:
        print_json({"verdict": status.value, "checks": [result.plain() for result in results]})
    else:
        stdout_console().print(_report(results))
    raise typer.Exit(status.exit_code)


def _known_from_job(opts: ClusterOptions, config: "Config") -> "Iterator[CheckResult]":
    """Yields what a running job finds critical: then what fails here may be no fault of the connection."""
    from connectors.process.wall_clock import wall_ms
    from rules.evaluate import OBSERVATION_RULES
    from rules.finding import Severity
    from rules.formatting import utc_text
    from streaming.cli.recorded_states import query_targets, recorded_reader
    from streaming.doctor.check_result import WARNING, check_result
    from streaming.replay.probe_state import FAILURE_MS

    states = recorded_reader(opts, None if opts.config is None else config)(query_targets(config))
    for name, journal in states.items():
        if wall_ms() - journal.newest_ms > FAILURE_MS:
            continue
        known = f"by the job, which knows it until {utc_text(journal.newest_ms)}"
        for finding in journal.monitor.evaluation().findings:
            if finding.severity is Severity.CRITICAL and finding.rule not in OBSERVATION_RULES:
                message = f"{finding.subject}, {known}: {finding.summary}"
                yield check_result(name, finding.rule, "finding", WARNING, message, *finding.remedy)


def _check_clusters(config: "Config", timeout_s: float) -> "Iterator[CheckResult]":
    from concurrent.futures import ThreadPoolExecutor

    from connectors.gather.connectivity_check import check_connectivity
    from streaming.doctor.cluster_checks import ClusterChecks, shared_clusters
    from streaming.doctor.host_checks import recorded_ids

    recorded = recorded_ids(config)

    def checked(section: "ClusterSection") -> "ClusterChecks":
        # A short timeout for each step: one that is not answered must leave time for the next steps.
        cluster = replace(section.cluster(), request_timeout_ms=round(min(timeout_s, 3.0) * 1000))
        return ClusterChecks(
            section=section, connectivity=check_connectivity(cluster), recorded_id=recorded.get(section.name)
        )

    with ThreadPoolExecutor(max_workers=16) as pool:
        checks = list(pool.map(checked, config.watched))
    for check in checks:
        yield from check.results()
    yield from shared_clusters(checks)


def _report(results: "Sequence[CheckResult]") -> RenderableType:
    from rules.formatting import plural
    from streaming.doctor.check_result import CheckStatus

    parts: list[RenderableType] = []
    for scope, group in groupby(results, key=lambda one: one.scope):
        parts += [Text(scope, style="bold"), _table(list(group)), Text()]
    count = {status: sum(result.status is status for result in results) for status in CheckStatus}
    nouns = (("warning", CheckStatus.WARNING), ("failure", CheckStatus.FAILS))
    totals = [f"{count[CheckStatus.OK]} ok", *(plural(count[status], noun) for noun, status in nouns)]
    parts.append(Text(", ".join(totals)))
    return Group(*parts)


def _table(results: "Sequence[CheckResult]") -> RenderableType:
    parts: list[RenderableType] = []
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for result in results:
        status = Text(result.status.value, style=_STYLES[result.status.value])
        # A node may name itself and its cluster as it likes.
        table.add_row(status, *(Text(visible(text)) for text in (result.subject, result.name, result.message)))
    parts.append(table)
    for result in results:
        if result.remedy:
            parts.append(Text(visible(f"{result.subject} {result.name}:"), style="bold"))
            # Not wrapped, so that commands can be copied.
            parts += [Text(f"  {visible(line)}", no_wrap=True, overflow="ignore") for line in result.remedy]
    return Group(*parts)
