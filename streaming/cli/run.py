"""`kraftwatch run`: the streaming job; `kraftwatch relay`: its gatherer beside the controllers."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process.json_log import use_format
from streaming.cli import options
from streaming.cli.config_from_options import resolve_config
from streaming.cli.output import print_progress

if TYPE_CHECKING:
    from streaming.config import Config


@dataclass(frozen=True, kw_only=True)
class RunOptions(options.ConfigOptions):
    """The options of `run`."""

    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="The folder of the job's state. Keep it: a restart continues from it. With --work-dir, the folder or "
            "URI (hdfs://, s3a://) of Spark's state alone.",
            metavar="DIR",
        ),
    ] = None
    work_dir: Annotated[
        Path | None,
        typer.Option(help="With source: kafka, this machine's folder of everything but Spark's state.", metavar="DIR"),
    ] = None
    sink: Annotated[
        list[str] | None,
        typer.Option(
            help="Where alerts are sent: console, jsonl:PATH, kafka:HOST:PORT/TOPIC, alertmanager:URL, "
            "slack:WEBHOOK-URL, pagerduty:KEY, webhook:URL, apprise:URL. A secret may be in a file: slack:@FILE. May "
            "be repeated.",
            metavar="KIND[:…]",
        ),
    ] = None
    master: Annotated[
        str | None, typer.Option(help="Spark's master: local[2], spark://HOST:PORT; default: local[2].")
    ] = None
    listen: Annotated[
        str | None,
        typer.Option(
            help="Serve the page, /api/clusters, /metrics, /healthz and /readyz at this address. They "
            "need no login: use loopback, or set listen_certfile and listen_token_file in the configuration file.",
            metavar="127.0.0.1:9847",
        ),
    ] = None


@options.with_options(RunOptions)
def run(opts: RunOptions) -> None:
    """Monitor clusters continuously and send alerts.

    Give a configuration file, or clusters on the command line; options override
    the file. Stop it with ^C or SIGTERM at any time: the next start continues
    from the checkpoint, sends no alert twice and loses none.

    A changed configuration file takes effect within two seconds, or at once on
    SIGHUP. One that is invalid, or that changes a key that needs a restart, is
    rejected with an error message, and the old configuration stays in effect.

    Exit codes: 0 stopped by a signal, 1 the query failed, 2 invalid usage.

      kraftwatch run --cluster prod=c1:9093,c2:9093,c3:9093 --sink console

      kraftwatch run --config kraftwatch.yaml --listen 127.0.0.1:9847
    """
    from streaming.config.exposure import open_page
    from streaming.config.reload import ConfigFile

    more = {key: getattr(opts, key) for key in ("checkpoint", "work_dir", "master", "listen")} | {"sinks": opts.sink}

    def read() -> "Config":
        return resolve_config(opts, more)

    # Created before the first read, so that a write in between is detected as a change.
    file = None if opts.config is None else ConfigFile(opts.config, read)
    resolved = read()
    use_format(resolved.log_format)
    page = open_page(resolved)
    if page is not None:
        print_progress(f"warning: {page}")
    # Imported here: Spark takes a second to import, and usage errors must not wait for it.
    from streaming.job import run as job

    job.run(resolved, say=print_progress, file=file)


@dataclass(frozen=True, kw_only=True)
class RelayOptions(options.GatherOptions):
    """The options of `relay`."""

    folder: Annotated[
        Path | None,
        typer.Option(help="The relay's folder; default: relay.folder of the configuration.", metavar="DIR"),
    ] = None
    listen: Annotated[
        str | None,
        typer.Option(
            help="Serve /metrics, /healthz and /readyz of the relay at this address, and take the rows of witnesses.",
            metavar="127.0.0.1:9848",
        ),
    ] = None


@options.with_options(RelayOptions)
def relay(opts: RelayOptions) -> None:
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
    resolved = resolve_config(opts)
    use_format(resolved.log_format)
    # The job's page in the same file is not the relay's.
    changes: dict[str, object] = {"listen": opts.listen}
    if resolved.relay is not None and opts.folder is not None:
        changes["relay"] = resolved.relay.model_copy(update={"folder": opts.folder})
    # Imported here: flask and confluent-kafka take a second to import.
    from streaming.job.relay_job import run_relay

    run_relay(resolved.model_copy(update=changes), say=print_progress)
