"""What is given on the command line: clusters, names, thresholds; the same for every verb that looks at a cluster.

`Asked` is what every look takes, `Shown` what the verbs that show a quorum take besides: their fields are the options.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import typer

from connectors.errors import UsageError
from connectors.point_in_time import PointInTime
from rules.finding import Plain
from streaming.cli.time_argument import moment
from streaming.config import Config, checked, host_port, load
from streaming.config.duration import parse_seconds
from streaming.config.thresholds import check_unit


def _timeout(value: str | float) -> float:
    seconds = value if isinstance(value, float) else parse_seconds(value)
    if not 1 <= seconds <= 600:
        raise ValueError(f"invalid value '{value}': expected 1s to 10m")
    return seconds


ConfigFile: TypeAlias = Annotated[
    Path | None, typer.Option("--config", "-c", help="A YAML file with clusters, sinks and thresholds.")
]
EXAMPLE = "prod=c1:9093,c2:9093,c3:9093"
Clusters: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster", help="NAME=HOST:PORT,HOST:PORT,… controllers of a cluster. May be given again.", metavar="NAME=…"
    ),
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A rule's threshold, such as no-leader.hold=10s. May be repeated.", metavar="RULE.NAME=VALUE"
    ),
]
Only: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        help="Of the clusters given, these alone: a name, or a pattern with * and ?. May be given again.",
        metavar="NAME",
    ),
]
Resolve: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--resolve", help="Resolve HOST to ADDR, as curl does. May be given again.", metavar="HOST=ADDR"),
]
HostsFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--hosts-file", help="In the format of /etc/hosts, read again at each look; wins over DNS."),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="JSON on stdout: one object a line.")]
Timeout: TypeAlias = Annotated[
    float,
    typer.Option(
        "--timeout", parser=_timeout, help="How long to wait for answers, such as 10s or 2m.", metavar="DURATION"
    ),
]
Journal: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        help="The --checkpoint folder of `kraftwatch run`: what it recorded is shown when no leader answers, or when "
        "no cluster is given. With --config that configuration's own is used.",
        metavar="DIR",
    ),
]
LogDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--log-dir",
        help="A controller's metadata.log.dir (or the __cluster_metadata-0 in it), read as it lies there, be its Kafka "
        "dead or alive; nobody is asked, and nothing is written. One disk cannot tell what is committed.",
        metavar="DIR",
    ),
]
At: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--at",
        help="With --journal or --log-dir alone: the state as of then. Digits are an OFFSET of the metadata log: once "
        "that record was applied. Else a TIME in ISO 8601, UTC unless it says otherwise, as 2026-11-20T08:15:00Z: with "
        "all that a journal had observed by then; for a log directory, with every record written by then.",
        metavar="OFFSET|TIME",
    ),
]
Watching: TypeAlias = Annotated[bool, typer.Option("--watch", help="Go on looking, and refresh, until ^C.")]
TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of every verb that looks at clusters."""

    config: ConfigFile = None
    cluster: Clusters = None
    only: Only = None
    setting: Settings = None
    resolve: Resolve = None
    hosts_file: HostsFile = None
    timeout: Timeout = TIMEOUT_S
    as_json: AsJson = False

    @property
    def live(self) -> bool:
        """Some cluster is to be asked."""
        return bool(self.cluster) or self.config is not None

    def settled(self) -> Config:
        """The configuration that they come to.

        Raises:
            UsageError: something given cannot be.
        """
        return settled(
            config=self.config,
            cluster=self.cluster,
            setting=self.setting,
            resolve=self.resolve,
            hosts_file=self.hosts_file,
            only=self.only,
        )


@dataclass(frozen=True, kw_only=True)
class Offline(Asked):
    """And of those that can do without asking anybody."""

    log_dir: LogDir = None
    at: At = None

    @property
    def moment(self) -> PointInTime | None:
        """What `--at` says.

        Raises:
            UsageError: it is neither an offset nor a time.
        """
        return None if self.at is None else moment(self.at)


@dataclass(frozen=True, kw_only=True)
class Shown(Offline):
    """And of those that show a quorum."""

    journal: Journal = None
    watch: Watching = False


Options = TypeVar("Options", bound=Asked)


def options(kind: type[Options]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a verb of a function: its first argument is a `kind`, whose fields become options of the command line.

    What else the function takes stays as it declares it.
    """

    def verb_of(function: Callable[..., None]) -> Callable[..., None]:
        taken = [
            Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for one in fields(kind)
        ]

        @wraps(function)
        def verb(**given: Any) -> None:
            function(kind(**{one.name: given.pop(one.name) for one in taken}), **given)

        _, *own = signature(function).parameters.values()
        parameters = [*(one.replace(kind=Parameter.KEYWORD_ONLY) for one in own), *taken]
        # Typer reads both: what there is, and of what type.
        verb.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        verb.__annotations__ = {one.name: one.annotation for one in parameters}
        return verb

    return verb_of


def print_json(value: Mapping[str, Plain]) -> None:
    """One line on stdout, flushed."""
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def settled(
    *,
    config: Path | None,
    cluster: Sequence[str] | None,
    setting: Sequence[str] | None,
    resolve: Sequence[str] | None,
    hosts_file: Path | None,
    only: Sequence[str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration file with the options laid over it; options win.

    Args:
        config: the file, if any.
        cluster: NAME=HOST:PORT,… each; they come after the file's.
        setting: RULE.NAME=VALUE each.
        resolve: HOST=ADDR each, for every cluster.
        hosts_file: for every cluster.
        only: names or patterns; they stand for `watch.include` and leave `watch.exclude` as it is.
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
        # An option wins over what the file says of one cluster, too.
        section["thresholds"] = overrides(section.get("thresholds", {}), setting or [])
    data["thresholds"] = overrides(data.get("thresholds", {}), setting or [])
    if only:
        _refuse_unknown(only, [section["name"] for section in data["clusters"]])
        data["watch"] = {**data.get("watch", {}), "include": tuple(only)}
    data.update({key: value for key, value in (more or {}).items() if value})
    return checked(data, "options" if config is None else f"{config} and options")


def _from_file(path: Path | None) -> dict[str, Any]:
    """The file's settings as plain data again, so that options can be laid over them."""
    if path is None:
        return {}
    config: Config = load(path)
    data = config.model_dump(exclude_unset=True, by_alias=True)
    data["clusters"] = [dict(section) for section in data["clusters"]]
    return data


def _refuse_unknown(only: Sequence[str], names: Sequence[str]) -> None:
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"--only {pattern} is none of the clusters: {', '.join(names)}")


def _cluster(text: str) -> dict[str, Any]:
    name, listed = _pair(text, "--cluster")
    addresses = [part.strip() for part in listed.split(",") if part.strip()]
    for address in addresses:
        try:
            host_port(address)
        except ValueError as problem:
            raise UsageError(f"--cluster {name}: {problem}; controllers' listeners are given as {EXAMPLE}") from None
    return {"name": name, "bootstrap": addresses}


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        forms = {"--cluster": f"NAME=HOST:PORT,…, as {EXAMPLE}", "--resolve": "HOST=ADDR", "--set": "RULE.NAME=VALUE"}
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
            thresholds.setdefault(rule, {})[name] = parse_seconds(value)
            check_unit(rule, name, value)
        except ValueError as problem:
            raise UsageError(f"--set {text}: {problem}") from None
    return thresholds
