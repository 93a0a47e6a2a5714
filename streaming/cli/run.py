"""`kraftwatch run`: the streaming job."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from connectors.errors import UsageError
from streaming.config import Config, checked, load


def run(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A YAML file with clusters, sinks and thresholds.")
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(help="NAME=HOST:PORT,HOST:PORT,… controllers of a cluster. May be given again.", metavar="NAME=…"),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="The job's memory. Keep it: a restart goes on from it.")
    ] = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(help="Where to tell: console, jsonl:PATH. May be given again.", metavar="KIND[:…]"),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A rule's threshold, as no-leader.hold=10 (seconds).", metavar="RULE.NAME=VALUE"),
    ] = None,
    resolve: Annotated[
        list[str] | None,
        typer.Option(help="Resolve HOST to ADDR, as curl does. May be given again.", metavar="HOST=ADDR"),
    ] = None,
    hosts_file: Annotated[
        Path | None,
        typer.Option(help="In the format of /etc/hosts, read again at each look; wins over DNS."),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master: local[2], spark://HOST:PORT. [default: local[2]]")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Serve /healthz and /readyz here.", metavar="127.0.0.1:9847")
    ] = None,
) -> None:
    """Watch one cluster or many, for months.

    Give a configuration file, or clusters on the command line; options win over the file. Stop it with ^C or
    SIGTERM at any time: it goes on from its checkpoint, tells nothing twice and forgets nothing.

    Exit codes: 0 stopped when told to, 1 the query failed, 2 something given cannot be.
    """
    data = _from_file(config)
    data["clusters"] = [*data.get("clusters", []), *[_cluster(text) for text in cluster or []]]
    if not data["clusters"]:
        raise UsageError("nothing to watch: give --cluster NAME=HOST:PORT,… or --config FILE")
    for section in data["clusters"]:
        section["resolve"] = {**section.get("resolve", {}), **dict(_pair(text, "--resolve") for text in resolve or [])}
        if hosts_file is not None:
            section["hosts_file"] = hosts_file
    data["thresholds"] = _thresholds(data.get("thresholds", {}), setting or [])
    given = {"checkpoint": checkpoint, "sinks": sink, "master": master, "listen": listen}
    data.update({key: value for key, value in given.items() if value})
    settled = checked(data, "options" if config is None else f"{config} and options")
    # Spark's import takes a second: a mistake in the options should not wait for it.
    from streaming import job

    say = Console(stderr=True, highlight=False, soft_wrap=True)
    job.run(settled, say=lambda text: say.print(f"kraftwatch: {text}", markup=False, style="dim"))
    sys.stderr.flush()


def _from_file(path: Path | None) -> dict[str, Any]:
    """The file's settings as plain data again, so that options can be laid over them."""
    if path is None:
        return {}
    config: Config = load(path)
    data = config.model_dump(exclude_unset=True)
    data["clusters"] = [dict(section) for section in data["clusters"]]
    return data


def _cluster(text: str) -> dict[str, Any]:
    name, addresses = _pair(text, "--cluster")
    return {"name": name, "bootstrap": [part.strip() for part in addresses.split(",") if part.strip()]}


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        forms = {"--cluster": "NAME=HOST:PORT,…", "--resolve": "HOST=ADDR", "--set": "RULE.NAME=VALUE"}
        raise UsageError(f"{option} {text}: expected {forms[option]}")
    return key, value


def _thresholds(base: dict[str, dict[str, float]], settings: list[str]) -> dict[str, dict[str, float]]:
    thresholds = {rule: dict(values) for rule, values in base.items()}
    for text in settings:
        key, value = _pair(text, "--set")
        rule, dot, name = key.partition(".")
        if not dot:
            raise UsageError(f"--set {text}: expected RULE.NAME=VALUE, as no-leader.hold=10")
        try:
            thresholds.setdefault(rule, {})[name] = float(value)
        except ValueError:
            raise UsageError(f"--set {text}: '{value}' is not a number") from None
    return thresholds
