"""`kraftwatch run`: the streaming job."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streaming.cli import given


def run(
    config: given.ConfigFile = None,
    cluster: given.Clusters = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="The job's memory. Keep it: a restart goes on from it.")
    ] = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(help="Where to tell: console, jsonl:PATH. May be given again.", metavar="KIND[:…]"),
    ] = None,
    setting: given.Settings = None,
    resolve: given.Resolve = None,
    hosts_file: given.HostsFile = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master: local[2], spark://HOST:PORT. [default: local[2]]")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Serve /healthz and /readyz here.", metavar="127.0.0.1:9847")
    ] = None,
) -> None:
    """Watch one cluster or many, for months.

    Give a configuration file, or clusters on the command line; options win
    over the file. Stop it with ^C or SIGTERM at any time: it goes on from its
    checkpoint, tells nothing twice and forgets nothing.

    Exit codes: 0 stopped when told to, 1 the query failed, 2 something given
    cannot be.
    """
    settled = given.settled(
        config=config,
        cluster=cluster,
        setting=setting,
        resolve=resolve,
        hosts_file=hosts_file,
        more={"checkpoint": checkpoint, "sinks": sink, "master": master, "listen": listen},
    )
    # Spark's import takes a second: a mistake in the options should not wait for it.
    from streaming import job

    say = Console(stderr=True, highlight=False, soft_wrap=True)
    job.run(settled, say=lambda text: say.print(f"kraftwatch: {text}", markup=False, style="dim"))
    sys.stderr.flush()
