"""`kraftwatch rescue plan`: what the disks that are left are worth, what new endpoints would change. Writes nothing."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streaming.cli import options

app = typer.Typer(help="What can be done for a quorum that cannot help itself.", no_args_is_help=True)


@app.callback()
def rescue() -> None:
    """What can be done for a quorum that cannot help itself."""


@app.command("plan")
def plan(
    log_dir: Annotated[
        list[Path],
        typer.Option("--log-dir", help="A controller's or broker's metadata.log.dir. Give all.", metavar="DIR"),
    ],
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            help="The voters as they should be: ID@HOST:PORT:DIRECTORY_ID,… as kafka-storage takes them. Without it "
            "the disks are assessed alone, and the list that they hold is printed.",
            metavar="LIST",
        ),
    ] = None,
    *,
    as_json: options.AsJson = False,
) -> None:
    """A dry run: reads the disks of a quorum that is down, says which to go on with, and writes nothing.

    Says where each log ends and which one holds the most, whether that is
    everything that was committed, where the nodes' voters differ, and for a new
    list of voters what KIP-1347's override would change, refuse or leave alone.

    Exit codes: 0 the list may be written, or changes nothing, or none was
    given; 2 it is refused (or something given cannot be).

      kraftwatch rescue plan --log-dir c1/metadata --log-dir c2/metadata
    """
    from rules.rescue.voter_override import OverrideOutcome
    from streaming.rescue.plan_text import plan_text
    from streaming.rescue.rescue_plan import make_plan, plan_json
    from streaming.status.from_log_dir import replay_log_dir

    made = make_plan([replay_log_dir(folder) for folder in log_dir], initial_controllers)
    if as_json:
        options.print_json(plan_json(made))
    else:
        Console(highlight=False, soft_wrap=True).print(plan_text(made))
    raise typer.Exit(2 if made.outcome is OverrideOutcome.REJECTED else 0)
