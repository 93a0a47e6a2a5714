"""`kraftwatch rescue plan`: assesses the remaining disks of a stopped quorum and a new voter list. Writes nothing."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streaming.cli.options import AsJson
from streaming.cli.output import print_json

app = typer.Typer(help="Plan the recovery of a quorum that cannot elect a leader.", no_args_is_help=True)


@app.callback()
def rescue() -> None:
    """Plan the recovery of a quorum that cannot elect a leader."""


@app.command("plan")
def plan(
    log_dir: Annotated[
        list[Path],
        typer.Option(
            "--log-dir",
            help="The metadata.log.dir of a controller or broker. Give all that remain.",
            metavar="DIR",
        ),
    ],
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            help="The new voters, in the format of kafka-storage: ID@HOST:PORT:DIRECTORY_ID,… Without it, only the "
            "disks are assessed, and the recorded list is printed.",
            metavar="LIST",
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Dry run: assess the disks of a stopped quorum and choose the best.

    Prints where each log ends, which log is the most complete, whether it holds
    every committed record, and where the voter sets differ. For a new voter
    list it prints what the override of KIP-1347 would change, reject or leave
    unchanged. Writes nothing.

    Exit codes: 0 the list may be written, changes nothing, or was not given;
    2 it is rejected (or invalid usage).

      kraftwatch rescue plan --log-dir c1/metadata --log-dir c2/metadata
    """
    from rules.rescue.voter_override import OverrideOutcome
    from streaming.rescue.plan_text import plan_text
    from streaming.rescue.rescue_plan import make_plan, plan_json
    from streaming.status.from_log_dir import replay_log_dir

    rescue_plan = make_plan([replay_log_dir(folder) for folder in log_dir], initial_controllers)
    if as_json:
        print_json(plan_json(rescue_plan))
    else:
        Console(highlight=False, soft_wrap=True).print(plan_text(rescue_plan))
    raise typer.Exit(2 if rescue_plan.outcome is OverrideOutcome.REJECTED else 0)
