"""`kraftwatch report`: an incident as one file that can be mailed, kept and opened without a network."""

from pathlib import Path
from typing import Annotated

import typer

from connectors.errors import UsageError
from connectors.sinks.alert_json import iso
from rules.model.identifiers import Millis
from streaming.cli import options
from streaming.cli.output import note
from streaming.cli.time_argument import instant


def report(
    checkpoint: Annotated[
        Path | None, typer.Option(help="The --checkpoint folder of `kraftwatch run`.", metavar="DIR")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Or a journal alone: the alerts are then judged again from it.", metavar="DIR")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="The cluster's name, where the journal holds several.", metavar="NAME")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="Begin of the span, ISO 8601. [default: an hour before its end]", metavar="TIME"),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Its end: the state is shown as of then. [default: the newest that was recorded]", metavar="TIME"
        ),
    ] = None,
    setting: options.Settings = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write. [default: kraftwatch-NAME-TIME.html]", metavar="FILE")
    ] = None,
) -> None:
    """An incident as one HTML file: timeline, alerts with evidence, the state at its end.

    Made from the journal and the ledger that a job left behind, or is still
    writing: nobody is asked and nothing is changed. The file loads nothing:
    mail it, keep it, open it without a network. Times are UTC unless they
    say otherwise.

    Prints the file's name. Exit codes: 0, or 2 for something that cannot be.

      kraftwatch report --checkpoint DIR --from 2026-11-20T08:00:00Z
    """
    if (checkpoint is None) == (journal is None):
        raise UsageError("give --checkpoint DIR or --journal DIR: where the job recorded")
    folder = checkpoint or journal
    assert folder is not None
    from streaming.config import flattened, in_force
    from streaming.report.incident_report import ReportRequest, make_report
    from streaming.status.from_journal import has_journal

    if checkpoint is not None and not has_journal(checkpoint):
        raise UsageError(f"--checkpoint {checkpoint}: no journal is there; give the folder of `kraftwatch run`")
    request = ReportRequest(folder=folder, cluster=cluster, from_ms=_time("--from", from_), to_ms=_time("--to", to))
    made = make_report(request, in_force(flattened(options.overrides({}, setting or ()))), say=note)
    name = "".join(each if each.isalnum() or each in "-_." else "_" for each in made.cluster)
    place = out or Path(f"kraftwatch-{name}-{iso(made.to_ms)[:19].replace(':', '')}.html")
    try:
        place.write_text(made.html, encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"--out {place}: {(problem.strerror or 'cannot be written').lower()}") from None
    typer.echo(str(place))


def _time(option: str, text: str | None) -> Millis | None:
    if text is None:
        return None
    try:
        return instant(text)
    except ValueError:
        raise UsageError(f"{option} {text}: expected a TIME as 2026-11-20T08:15:00Z") from None
