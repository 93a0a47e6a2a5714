"""`kraftwatch rescue`: assesses the disks of a stopped quorum, writes new voter endpoints into one node, undoes it."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from connectors.errors import UsageError
from rules.formatting import visible
from rules.model.identifiers import NodeId
from streaming.cli.options import AsJson
from streaming.cli.output import print_json, print_progress, print_text

app = typer.Typer(
    help="Recover a quorum that cannot elect a leader: other voter endpoints, or a lost majority.",
    no_args_is_help=True,
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

Lost: TypeAlias = Annotated[
    str | None,
    typer.Option("--lost", help="All voters whose disks are gone for good, such as 2,3.", metavar="IDS"),
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
    lost: Lost = None,
    log_of: Annotated[
        int | None,
        typer.Option("--log-of", help="With --lost: go on with the log of this broker.", metavar="BROKER"),
    ] = None,
    *,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="With --lost: accept that committed records may be lost."),
    ] = False,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe/--no-probe",
            help="Without a list: connect to the proposed endpoints, with --lost to those of the lost voters, for 5 s "
            "at most, and print what answers there.",
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

    With --lost, all voters whose disks are gone for good: plans a quorum of
    the voters that are left. If these may lack committed records, it is
    refused, with what may be missing, until --accept-loss is given.

    Exit codes: 0 the list may be written, changes nothing, or was not given;
    2 it is rejected, too few voters would start with the files on their disks,
    committed records may be lost (or invalid usage).

      kraftwatch rescue plan --log-dir c1/metadata --log-dir c2/metadata
    """
    from streaming.query.from_log_dir import replay_or_empty
    from streaming.rescue.lost_plan import LostRequest, lost_voters, parse_lost, plan_without, require_lost_options
    from streaming.rescue.plan_output import plan_json, plan_text, probed_endpoints, proposal, require_no_answer
    from streaming.rescue.rescue_plan import make_plan

    found = [replay_or_empty(folder) for folder in log_dir]
    if lost is None:
        require_lost_options({"--accept-loss": accept_loss, "--log-of": log_of is not None})
        rescue_plan = make_plan(found, initial_controllers)
        voters = proposal(rescue_plan)
    else:
        broker = None if log_of is None else NodeId(log_of)
        request = LostRequest(nodes=parse_lost(lost), accept_loss=accept_loss, log_of=broker)
        rescue_plan = plan_without(make_plan(found, None), request, initial_controllers)
        voters = lost_voters(rescue_plan)
    probes = probed_endpoints(voters if probe else (), rescue_plan.cluster_id, say=print_progress)
    if lost is not None:
        require_no_answer(probes)
    if as_json:
        print_json({**plan_json(rescue_plan), "probes": [endpoint.as_json() for endpoint in probes]})
    else:
        print_text(plan_text(rescue_plan, probes))
    raise typer.Exit(0 if rescue_plan.refusal is None and not rescue_plan.must_be_repaired else 2)


@app.command("apply")
def apply(
    log_dir: OneLogDir,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            help="All voters with their new endpoints, in the format of kafka-storage: ID@HOST:PORT:DIRECTORY_ID,…",
            metavar="LIST",
        ),
    ] = None,
    lost: Lost = None,
    log_of: Annotated[
        Path | None,
        typer.Option(
            "--log-of",
            help="With --lost: the log directory of the broker whose log the plan goes on with.",
            metavar="DIR",
        ),
    ] = None,
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
    probe: Annotated[
        bool,
        typer.Option(
            "--probe/--no-probe",
            help="With --lost: connect to the endpoints of the lost voters, for 5 s at most; refuse if one answers.",
        ),
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", help="Write. Without it, this is a dry run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write new voter endpoints into ONE stopped node, controller or broker.

    Adds one snapshot that holds the node's whole log and the new endpoints;
    the log stays as it is, and a copy of it is made first. Without --yes nothing
    is written. Make a plan of all nodes before: `kraftwatch rescue plan`. Run it
    as the user that Kafka runs as.

    With --lost and a plan for the same lost voters, the snapshot has the
    voters that are left instead.

    Exit codes: 0 done, or nothing to do; 2 refused or failed, and nothing was
    changed, unless the message says that the snapshot is in place.

      kraftwatch rescue apply --log-dir /var/lib/kafka/metadata \\
          --initial-controllers 1@c1.new:9093:AaorEeDFTeqhbYUKWjaZFw,… --yes
    """
    from streaming.rescue.apply_voters import apply_quorum, apply_voters, result_json, result_text
    from streaming.rescue.lost_plan import parse_lost, require_lost_options
    from streaming.rescue.plan_output import probed_endpoints, require_no_answer
    from streaming.rescue.planned_quorum import read_planned_quorum

    if lost is None:
        require_lost_options({"--log-of": log_of is not None})
        if initial_controllers is None:
            raise UsageError("give --initial-controllers, or --lost with --plan")
        result = apply_voters(
            log_dir, initial_controllers, write=yes, backup=backup, kafka_home=kafka_home, plan_file=plan_file
        )
    else:
        if plan_file is None or initial_controllers is not None:
            raise UsageError("--lost takes the new voters from --plan: give the plan, and no --initial-controllers")
        nodes = parse_lost(lost)
        planned = read_planned_quorum(plan_file, nodes)
        require_no_answer(
            probed_endpoints(planned.lost_voters if probe else (), planned.cluster_id, say=print_progress)
        )
        result = apply_quorum(
            log_dir, nodes, write=yes, backup=backup, kafka_home=kafka_home, plan_file=plan_file, log_of=log_of
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
