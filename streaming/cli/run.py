"""`kraftwatch run`: the streaming job."""

import sys
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from streaming.cli import options
from streaming.cli.output import note
from streaming.config import Config
from streaming.config.reload import ConfigFile

Folder: TypeAlias = Annotated[
    Path | None, typer.Option("--checkpoint", help="The job's memory. Keep it: a restart goes on from it.")
]
Sinks: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--sink",
        help="Where to tell: console, jsonl:PATH, kafka:HOST:PORT/TOPIC, alertmanager:URL, slack:WEBHOOK-URL, "
        "pagerduty:KEY, webhook:URL, apprise:URL. A secret may stand in a file: slack:@FILE. May be given again.",
        metavar="KIND[:…]",
    ),
]
Master: TypeAlias = Annotated[
    str | None, typer.Option(help="Spark's master: local[2], spark://HOST:PORT. [default: local[2]]")
]
Listen: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Serve the page, /api/clusters, /metrics, /healthz and /readyz here: read-only and without a login, "
        "so on loopback or a network of your own.",
        metavar="127.0.0.1:9847",
    ),
]


def run(
    config: options.ConfigFile = None,
    cluster: options.Clusters = None,
    only: options.Only = None,
    checkpoint: Folder = None,
    sink: Sinks = None,
    setting: options.Settings = None,
    resolve: options.Resolve = None,
    hosts_file: options.HostsFile = None,
    master: Master = None,
    listen: Listen = None,
) -> None:
    """Watch one cluster or many, for months.

    Give a configuration file, or clusters on the command line; options win
    over the file. Stop it with ^C or SIGTERM at any time: it goes on from its
    checkpoint, tells nothing twice and forgets nothing.

    A configuration file that changes is put in force within two seconds, and
    at once on SIGHUP; one that cannot be is refused with a sentence, and what
    was in force stays so. Only checkpoint, master, spark and listen need a
    restart.

    Exit codes: 0 stopped when told to, 1 the query failed, 2 something given
    cannot be.

      kraftwatch run --cluster prod=c1:9093,c2:9093,c3:9093 --sink console

      kraftwatch run --config kraftwatch.yaml --listen 127.0.0.1:9847
    """

    def read() -> Config:
        return options.settled(
            config=config,
            cluster=cluster,
            setting=setting,
            resolve=resolve,
            hosts_file=hosts_file,
            only=only,
            more={"checkpoint": checkpoint, "sinks": sink, "master": master, "listen": listen},
        )

    # Looked at before it is read: what is written in between is a change.
    file = None if config is None else ConfigFile(config, read)
    settled = read()
    # Spark's import takes a second: a mistake in the options should not wait for it.
    from streaming.job import job

    job.run(settled, say=note, file=file)
    sys.stderr.flush()
