"""`kraftwatch replay`: the alerts that recorded observations lead to, with any configuration."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from connectors.errors import UsageError
from connectors.sinks.evidence_format import visible
from streaming.cli import options
from streaming.cli.output import print_json, print_progress, stdout_console

if TYPE_CHECKING:
    from rules.alert import Alert
    from streaming.report.alert_comparison import AlertComparison


def replay(
    journal: Annotated[
        Path | None,
        typer.Option(help="The --checkpoint folder of `kraftwatch run`, or the journal in it.", metavar="DIR"),
    ] = None,
    log_dir: Annotated[
        Path | None, typer.Option(help="A controller's metadata.log.dir: what its log alone shows.", metavar="DIR")
    ] = None,
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

    A journal gives the same alerts, with the same times, as the job that wrote
    it, if the configuration is the same. A log directory holds no polls and
    probes, so only rules that read the log can fire. Nothing is sent.

    Exit codes: 0, or 2 for invalid usage.

      kraftwatch replay --journal DIR --config kraftwatch.yaml --compare new.yaml

      kraftwatch replay --log-dir DIR --set partition-stuck-recovering.hold=1m
    """
    if (journal is None) == (log_dir is None):
        raise UsageError("give --journal DIR or --log-dir DIR, but not both")
    from streaming.cli.recorded_config import back_test_settings
    from streaming.report.alert_comparison import compare_alerts
    from streaming.report.back_test import back_test, recorded_rows

    def alerts(configuration: Path | None, settings: Sequence[str]) -> "Iterator[Alert]":
        rows = recorded_rows(journal, log_dir, say=print_progress)
        settings_of = back_test_settings(configuration, settings, polled=journal is not None, recorded=journal)
        return back_test(rows, settings_of)

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
