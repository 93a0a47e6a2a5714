"""`kraftwatch demo`: faults injected into a real quorum while the real job monitors it."""

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from connectors.errors import KraftwatchError
from streaming.demo.spinner import waiting

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
UNCLEAN_S = 30.0
"""How long unclean-election fires: the demo waits for its end."""


def demo(
    *,
    picture: Annotated[Path | None, typer.Option(help="Save the output as an SVG picture.", metavar="FILE.svg")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the demo's folder: the quorum's logs and the alerts.")
    ] = False,
) -> None:
    """Inject four faults into a real Kafka quorum while the streaming job monitors it.

    Takes two to three minutes and needs only Java; the first run downloads
    Kafka's jars (45 MB). Each scenario shows the fault, the alerts with their
    detection times, and the fix. The table at the end counts the notifications
    that people get: one when a fault begins, one when it gets worse, one when
    it ends.

    Exit code 0 if every expected alert fired and resolved after its fix, no
    false alert fired, and people got these notifications only; else 1.

      kraftwatch demo --keep
    """
    console = Console(stderr=True, highlight=False, record=picture is not None, width=112 if picture else None)
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
    if picture is not None:
        console.save_svg(str(picture), title="kraftwatch demo")
    raise typer.Exit(0 if good else 1)


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
    settings |= {f"{rule}.clear": CLEAR_S for rule in (*HOLDS, "unclean-election")}
    settings["unclean-election.keep_firing_for"] = UNCLEAN_S
    console.print("A real Kafka quorum on loopback: 3 controllers, 2 brokers.")
    try:
        # Shows its own progress at the first run.
        kafka_jars(KAFKA_VERSION)
        with ExitStack() as stack:
            with waiting(console, "starting five Kafka nodes"):
                properties = {"broker.session.timeout.ms": "3000"}
                lab = stack.enter_context(Lab(folder / "lab", named=True, properties=properties))
            console.print(f"  the quorum answered after {time.monotonic() - started:.0f} s")
            with waiting(console, "starting the streaming job"):
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
            return runner.good
    except (JobProcessError, LabError) as problem:
        raise KraftwatchError(str(problem)) from None
