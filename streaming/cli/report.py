"""`kraftwatch report`: an incident as one HTML file that needs no network; `bundle`: all that a job recorded."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from connectors.errors import UsageError, os_errors
from streaming.cli import options
from streaming.cli.recorded_job import RecordedJob

OneCluster: TypeAlias = Annotated[
    str | None,
    typer.Option("--only", help="The cluster's name, if the journal has several.", metavar="NAME"),
]

_Start: TypeAlias = Annotated[
    str | None,
    typer.Option("--from", help="The start of the report, ISO 8601; default: one hour before its end.", metavar="TIME"),
]
_End: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--to",
        help="The end of the report; the state is shown as of this time; default: the newest observation.",
        metavar="TIME",
    ),
]


def report(
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="The --checkpoint folder of `kraftwatch run`; default: what the job of --config recorded, with "
            "`source: kafka` in the relays' topic.",
            metavar="DIR",
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="A journal without a ledger, instead of --checkpoint: the rules are evaluated again on it.",
            metavar="DIR",
        ),
    ] = None,
    cluster: OneCluster = None,
    from_: _Start = None,
    to: _End = None,
    config: options.ConfigFile = None,
    setting: options.Settings = None,
    output: Annotated[
        Path | None, typer.Option(help="The file to write; default: kraftwatch-NAME-TIME.html.", metavar="FILE")
    ] = None,
) -> None:
    """Write an incident as one HTML file: timeline, alerts, state at the end.

    Reads what a job recorded and its ledger; the job may be running. It queries
    no monitored cluster and changes nothing. Give the job's --config for its
    thresholds. The file loads nothing from other hosts. The default time zone is
    UTC.

    Prints the file's name. Exit codes: 0, or 2 for invalid usage.

      kraftwatch report --checkpoint DIR --from 2026-11-20T08:00:00Z

      kraftwatch report --config kraftwatch.yaml --only prod
    """
    if (checkpoint is not None and journal is not None) or (checkpoint is None and journal is None and config is None):
        raise UsageError("give one place: --checkpoint DIR, --journal DIR, or --config FILE of a job alone")
    from rules.formatting import iso
    from streaming.report.incident_report import make_report

    given = options.RecordedOptions(journal=checkpoint or journal, from_=from_, to=to, config=config, setting=setting)
    job = RecordedJob(given, [cluster] if cluster else ())
    made = make_report(
        job.recording(), job.database(), job.settings, cluster=cluster, from_ms=job.from_ms, to_ms=job.to_ms
    )
    name = "".join(each if each.isalnum() or each in "-_." else "_" for each in made.cluster)
    path = output or Path(f"kraftwatch-{name}-{iso(made.to_ms)[:19].replace(':', '')}.html")
    with os_errors(f"--output {path}"):
        path.write_text(made.html, encoding="utf-8")
    typer.echo(str(path))


def bundle(
    checkpoint: Annotated[
        Path, typer.Option(help="The --checkpoint folder of `kraftwatch run`; the job may be running.", metavar="DIR")
    ],
    output: Annotated[Path, typer.Option(help="The file to write, such as incident.tar.gz.", metavar="FILE")],
    config: options.ConfigFile = None,
) -> None:
    """Pack journal, alerts, status, configuration and versions into one file.

    A colleague opens it with --journal FILE: status, replay, timeline, report.
    It holds no secret: credentials are blanked before anything is recorded, and
    of --config only clusters, thresholds, rules and kinds of sinks are taken:
    what opens the file evaluates with them.

    Prints the file's name. Exit codes: 0, or 2 for invalid usage.

      kraftwatch bundle --checkpoint DIR --output incident.tar.gz
    """
    from streaming.pipeline.checkpoint import Checkpoint
    from streaming.query.recording import replay_recording
    from streaming.report.bundle import make_bundle
    from streaming.status.build_status import cluster_status
    from streaming.status.cluster_status import status_json

    job = RecordedJob(options.RecordedOptions(journal=checkpoint, config=config))
    replayed = replay_recording(job.recording(), job.settings)
    states = [status_json(cluster_status(journal.state())) for journal in replayed.values()]
    make_bundle(Checkpoint(folder=checkpoint), job.config, states, output)
    typer.echo(str(output))
