"""`kraftwatch checkpoint`: repairs damaged files of a job's checkpoint."""

import os
import pwd
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.errors import UsageError
from rules.formatting import visible
from streaming.cli.options import AsJson, CheckpointFolder, existing_checkpoint
from streaming.cli.output import print_json, print_message, print_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from connectors.store.database import Database
    from connectors.store.store_place import StorePlace
    from streaming.pipeline.checkpoint import Checkpoint

_BEGINS_AGAIN = (
    "give the job another place as checkpoint, with the same work_dir: it begins with each cluster's newest baseline "
    "in the relay's topic, and alerts that are firing are not sent again"
)

app = typer.Typer(
    no_args_is_help=True,
    help="""Repair a job's checkpoint folder.

Use it when the job names a damaged file. A state of Spark that cannot be used
needs no command: the job sets it aside at its start and builds it again.
""",
)


@app.callback()
def _keeps_the_only_command_a_command_of_its_own() -> None: ...


@app.command("repair")
def repair(
    checkpoint: CheckpointFolder = None,
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Repair what was found. Without it, nothing is changed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print what is damaged and what would repair it; with --apply, repair it.

    Stop the job first. In place of a damaged state, Spark builds a new one from
    the journal and the ledger. No alert is lost, and no alert that the ledger
    has is sent twice. Replaced files are kept: their names end in .damaged-N.
    Queries no cluster; needs Java.

    Exit codes: 0 nothing is damaged, or it was repaired; 1 something is damaged
    (without --apply), or the repair failed; 2 invalid usage.

      kraftwatch checkpoint repair --checkpoint DIR
      kraftwatch checkpoint repair --checkpoint DIR --apply
    """
    from streaming.job.checkpoint_repair import plan_repair

    found = 0
    with _stopped_job(checkpoint, _BEGINS_AGAIN) as (folder, stack):
        for step in plan_repair(folder, lambda: _spark(folder, stack)):
            found += 1
            if apply:
                step.apply()
            if as_json:
                print_json({"found": step.found, "repair": step.repair, "applied": apply})
            else:
                typer.echo(f"{visible(step.found)}\n  {'repaired' if apply else 'repair'}: {visible(step.repair)}")
    if not found:
        print_message("no file of the checkpoint is damaged")
    elif apply:
        print_message("the checkpoint is repaired: start the job")
    else:
        print_message("nothing was changed; repair it with --apply")
        raise typer.Exit(1)


@contextmanager
def _stopped_job(checkpoint: str | None, remote: str) -> "Iterator[tuple[Checkpoint, ExitStack]]":
    """Holds the lock of a checkpoint folder, in which only its owner can read new files; ends what the stack has."""
    from connectors.store.durable_file import private_files
    from streaming.pipeline.checkpoint import Checkpoint

    place = existing_checkpoint(checkpoint, remote=remote).absolute()
    _refuse_root_for_other_owner(place)
    folder = Checkpoint(folder=place)
    with ExitStack() as stack, private_files(), folder.held(wait_s=0):
        yield folder, stack


def _spark(folder: "Checkpoint", stack: ExitStack) -> "SparkSession":
    from pyspark.sql import SparkSession

    from streaming.pipeline.spark_session import start_spark

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    print_progress("reading Spark's state")
    spark = start_spark(master="local[1]", logs=folder.logs, settings={})
    stack.callback(spark.stop)
    return spark


def database_to_write(store: "StorePlace") -> "Database":
    """Returns a job's database.

    Raises:
        UsageError: this process runs as root, and the folder belongs to another user.
    """
    from connectors.store.tables import job_database

    if isinstance(store, Path):
        _refuse_root_for_other_owner(store)
    return job_database(store)


def _refuse_root_for_other_owner(checkpoint: Path) -> None:
    """Checks that what this process writes to an existing checkpoint folder can be read by its owner."""
    owner = checkpoint.stat().st_uid
    if os.geteuid() != 0 or owner == 0:
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"#{owner}"
    raise UsageError(
        f"checkpoint {checkpoint} belongs to user {name}, who could not read what root writes: "
        f"run this command as that user, for example with `sudo -u {name}`"
    )
