"""What is given on the command line: clusters, names, thresholds; the same for every verb that looks at a cluster."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from connectors.errors import UsageError
from streaming.config import Config, checked, load

ConfigFile: TypeAlias = Annotated[
    Path | None, typer.Option("--config", "-c", help="A YAML file with clusters, sinks and thresholds.")
]
Clusters: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster", help="NAME=HOST:PORT,HOST:PORT,… controllers of a cluster. May be given again.", metavar="NAME=…"
    ),
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", help="A rule's threshold, as no-leader.hold=10 (seconds).", metavar="RULE.NAME=VALUE"),
]
Resolve: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--resolve", help="Resolve HOST to ADDR, as curl does. May be given again.", metavar="HOST=ADDR"),
]
HostsFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--hosts-file", help="In the format of /etc/hosts, read again at each look; wins over DNS."),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object a cluster, one a line, to stdout.")]
Timeout: TypeAlias = Annotated[
    float, typer.Option("--timeout", min=1.0, max=600.0, help="Seconds to wait for what is missing.", metavar="SECONDS")
]
Journal: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        help="The --checkpoint folder of `kraftwatch run`: what it recorded is shown when no leader answers, or when "
        "no cluster is given.",
        metavar="DIR",
    ),
]
Watching: TypeAlias = Annotated[bool, typer.Option("--watch", help="Go on looking, and refresh, until ^C.")]
TIMEOUT_S = 10.0


def settled(
    *,
    config: Path | None,
    cluster: Sequence[str] | None,
    setting: Sequence[str] | None,
    resolve: Sequence[str] | None,
    hosts_file: Path | None,
    more: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration file with the options laid over it; options win.

    Args:
        config: the file, if any.
        cluster: NAME=HOST:PORT,… each; they come after the file's.
        setting: RULE.NAME=VALUE each.
        resolve: HOST=ADDR each, for every cluster.
        hosts_file: for every cluster.
        more: further keys of the configuration; what is empty or None changes nothing.

    Raises:
        UsageError: no cluster is given, or something given cannot be.
    """
    data = _from_file(config)
    data["clusters"] = [*data.get("clusters", []), *[_cluster(text) for text in cluster or []]]
    if not data["clusters"]:
        raise UsageError("nothing to watch: give --cluster NAME=HOST:PORT,… or --config FILE")
    for section in data["clusters"]:
        section["resolve"] = {**section.get("resolve", {}), **dict(_pair(text, "--resolve") for text in resolve or [])}
        if hosts_file is not None:
            section["hosts_file"] = hosts_file
    data["thresholds"] = overrides(data.get("thresholds", {}), setting or [])
    data.update({key: value for key, value in (more or {}).items() if value})
    return checked(data, "options" if config is None else f"{config} and options")


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


def overrides(base: Mapping[str, Mapping[str, float]], settings: Sequence[str]) -> dict[str, dict[str, float]]:
    """RULE: {NAME: VALUE}, with each RULE.NAME=VALUE of the command line laid over `base`.

    Raises:
        UsageError: one is not of that form.
    """
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
