"""`kraftwatch replay` and `timeline`: what recorded observations lead to: alerts with any configuration, events."""

import sys
from collections.abc import Iterator
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from connectors.errors import UsageError
from rules.formatting import visible
from rules.model.identifiers import selects
from streaming.cli import options
from streaming.cli.config_from_options import patterns
from streaming.cli.output import print_json, print_progress, print_text
from streaming.cli.recorded_job import RecordedJob

if TYPE_CHECKING:
    from rules.alert import Alert
    from streaming.status.event_history import TimelineEntry


@options.with_options(options.RecordedOptions)
def replay(
    opts: options.RecordedOptions,
    only: options.Only = None,
    compare: Annotated[
        Path | None,
        typer.Option(help="Another configuration: print what it would do differently.", metavar="CONFIG"),
    ] = None,
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
    from connectors.observations.point_in_time import AtTime
    from streaming.report.back_test import back_test, compare_alerts, evaluation_start

    job = RecordedJob(opts, only)

    def alerts(configured: RecordedJob) -> "Iterator[Alert]":
        upto = None if job.to_ms is None else AtTime(at_ms=job.to_ms)
        return back_test(job.replayed(configured.monitored_settings, evaluation_start(job.from_ms), upto), job.from_ms)

    now = alerts(job)
    if compare is None:
        _print(now, as_json=opts.as_json)
        return
    then = alerts(RecordedJob(replaced(opts, config=compare, setting=None), only))
    comparison = compare_alerts([*now], [*then])
    if opts.as_json:
        print_json(comparison.as_json())
        return
    for sentence in comparison.sentences():
        print_text(Text(visible(f"{sentence[0].upper()}{sentence[1:]}")))


def _print(alerts: "Iterator[Alert]", *, as_json: bool) -> None:
    from connectors.sinks.alert_json import to_line
    from connectors.sinks.console import rendered

    count = 0
    for alert in alerts:
        count += 1
        if as_json:
            sys.stdout.write(to_line(alert, alert.observed_at_ms).decode())
        else:
            print_text(rendered(alert))
    print_progress(f"{count} alert transitions")


@options.with_options(options.RecordedOptions)
def timeline(
    opts: options.RecordedOptions,
    only: options.Only = None,
) -> None:
    """Print what happened, in order: elections, voter changes, recoveries, alerts.

    Of all clusters in the journal, or of those of --only, in one order of time.
    Also starts of controllers, fencings of brokers, unclean elections, and the
    times at which the job did not observe the cluster. The alerts are those of
    the job's ledger; without one, the rules are evaluated again. --config alone
    reads the journal of that job or, with `source: kafka`, the relays' topic.

    Exit codes: 0, or 2 for invalid usage. The default time zone is UTC.

      kraftwatch timeline --journal DIR --from 2026-11-20T08:00:00Z

      kraftwatch timeline --config kraftwatch.yaml --from 2026-11-20T08:00:00Z
    """
    from connectors.delivery.ledger import stored_alerts
    from rules.formatting import iso
    from streaming.replay.cluster_settings import ClusterSettings
    from streaming.report.back_test import evaluation_start
    from streaming.status.event_history import timeline_entries

    job, wanted = RecordedJob(opts, only), patterns(only)
    from_ms = job.from_ms
    database = None if opts.log_dir is not None else job.database()
    ledger = stored_alerts(database) if database is not None and database.exists else None
    # Without a ledger the rules are evaluated again.
    settings_of = job.monitored_settings if ledger is None else lambda _: None

    def shown(name: str) -> ClusterSettings | None:
        return (settings_of(name) or ClusterSettings(name=name)) if selects(wanted, name) else None

    evaluates_from_ms = evaluation_start(from_ms) if ledger is None else None
    replays = {journal.machine.cluster: journal for journal, _ in job.replayed(shown, evaluates_from_ms)}
    newest_ms = max((journal.machine.now_ms for journal in replays.values()), default=None)
    if from_ms is not None and newest_ms is not None and newest_ms < from_ms:
        # Nothing would be printed, as if nothing had happened.
        raise UsageError(f"--from {iso(from_ms)}: {job.place} ends with {iso(newest_ms)}")
    if wanted and not replays:
        raise UsageError(f"--only {', '.join(wanted)}: {job.place} holds nothing of such a cluster")
    entries: list[tuple[TimelineEntry, str]] = []
    for name, one in replays.items():
        if opts.log_dir is not None:
            # Its rows are records, which may be far apart.
            one.history.gaps.clear()
        own = one.history.alerts if ledger is None else [alert for alert in ledger if alert.cluster == name]
        found = timeline_entries(one.history, one.machine.quorum(), own, from_ms=from_ms, to_ms=job.to_ms)
        entries.extend((entry, name) for entry in found)
    for entry, name in sorted(entries, key=lambda one: one[0].at_ms):
        if opts.as_json:
            print_json(entry.as_json(name))
        else:
            print_text(_timeline_line(entry, name if len(replays) > 1 else None))


_STYLES = {"alert": "yellow", "gap": "dim", "election": "bold", "unclean-election": "red", "forced-voter-change": "red"}


def _timeline_line(entry: "TimelineEntry", cluster: str | None) -> Text:
    from rules.formatting import iso

    where = "" if cluster is None else f"{visible(cluster)}  "
    out = Text(f"{iso(entry.at_ms)}  {where}", "dim")
    out.append(f"{entry.kind.value:<20}", _STYLES.get(entry.kind.value, ""))
    return out.append(visible(entry.text))
