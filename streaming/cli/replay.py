"""`kraftwatch replay`: the alerts that recorded observations lead to, with any configuration."""

import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from connectors.sinks.evidence_format import visible
from streaming.cli import options
from streaming.cli.output import print_json, print_progress, stdout_console

if TYPE_CHECKING:
    from rules.alert import Alert
    from streaming.replay.cluster_settings import ClusterSettings
    from streaming.report.back_test import AlertComparison


def replay(
    journal: options.RecordedJournal = None,
    log_dir: options.RecordedLogDir = None,
    from_: options.FromTime = None,
    to: options.ToTime = None,
    only: options.Only = None,
    config: options.ConfigFile = None,
    setting: options.Settings = None,
    compare: Annotated[
        Path | None,
        typer.Option(help="Another configuration: print what it would do differently.", metavar="CONFIG"),
    ] = None,
    *,
    as_json: options.AsJson = False,
) -> None:
    """Back-test: print the alerts that the job would have sent for recorded observations.

    A journal or a topic gives the same alerts, with the same times, as the job
    that read it, if the configuration is the same. A log directory holds no polls
    and probes, so only rules that read the log can fire. Nothing is sent.

    Exit codes: 0, or 2 for invalid usage.

      kraftwatch replay --journal DIR --config kraftwatch.yaml --compare new.yaml

      kraftwatch replay --log-dir DIR --set partition-stuck-recovering.hold=1m

      kraftwatch replay --config kraftwatch.yaml --from 2026-11-20T08:00:00Z
    """
    from streaming.cli.config_from_options import patterns
    from streaming.cli.recorded_config import RecordedRows
    from streaming.report.back_test import back_test, compare_alerts

    from_ms, to_ms = options.parse_time_option("--from", from_), options.parse_time_option("--to", to)
    names = patterns(only)
    recorded = RecordedRows(config=config, journal=journal, log_dir=log_dir, only=names, from_ms=from_ms, to_ms=to_ms)

    def alerts(configuration: Path | None, settings: Sequence[str]) -> "Iterator[Alert]":
        settings_of = recorded.settings_of(configuration, settings)

        def wanted(name: str) -> "ClusterSettings | None":
            return settings_of(name) if not names or any(fnmatchcase(name, each) for each in names) else None

        return back_test(recorded.read(print_progress), wanted, from_ms=from_ms, to_ms=to_ms)

    now = alerts(config, setting or ())
    if compare is None:
        _print(now, as_json=as_json)
        return
    _print_comparison(compare_alerts([*now], [*alerts(compare, ())]), as_json=as_json)


def _print(alerts: "Iterator[Alert]", *, as_json: bool) -> None:
    from connectors.sinks.alert_json import to_line
    from connectors.sinks.console import rendered

    count = 0
    for alert in alerts:
        count += 1
        if as_json:
            sys.stdout.write(to_line(alert, alert.observed_at_ms).decode())
        else:
            stdout_console().print(rendered(alert), soft_wrap=True)
    print_progress(f"{count} alert transitions")


def _print_comparison(comparison: "AlertComparison", *, as_json: bool) -> None:
    if as_json:
        print_json(comparison.as_json())
        return
    for sentence in comparison.sentences():
        stdout_console().print(Text(visible(f"{sentence[0].upper()}{sentence[1:]}")), soft_wrap=True)
