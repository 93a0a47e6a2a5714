"""`kraftwatch repair`: repairs the damaged databases of a stopped job."""

from typing import Annotated

import typer

from rules.formatting import visible
from streaming.cli.options import AsJson, CheckpointFolder, existing_checkpoint, refuse_root_for_other_owner
from streaming.cli.output import print_json, print_message


def repair(
    checkpoint: CheckpointFolder = None,
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Repair what was found. Without it, nothing is changed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Repair the damaged databases of a stopped job.

    Prints what is damaged and what would repair it; with --apply, repairs it.
    Stop the job first. No alert is lost that can still be read, and none that
    the repaired ledger has is sent twice. Replaced files are kept: their names
    end in .damaged-N. Queries no cluster. Spark's state needs no repair: a job
    that cannot use it sets it aside and builds it again.

    Exit codes: 0 nothing is damaged, or it was repaired; 1 something is damaged
    (without --apply), or the repair failed; 2 invalid usage.

      kraftwatch repair --checkpoint DIR
      kraftwatch repair --checkpoint DIR --apply
    """
    from connectors.store.durable_file import private_files
    from streaming.job.repair import plan_repair
    from streaming.pipeline.checkpoint import Checkpoint

    place = existing_checkpoint(checkpoint).absolute()
    refuse_root_for_other_owner(place)
    folder, found = Checkpoint(folder=place), 0
    with private_files(), folder.held(wait_s=0):
        for step in plan_repair(folder):
            found += 1
            if apply:
                step.apply()
            if as_json:
                print_json({"found": step.found, "repair": step.repair, "applied": apply})
            else:
                typer.echo(f"{visible(step.found)}\n  {'repaired' if apply else 'repair'}: {visible(step.repair)}")
    if not found:
        print_message("nothing is damaged")
    elif apply:
        print_message("repaired: start the job")
    else:
        print_message("nothing was changed; repair it with --apply")
        raise typer.Exit(1)
