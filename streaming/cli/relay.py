"""`kraftwatch relay`: gathers beside the controllers and writes to a Kafka topic."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from streaming.cli import config_from_options, options
from streaming.cli.output import print_progress

Listen: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Serve /metrics, /healthz and /readyz of the relay at this address.",
        metavar="127.0.0.1:9848",
    ),
]


def relay(
    config: options.ConfigFile = None,
    only: options.Only = None,
    cluster: options.Clusters = None,
    resolve: options.Resolve = None,
    hosts_file: options.HostsFile = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="The relay's folder; default: relay.folder of the configuration.", metavar="DIR"),
    ] = None,
    listen: Listen = None,
) -> None:
    """Gather beside the controllers and write all observations to a topic.

    The relay queries the clusters as `kraftwatch run` does and writes each
    observation to the topic of `relay` in the configuration. A job with
    `source: kafka` reads the topic and needs no connection to the controllers.
    Two relays of the same clusters are a pair: one writes, and the other takes
    over. Several pairs share the clusters of a file by --only.

    While the brokers do not answer, the relay keeps the rows in its folder. Stop
    it with ^C or SIGTERM at any time: the next start continues from there.
    SIGHUP writes every metadata log again from its start, if this relay writes.

    Exit codes: 0 stopped by a signal, 1 a failure of this machine, 2 invalid
    usage.

      kraftwatch relay --config kraftwatch.yaml

      kraftwatch relay --config kraftwatch.yaml --only prod-eu,prod-us
    """
    resolved = config_from_options.resolve_config(
        config=config, cluster=cluster, resolve=resolve, hosts_file=hosts_file, only=only
    )
    # The job's page in the same file is not the relay's.
    changes: dict[str, object] = {"listen": listen}
    if resolved.relay is not None and folder is not None:
        changes["relay"] = resolved.relay.model_copy(update={"folder": folder})
    # Imported here: flask and confluent-kafka take a second to import.
    from streaming.job.relay_job import run_relay

    run_relay(resolved.model_copy(update=changes), say=print_progress)
