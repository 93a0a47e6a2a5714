"""`kraftwatch rescue`: assesses the disks of a stopped quorum, writes new voter endpoints into one node, undoes it."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from rules.formatting import visible
from streaming.cli.options import AsJson
from streaming.cli.output import print_json, print_progress, print_text

app = typer.Typer(
    help="Recover a quorum whose recorded voter endpoints no longer lead to the voters.", no_args_is_help=True
)

OneLogDir: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--log-dir", help="The metadata.log.dir (or the first of log.dirs) of this one stopped node.", metavar="DIR"
    ),
]
Backup: TypeAlias = Annotated[
    Path | None,
    typer.Option("--backup", help="The folder for the copy of the old files; default: beside DIR.", metavar="FOLDER"),
]


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
    probe: Annotated[
        bool,
        typer.Option(
            "--probe/--no-probe",
            help="Without a list: connect to the proposed endpoints, for 5 s at most, and print what answers there.",
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Dry run: assess the disks of a stopped quorum and choose the best.

    Prints where each log ends, which log is the most complete, whether it holds
    every committed record, and where the voter sets differ. For a new voter
    list it prints what the override of KIP-1347 would change, reject or leave
    unchanged. Without one it proposes the list from what the controllers
    registered, and probes whether they answer there. Writes nothing.

    Exit codes: 0 the list may be written, changes nothing, or was not given;
    2 it is rejected, too few voters would start with the files on their disks
    (or invalid usage).

      kraftwatch rescue plan --log-dir c1/metadata --log-dir c2/metadata
    """
    from streaming.query.from_log_dir import replay_or_empty
    from streaming.rescue.plan_output import plan_json, plan_text, probed_endpoints, proposal
    from streaming.rescue.rescue_plan import make_plan

    rescue_plan = make_plan([replay_or_empty(folder) for folder in log_dir], initial_controllers)
    voters = proposal(rescue_plan) if probe else ()
    probes = probed_endpoints(voters, rescue_plan.cluster_id, say=print_progress)
    if as_json:
        print_json({**plan_json(rescue_plan), "probes": [endpoint.as_json() for endpoint in probes]})
    else:
        print_text(plan_text(rescue_plan, probes))
    raise typer.Exit(0 if rescue_plan.refusal is None and not rescue_plan.must_be_repaired else 2)


@app.command("apply")
def apply(
    log_dir: OneLogDir,
    initial_controllers: Annotated[
        str,
        typer.Option(
            "--initial-controllers",
            help="All voters with their new endpoints, in the format of kafka-storage: ID@HOST:PORT:DIRECTORY_ID,…",
            metavar="LIST",
        ),
    ],
    backup: Backup = None,
    kafka_home: Annotated[
        Path | None,
        typer.Option(
            "--kafka-home",
            help="A Kafka installation: its own reader checks the snapshot too, before it gets its name.",
            envvar="KAFKA_HOME",
            metavar="DIR",
        ),
    ] = None,
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            help="A plan of all nodes (`rescue plan --json`): refuses what it refuses for this node.",
            metavar="FILE",
        ),
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Write. Without it, this is a dry run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write new voter endpoints into ONE stopped node, controller or broker.

    Adds one snapshot that holds the node's whole log and the new endpoints;
    the log stays as it is, and a copy of it is made first. Without --yes nothing
    is written. Make a plan of all nodes before: `kraftwatch rescue plan`. Run it
    as the user that Kafka runs as.

    Exit codes: 0 done, or nothing to do; 2 refused or failed, and nothing was
    changed, unless the message says that the snapshot is in place.

      kraftwatch rescue apply --log-dir /var/lib/kafka/metadata \\
          --initial-controllers 1@c1.new:9093:AaorEeDFTeqhbYUKWjaZFw,… --yes
    """
    from streaming.rescue.apply_voters import apply_voters, result_json, result_text

    result = apply_voters(
        log_dir, initial_controllers, write=yes, backup=backup, kafka_home=kafka_home, plan_file=plan_file
    )
    if as_json:
        print_json(result_json(result))
    else:
        print_text(result_text(result))


@app.command("undo")
def undo(log_dir: OneLogDir, backup: Backup = None, *, as_json: AsJson = False) -> None:
    """Restore ONE node to what it was before `rescue apply`, while it was not started since.

    Run it as the user that Kafka runs as.

    Exit codes: 0 done, or nothing to do; 2 refused or failed, and nothing was
    changed, unless the message says that the node is as before the rescue.

      kraftwatch rescue undo --log-dir /var/lib/kafka/metadata
    """
    from streaming.rescue.apply_voters import undo as undo_apply

    place, changed = undo_apply(log_dir, backup)
    if as_json:
        print_json({"restored": changed, "backup": str(place)})
    elif changed:
        print_text(f"Restored from {visible(str(place))}. The backup is kept.")
    else:
        print_text("Nothing to do: the node is as it was before the rescue.")
