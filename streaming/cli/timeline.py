"""`kraftwatch timeline`: what happened to a cluster, in order, from what was recorded or a log directory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from connectors.errors import UsageError
from streaming.cli import options
from streaming.cli.output import print_json, print_progress, stdout_console

if TYPE_CHECKING:
    from rules.alert import Alert
    from streaming.cli.recorded_config import RecordedRows
    from streaming.report.timeline_entries import TimelineEntry


def timeline(
    journal: options.RecordedJournal = None,
    log_dir: options.RecordedLogDir = None,
    cluster: Annotated[
        str | None, typer.Option(help="Only the cluster of this name; default: all in the journal.", metavar="NAME")
    ] = None,
    from_: options.FromTime = None,
    to: options.ToTime = None,
    config: options.ConfigFile = None,
    setting: options.Settings = None,
    *,
    as_json: options.AsJson = False,
) -> None:
    """Print what happened, in order: elections, voter changes, recoveries, alerts.

    Also starts of controllers, fencings of brokers, unclean elections, and the
    times at which the job did not observe the cluster. The alerts are those of
    the job's ledger; without one, the rules are evaluated again. --config alone
    reads the journal of that job or, with `source: kafka`, the relays' topic.

    Exit codes: 0, or 2 for invalid usage. The default time zone is UTC.

      kraftwatch timeline --journal DIR --from 2026-11-20T08:00:00Z

      kraftwatch timeline --config kraftwatch.yaml --from 2026-11-20T08:00:00Z
    """
    from connectors.sinks.alert_json import iso
    from streaming.cli.recorded_config import RecordedRows
    from streaming.report.timeline_entries import observed_histories, timeline_entries

    from_ms, to_ms = options.parse_time_option("--from", from_), options.parse_time_option("--to", to)
    rows = RecordedRows(
        config=config, journal=journal, log_dir=log_dir, only=[cluster] if cluster else (), from_ms=from_ms, to_ms=to_ms
    )
    histories = observed_histories(rows.read(print_progress), only=cluster, find_gaps=log_dir is None)
    newest = [one.newest_ms for one in histories.values() if one.newest_ms is not None]
    if from_ms is not None and newest and max(newest) < from_ms:
        # Nothing would be printed, as if nothing had happened.
        raise UsageError(f"--from {iso(from_ms)}: {rows.place} ends with {iso(max(newest))}")
    if cluster is not None and cluster not in histories:
        raise UsageError(f"{rows.place} holds nothing of cluster {cluster}")
    alerts = _recorded_alerts(rows, setting or ())
    for name, observed in histories.items():
        own = [alert for alert in alerts if alert.cluster == name]
        for entry in timeline_entries(observed, own, from_ms=from_ms, to_ms=to_ms):
            if as_json:
                print_json(entry.as_json(name))
            else:
                stdout_console().print(_line(entry, name if len(histories) > 1 else None), soft_wrap=True)


def _recorded_alerts(rows: "RecordedRows", setting: Sequence[str]) -> "Sequence[Alert]":
    """Returns the alerts of the job's ledger; without one, the rules are evaluated again."""
    from connectors.delivery.ledger import stored_alerts
    from streaming.cli.recorded_config import recorded_database
    from streaming.report.back_test import back_test

    if rows.log_dir is None and (database := recorded_database(rows.config, rows.journal)).exists:
        return stored_alerts(database)
    settings_of = rows.settings_of(rows.config, setting)
    return list(back_test(rows.read(print_progress), settings_of, from_ms=rows.from_ms, to_ms=rows.to_ms))


_STYLES = {"alert": "yellow", "gap": "dim", "election": "bold", "unclean-election": "red", "forced-voter-change": "red"}


def _line(entry: "TimelineEntry", cluster: str | None) -> Text:
    from connectors.sinks.alert_json import iso
    from connectors.sinks.evidence_format import visible

    where = "" if cluster is None else f"{visible(cluster)}  "
    out = Text(f"{iso(entry.at_ms)}  {where}", "dim")
    out.append(f"{entry.kind.value:<20}", _STYLES.get(entry.kind.value, ""))
    return out.append(visible(entry.text))
