"""`kraftwatch lab up|down`: a real local quorum to play with."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from connectors.errors import UsageError
from streaming.demo.spinner import waiting

app = typer.Typer(help="A real Kafka quorum on this machine to play with.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--directory", help="The quorum's folder: data, logs, configurations.")]
FOLDER = Path("kraftwatch-lab")


@app.command()
def up(
    directory: Folder = FOLDER,
    controllers: Annotated[int, typer.Option(min=0, help="Nodes with the controller role alone.")] = 3,
    brokers: Annotated[int, typer.Option(min=0, help="Nodes with the broker role alone.")] = 2,
    combined: Annotated[int, typer.Option(min=0, help="Nodes with both roles.")] = 0,
    kafka: Annotated[
        str | None, typer.Option("--kafka", metavar="VERSION", help="The Kafka to run, 3.9.2 for one; else the newest.")
    ] = None,
    *,
    static: Annotated[
        bool,
        typer.Option("--static", help="Voters by controller.quorum.voters; before Kafka 3.9 there is no other way."),
    ] = False,
    named: Annotated[
        bool, typer.Option("--named", help="Controllers advertise names that only a hosts file knows.")
    ] = False,
) -> None:
    """Start a real Kafka quorum that stays until `lab down`, and say how to watch it.

    The first time it fetches Kafka's jars (45 MB) from Maven Central into your
    cache folder.

      kraftwatch lab up --controllers 3 --brokers 1
    """
    from deploy.lab import jars, kafka_versions, persistent_quorum
    from deploy.lab.lab_errors import LabError

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        version = kafka or jars.KAFKA_VERSION
        kafka_versions.is_dynamic(version)  # refuses what is no version before anything is fetched
        jars.kafka_jars(version)
        with waiting(console, "starting the quorum"):
            lab = persistent_quorum.up(
                directory,
                controllers=controllers,
                brokers=brokers,
                combined=combined,
                version=version,
                static=static or None,
                named=named,
            )
    except LabError as problem:
        raise UsageError(str(problem)) from None
    hosts = "" if lab.hosts_file is None else f" --hosts-file {lab.hosts_file}"
    console.print(f"Kafka {lab.version}, cluster {lab.cluster_id}, in {lab.directory}")
    console.print(f"  controllers  {', '.join(lab.bootstrap)}")
    console.print(f"  brokers      {', '.join(lab.broker_bootstrap) or 'none'}")
    # Who does not tell its cluster's id cannot be watched by addresses alone.
    verb = "run" if kafka_versions.tells_its_cluster(lab.version) else "status --watch"
    console.print(f"Watch it:  kraftwatch {verb} --cluster lab={','.join(lab.bootstrap)}{hosts}")
    console.print(f"End it:    kraftwatch lab down --directory {lab.directory}")


@app.command()
def down(directory: Folder = FOLDER) -> None:
    """End every node of the quorum in a folder; the folder and its logs stay.

    kraftwatch lab down
    """
    from deploy.lab import persistent_quorum
    from deploy.lab.lab_errors import LabError

    try:
        ended = persistent_quorum.down(directory)
    except LabError as problem:
        raise UsageError(str(problem)) from None
    Console(stderr=True, highlight=False).print(f"{ended} nodes ended; their logs are in {directory}")
