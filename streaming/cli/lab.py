"""`kraftwatch lab up|down`: a real Kafka quorum on this machine; `demo`: the job monitors one, with faults."""

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from connectors.errors import KraftwatchError, UsageError
from connectors.process.extras import Extra, require

app = typer.Typer(help="Start and stop a real Kafka quorum on this machine, for experiments.", no_args_is_help=True)

LabFolder = Annotated[Path, typer.Option("--directory", help="The quorum's folder: data, logs, configurations.")]
DEFAULT_FOLDER = Path("kraftwatch-lab")
HOLDS = {
    "stale-voter-endpoint": 5.0,
    "observer-could-be-voter": 10.0,
    "voter-disk-replaced": 5.0,
    "partition-stuck-recovering": 5.0,
    "no-leader": 10.0,
    "monitor-blind": 30.0,
}
"""Shorter than in production, so that the demo is short. no-leader has a longer one: with five Kafkas and a Spark on a
busy laptop an election takes longer."""
CLEAR_S = 3.0
UNCLEAN_S = 15.0
"""How long unclean-election fires: the demo waits for its end."""


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
    from deploy.lab import LabError, jars, node, running_quorum

    # Its jars contain the program that downloads Kafka's.
    require(Extra.JOB, "kraftwatch lab up")
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        version = kafka or jars.KAFKA_VERSION
        node.is_dynamic(version)  # rejects an invalid version before the download
        jars.kafka_jars(version)
        lab = running_quorum.RunningQuorum(
            directory,
            controllers=controllers,
            brokers=brokers,
            combined=combined,
            version=version,
            static=static or None,
            named=named,
            supervised=False,
        )
        with console.status("starting the quorum"):
            running_quorum.up(lab)
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
    from deploy.lab import LabError, running_quorum

    try:
        stopped = running_quorum.down(directory)
    except LabError as problem:
        raise UsageError(str(problem)) from None
    Console(stderr=True, highlight=False).print(f"{stopped} nodes stopped; their logs are in {directory}")


def demo(
    *,
    output: Annotated[Path | None, typer.Option(help="Save the output as an SVG picture.", metavar="FILE.svg")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the demo's folder: the quorum's logs and the alerts.")
    ] = False,
    recorded: Annotated[
        bool,
        typer.Option("--recorded", help="Play what a real quorum showed, in ten seconds, without Java and Spark."),
    ] = False,
    sink: Annotated[
        list[str] | None,
        typer.Option(
            help="With --recorded: where alerts are sent, as `run` takes it; default: console. May be repeated.",
            metavar="KIND[:…]",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(help="With --recorded: show the page at this address, until ^C.", metavar="127.0.0.1:9847"),
    ] = None,
) -> None:
    """Inject four faults into a real Kafka quorum while the streaming job monitors it.

    Takes two to three minutes and needs only Java; the first run downloads
    Kafka's jars (45 MB). Each scenario shows the fault, the alerts with their
    detection times, and the fix. The table at the end counts the notifications
    that people get: one when a fault begins, one when it gets worse, one when
    it ends.

    With --recorded, neither Java nor Spark is needed: observations that a real
    quorum gave are evaluated again, seven minutes of them in ten seconds.

    Exit code 0 if every expected alert fired and resolved after its fix, no
    false alert fired, and people got these notifications only; else 1.

      kraftwatch demo --recorded --listen 127.0.0.1:9847

      kraftwatch demo --keep
    """
    if recorded:
        if output is not None or keep:
            raise UsageError("--recorded starts no quorum: do not combine it with --output or --keep")
        _play(sink, listen)
        return
    if sink or listen:
        raise UsageError("--sink and --listen need --recorded: the job of the other demo has its own sink")
    require(Extra.JOB, "kraftwatch demo")
    console = Console(stderr=True, highlight=False, record=output is not None, width=112 if output else None)
    folder = Path(tempfile.mkdtemp(prefix="kraftwatch-demo-"))
    started = time.monotonic()
    good = False
    try:
        good = _run(console, folder, started)
    finally:
        if keep or not good:
            console.print(f"The logs and alerts are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    console.print(f"Duration: {time.monotonic() - started:.0f} s")
    if output is not None:
        console.save_svg(str(output), title="kraftwatch demo")
    raise typer.Exit(0 if good else 1)


def _play(sinks: list[str] | None, listen: str | None) -> None:
    """Plays the recorded incident to the sinks, and to the page if there is an address for it."""
    from connectors.delivery.ledger import Ledger
    from connectors.process.signals import STOP, SignalFlag
    from connectors.store.tables import job_database
    from streaming.cli.config_from_options import resolve_config
    from streaming.cli.options import ConfigOptions
    from streaming.cli.output import print_progress
    from streaming.config import host_port
    from streaming.demo.recorded_incident import CLUSTER, PLAYED_S, WHAT, PlayedIncident, incident_rows
    from streaming.status.status_store import StatusStore
    from streaming.web.api import api
    from streaming.web.fleet_view import FleetView
    from streaming.web.pages import pages
    from streaming.web.server import Server

    # The address is never dialled: all that is known of the cluster is recorded.
    named = ConfigOptions(cluster=[f"{CLUSTER}=127.0.0.1:9093"])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kraftwatch-demo-")))
        config = resolve_config(named, {"sinks": sinks, "listen": listen, "checkpoint": str(folder)})
        stopped, store = stack.enter_context(SignalFlag(*STOP)), StatusStore([CLUSTER])
        opened = [entry.section.open(config.links, config.store_place) for entry in config.sinks]
        incident = PlayedIncident(Ledger(job_database(folder)), opened, store)
        if config.listen is not None:
            view = FleetView(store=store, now_ms=lambda: incident.now_ms)
            server = stack.enter_context(Server(host_port(config.listen), [pages(view), api(view)]))
            print_progress(f"The page: http://{host_port(config.listen)[0]}:{server.port}/clusters/{CLUSTER}")
        rows = incident_rows()
        recorded_s = (rows[-1].observed_at_ms - rows[0].observed_at_ms) / 1_000
        print_progress(f"What a real quorum showed in {recorded_s:.0f} s, in {PLAYED_S:.0f} s: {WHAT}.")
        incident.play(rows, stopped.wait)
        print_progress("Your own cluster: kraftwatch check --cluster prod=c1:9093,c2:9093,c3:9093 (its controllers)")
        if config.listen is not None and not stopped.is_set():
            print_progress("The recording has ended. The page is shown until ^C.")
            stopped.wait()


def _run(console: Console, folder: Path, started: float) -> bool:
    """Starts everything, runs the scenarios and prints the report; returns whether all ended as expected."""
    from deploy.lab import LabError
    from deploy.lab.jars import KAFKA_VERSION, kafka_jars
    from deploy.lab.lab import Lab
    from streaming.demo.job_process import JobProcess, JobProcessError
    from streaming.demo.notification_counter import notification_counter
    from streaming.demo.runner import ScenarioRunner
    from streaming.demo.scenarios import SCENARIOS, ScenarioContext

    settings = {f"{rule}.hold": hold for rule, hold in HOLDS.items()}
    settings["alerts.clear"] = CLEAR_S
    settings["unclean-election.keep_firing_for"] = UNCLEAN_S
    console.print("A real Kafka quorum on loopback: 3 controllers, 2 brokers.")
    try:
        # Shows its own progress at the first run.
        kafka_jars(KAFKA_VERSION)
        with ExitStack() as stack:
            with console.status("starting five Kafka nodes"):
                properties = {"broker.session.timeout.ms": "3000"}
                lab = stack.enter_context(Lab(folder / "lab", named=True, properties=properties))
            console.print(f"  the quorum answered after {time.monotonic() - started:.0f} s")
            with console.status("starting the streaming job"):
                counter = stack.enter_context(notification_counter())
                job = JobProcess(
                    folder=folder / "job",
                    bootstrap=lab.bootstrap,
                    hosts_file=lab.hosts_file,
                    settings=settings,
                    arguments=("--sink", f"webhook:{counter.url}"),
                    # A proxy of the user's environment does not reach this machine's loopback address.
                    environment={"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
                )
                stack.enter_context(job)
            console.print(f"  the streaming job monitors it after {time.monotonic() - started:.0f} s")
            context = ScenarioContext(lab=lab, job=job, say=lambda text: console.print(Text(f"  {text}", style="dim")))
            runner = ScenarioRunner(context=context, counter=counter, holds=HOLDS, console=console)
            for number, scenario in enumerate(SCENARIOS, start=1):
                runner.run(number, len(SCENARIOS), scenario)
            runner.report()
            return not runner.problems
    except (JobProcessError, LabError) as problem:
        raise KraftwatchError(str(problem)) from None
