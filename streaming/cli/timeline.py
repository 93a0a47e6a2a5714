"""`kraftwatch timeline`: what happened to a cluster, in order, from a journal or a log directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from connectors.errors import UsageError
from streaming.cli import options
from streaming.cli.output import print_json, print_progress, stdout_console

if TYPE_CHECKING:
    from rules.alert import Alert
    from streaming.report.timeline_entries import TimelineEntry


def timeline(
    journal: Annotated[
        Path | None,
        typer.Option(help="The --checkpoint folder of `kraftwatch run`, or the journal in it.", metavar="DIR"),
    ] = None,
    log_dir: Annotated[
        Path | None, typer.Option(help="A controller's metadata.log.dir: what its log alone shows.", metavar="DIR")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Only the cluster of this name; default: all in the journal.", metavar="NAME")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="The first time, ISO 8601; default: the beginning.", metavar="TIME")
    ] = None,
    to: Annotated[str | None, typer.Option(help="The last time, ISO 8601; default: the end.", metavar="TIME")] = None,
    config: options.ConfigFile = None,
    setting: options.Settings = None,
    *,
    as_json: options.AsJson = False,
) -> None:
    """Print what happened, in order: elections, voter changes, recoveries, alerts.

    Also starts of controllers, fencings of brokers, unclean elections, and the
    times at which the job did not observe the cluster. The alerts are those of
    the ledger beside the journal; without one, the rules are evaluated again,
    with --config if it is given.

    Exit codes: 0, or 2 for invalid usage. The default time zone is UTC.

      kraftwatch timeline --journal DIR --from 2026-11-20T08:00:00Z
    """
    if (journal is None) == (log_dir is None):
        raise UsageError("give --journal DIR or --log-dir DIR, but not both")
    from streaming.cli.options import parse_time_option
    from streaming.report.back_test import recorded_rows
    from streaming.report.timeline_entries import observed_histories, timeline_entries

    from_ms, to_ms = parse_time_option("--from", from_), parse_time_option("--to", to)
    histories = observed_histories(
        recorded_rows(journal, log_dir, say=print_progress), only=cluster, find_gaps=journal is not None
    )
    if cluster is not None and cluster not in histories:
        raise UsageError(f"{journal or log_dir} holds nothing of cluster {cluster}")
    alerts = _recorded_alerts(journal, log_dir, setting or (), config)
    for name, observed in histories.items():
        own = [alert for alert in alerts if alert.cluster == name]
        for entry in timeline_entries(observed, own, from_ms=from_ms, to_ms=to_ms):
            if as_json:
                print_json(entry.as_json(name))
            else:
                stdout_console().print(_line(entry, name if len(histories) > 1 else None), soft_wrap=True)


def _recorded_alerts(
    journal: Path | None, log_dir: Path | None, setting: Sequence[str], config: Path | None
) -> "Sequence[Alert]":
    """Returns the alerts of the ledger beside the journal; without one, the rules are evaluated again."""
    from streaming.cli.options import configured_store
    from streaming.cli.recorded_config import back_test_settings
    from streaming.report.back_test import back_test, recorded_rows
    from streaming.report.incident_report import ledger_alerts

    if journal is not None and (found := ledger_alerts(journal, configured_store(config))) is not None:
        return found
    settings = back_test_settings(config, setting, polled=journal is not None, recorded=journal)
    return list(back_test(recorded_rows(journal, log_dir, say=print_progress), settings))


_STYLES = {"alert": "yellow", "gap": "dim", "election": "bold", "unclean-election": "red", "forced-voter-change": "red"}


def _line(entry: "TimelineEntry", cluster: str | None) -> Text:
    from connectors.sinks.alert_json import iso
    from connectors.sinks.evidence_format import visible

    where = "" if cluster is None else f"{visible(cluster)}  "
    out = Text(f"{iso(entry.at_ms)}  {where}", "dim")
    out.append(f"{entry.kind.value:<20}", _STYLES.get(entry.kind.value, ""))
    return out.append(visible(entry.text))
