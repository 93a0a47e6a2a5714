"""`kraftwatch demo`: a real quorum, hurt and healed before your eyes, watched by the real job."""

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
"""Lower than a production cluster would want, so that nobody has to wait; but for no-leader's, because five Kafkas
beside a Spark on a busy laptop take longer over an election."""
CLEAR_S = 3.0


class DemoError(KraftwatchError):
    """The demo could not be played, or something was not told."""

    code = "demo"


def demo(
    *,
    picture: Annotated[
        Path | None, typer.Option(help="Save what the demo showed as an SVG picture.", metavar="FILE.svg")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the demo's folder: the quorum's logs and the alerts.")
    ] = False,
) -> None:
    """Hurt a real Kafka quorum in four ways, and watch it with the streaming job.

    Takes two to three minutes and needs nothing but Java; the first time it
    fetches Kafka's jars (45 MB). Each scene shows what was done, what
    kraftwatch told and when, and how it was mended.

    Exit code 0 if everything was told, everything mended resolved, and
    nothing false fired.

      kraftwatch demo --keep
    """
    console = Console(stderr=True, highlight=False, record=picture is not None, width=112 if picture else None)
    folder = Path(tempfile.mkdtemp(prefix="kraftwatch-demo-"))
    started = time.monotonic()
    good = False
    try:
        good = _play(console, folder, started)
    finally:
        if keep or not good:
            console.print(f"Everything that was written is in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    console.print(f"It took {time.monotonic() - started:.0f} s.")
    if picture is not None:
        console.save_svg(str(picture), title="kraftwatch demo")
    raise typer.Exit(0 if good else 1)


def _play(console: Console, folder: Path, started: float) -> bool:
    """Bring everything up, play the scenes, report; whether all was told and nothing false fired."""
    from deploy.lab.jars import KAFKA_VERSION, kafka_jars
    from deploy.lab.lab import Lab
    from deploy.lab.lab_errors import LabError
    from streaming.demo.job_process import Watcher, WatcherError
    from streaming.demo.runner import Stage
    from streaming.demo.scenario import Play
    from streaming.demo.scenarios import SCENES

    settings = {f"{rule}.hold": hold for rule, hold in HOLDS.items()}
    settings |= {f"{rule}.clear": CLEAR_S for rule in HOLDS}
    console.print("A real Kafka quorum on loopback: 3 controllers, 2 brokers.")
    try:
        # It shows its own progress the first time.
        kafka_jars(KAFKA_VERSION)
        with ExitStack() as stack:
            with waiting(console, "starting five Kafka nodes"):
                properties = {"broker.session.timeout.ms": "3000"}
                lab = stack.enter_context(Lab(folder / "lab", named=True, properties=properties))
            console.print(f"  the quorum answers after {time.monotonic() - started:.0f} s")
            with waiting(console, "starting the streaming job"):
                watcher = Watcher(
                    folder=folder / "watch", bootstrap=lab.bootstrap, hosts_file=lab.hosts_file, settings=settings
                )
                stack.enter_context(watcher)
            console.print(f"  the streaming job watches it after {time.monotonic() - started:.0f} s")
            play = Play(lab=lab, watcher=watcher, say=lambda text: console.print(Text(f"  {text}", style="dim")))
            stage = Stage(play=play, holds=HOLDS, console=console)
            for number, scene in enumerate(SCENES, start=1):
                stage.act(number, len(SCENES), scene)
            stage.report()
            return stage.good
    except (WatcherError, LabError) as problem:
        raise DemoError(str(problem)) from None
