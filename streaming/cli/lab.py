"""`kraftwatch lab up|down`: a real Kafka quorum on this machine, for experiments."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from connectors.errors import UsageError
from streaming.demo.spinner import waiting

app = typer.Typer(help="Start and stop a real Kafka quorum on this machine, for experiments.", no_args_is_help=True)

LabFolder = Annotated[Path, typer.Option("--directory", help="The quorum's folder: data, logs, configurations.")]
DEFAULT_FOLDER = Path("kraftwatch-lab")


@app.command()
def up(
    directory: LabFolder = DEFAULT_FOLDER,
    controllers: Annotated[int, typer.Option(min=0, help="Number of nodes with only the controller role.")] = 3,
    brokers: Annotated[int, typer.Option(min=0, help="Number of nodes with only the broker role.")] = 2,
    combined: Annotated[int, typer.Option(min=0, help="Number of nodes with both roles.")] = 0,
    kafka: Annotated[
        str | None,
        typer.Option("--kafka", metavar="VERSION", help="Kafka's version, such as 3.9.2; default: the newest."),
    ] = None,
    *,
    static: Annotated[
        bool,
        typer.Option("--static", help="A static quorum (controller.quorum.voters); the only kind before Kafka 3.9."),
    ] = False,
    named: Annotated[
        bool, typer.Option("--named", help="Controllers advertise host names that only a hosts file resolves.")
    ] = False,
) -> None:
    """Start a real Kafka quorum that runs until `lab down`.

    Prints the command that monitors it. The first run downloads Kafka's jars
    (45 MB) from Maven Central into your cache folder.

      kraftwatch lab up --controllers 3 --brokers 1
    """
    from deploy.lab import LabError, jars, node, persistent_quorum
    from deploy.lab.running_quorum import RunningQuorum

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        version = kafka or jars.KAFKA_VERSION
        node.is_dynamic(version)  # rejects an invalid version before the download
        jars.kafka_jars(version)
        lab = RunningQuorum(
            directory,
            controllers=controllers,
            brokers=brokers,
            combined=combined,
            version=version,
            static=static or None,
            named=named,
            supervised=False,
        )
        with waiting(console, "starting the quorum"):
            persistent_quorum.up(lab)
    except LabError as problem:
        raise UsageError(str(problem)) from None
    hosts = "" if lab.hosts_file is None else f" --hosts-file {lab.hosts_file}"
    console.print(f"Kafka {lab.version}, cluster {lab.cluster_id}, in {lab.directory}")
    console.print(f"  controllers  {', '.join(lab.bootstrap)}")
    console.print(f"  brokers      {', '.join(lab.broker_bootstrap) or 'none'}")
    # `run` needs a cluster id, which old Kafka versions do not report.
    verb = "run" if node.controllers_accept_clients(lab.version) else "status --watch"
    console.print(f"Monitor it:  kraftwatch {verb} --cluster lab={','.join(lab.bootstrap)}{hosts}")
    console.print(f"Stop it:     kraftwatch lab down --directory {lab.directory}")


@app.command()
def down(directory: LabFolder = DEFAULT_FOLDER) -> None:
    """Stop every node of the quorum; its folder and logs are kept.

    kraftwatch lab down
    """
    from deploy.lab import LabError, persistent_quorum

    try:
        stopped = persistent_quorum.down(directory)
    except LabError as problem:
        raise UsageError(str(problem)) from None
    Console(stderr=True, highlight=False).print(f"{stopped} nodes stopped; their logs are in {directory}")
