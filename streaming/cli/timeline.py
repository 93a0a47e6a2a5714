"""`kraftwatch timeline`: what happened to a cluster, in order, from what was recorded or a log directory."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from connectors.errors import UsageError
from streaming.cli import options
from streaming.cli.output import print_json, print_progress, stdout_console

if TYPE_CHECKING:
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
    from connectors.delivery.ledger import stored_alerts
    from connectors.sinks.alert_json import iso
    from streaming.cli.recorded_config import RecordedRows, recorded_database
    from streaming.replay.cluster_settings import ClusterSettings
    from streaming.report.back_test import evaluation_start
    from streaming.report.timeline_entries import timeline_entries
    from streaming.status.from_journal import replayed

    from_ms, to_ms = options.parse_time_option("--from", from_), options.parse_time_option("--to", to)
    rows = RecordedRows(
        config=config, journal=journal, log_dir=log_dir, only=[cluster] if cluster else (), from_ms=from_ms, to_ms=to_ms
    )
    database = None if log_dir is not None else recorded_database(config, journal)
    ledger = stored_alerts(database) if database is not None and database.exists else None
    # Without a ledger the rules are evaluated again.
    settings_of = rows.settings_of(config, setting or ()) if ledger is None else None

    def shown(name: str) -> ClusterSettings | None:
        known = None if settings_of is None else settings_of(name)
        return (known or ClusterSettings(name=name)) if cluster in (None, name) else None

    evaluates_from_ms = evaluation_start(from_ms) if ledger is None else None
    read = replayed(rows.read(print_progress), shown, evaluates_from_ms=evaluates_from_ms)
    replays = {one.machine.cluster: one for one, _ in read}
    newest_ms = max((one.machine.now_ms for one in replays.values()), default=None)
    if from_ms is not None and newest_ms is not None and newest_ms < from_ms:
        # Nothing would be printed, as if nothing had happened.
        raise UsageError(f"--from {iso(from_ms)}: {rows.place} ends with {iso(newest_ms)}")
    if cluster is not None and not replays:
        raise UsageError(f"{rows.place} holds nothing of cluster {cluster}")
    for name, one in replays.items():
        if log_dir is not None:
            # Its rows are records, which may be far apart.
            one.history.gaps.clear()
        own = one.history.alerts if ledger is None else [alert for alert in ledger if alert.cluster == name]
        for entry in timeline_entries(one.history, one.machine.quorum(), own, from_ms=from_ms, to_ms=to_ms):
            if as_json:
                print_json(entry.as_json(name))
            else:
                stdout_console().print(_line(entry, name if len(replays) > 1 else None), soft_wrap=True)


_STYLES = {"alert": "yellow", "gap": "dim", "election": "bold", "unclean-election": "red", "forced-voter-change": "red"}


def _line(entry: "TimelineEntry", cluster: str | None) -> Text:
    from connectors.sinks.alert_json import iso
    from connectors.sinks.evidence_format import visible

    where = "" if cluster is None else f"{visible(cluster)}  "
    out = Text(f"{iso(entry.at_ms)}  {where}", "dim")
    out.append(f"{entry.kind.value:<20}", _STYLES.get(entry.kind.value, ""))
    return out.append(visible(entry.text))
