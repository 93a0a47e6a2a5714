"""The configuration that options and a configuration file make together."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.errors import UsageError

if TYPE_CHECKING:
    from streaming.config import Config

EXAMPLE = "prod=c1:9093,c2:9093,c3:9093"


def resolve_config(
    *,
    config: Path | None,
    cluster: Sequence[str] | None = None,
    setting: Sequence[str] | None = None,
    resolve: Sequence[str] | None = None,
    hosts_file: Path | None = None,
    only: Sequence[str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> "Config":
    """Returns the configuration file with the options applied; options override the file.

    Args:
        cluster: NAME=HOST:PORT,… each; added after the clusters of the file.
        setting: RULE.NAME=VALUE each.
        resolve: HOST=ADDR each, for every cluster.
        hosts_file: for every cluster.
        only: names or patterns, each text one or several separated by commas; they replace `watch.include` and leave
            `watch.exclude` unchanged.
        more: further keys of the configuration; empty values and None are ignored.

    Raises:
        UsageError: no cluster is given, or a value is invalid.
    """
    from streaming.config import checked, load

    data: dict[str, Any] = {}
    if config is not None:
        data = load(config, complete=not cluster).model_dump(exclude_unset=True, by_alias=True)
        data["clusters"] = [dict(section) for section in data["clusters"]]
    data["clusters"] = [*data.get("clusters", []), *[_cluster(text) for text in cluster or []]]
    if not data["clusters"]:
        raise UsageError("no cluster is given: give --cluster NAME=HOST:PORT,… or --config FILE")
    for section in data["clusters"]:
        section["resolve"] = {**section.get("resolve", {}), **dict(_pair(text, "--resolve") for text in resolve or [])}
        if hosts_file is not None:
            section["hosts_file"] = hosts_file
        # --set overrides the thresholds of a single cluster too.
        section["thresholds"] = overrides(section.get("thresholds", {}), setting or [])
    data["thresholds"] = overrides(data.get("thresholds", {}), setting or [])
    if only:
        only = patterns(only)
        check_only(only, [section["name"] for section in data["clusters"]])
        data["watch"] = {**data.get("watch", {}), "include": tuple(only)}
    data.update({key: value for key, value in (more or {}).items() if value})
    return checked(data, "options" if config is None else f"{config} and options")


def patterns(only: Sequence[str] | None) -> list[str]:
    """Returns the patterns of `--only`: each text is one or several separated by commas."""
    return [name.strip() for text in only or () for name in text.split(",") if name.strip()]


def check_only(only: Sequence[str], names: Sequence[str]) -> None:
    """Checks that each pattern of `--only` matches a cluster.

    Raises:
        UsageError: one matches none of these names.
    """
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"--only {pattern} matches none of the clusters: {', '.join(names)}")


def _cluster(text: str) -> dict[str, Any]:
    from streaming.config import host_port

    name, listed = _pair(text, "--cluster")
    addresses = [part.strip() for part in listed.split(",") if part.strip()]
    for address in addresses:
        try:
            host_port(address)
        except ValueError as problem:
            raise UsageError(
                f"--cluster {name}: {problem}; expected the listeners of controllers, such as {EXAMPLE}"
            ) from None
    return {"name": name, "bootstrap": addresses}


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        forms = {
            "--cluster": f"NAME=HOST:PORT,…, such as {EXAMPLE}",
            "--resolve": "HOST=ADDR",
            "--set": "RULE.NAME=VALUE",
        }
        raise UsageError(f"{option} {text}: expected {forms[option]}")
    return key, value


def overrides(base: Mapping[str, Mapping[str, float]], settings: Sequence[str]) -> dict[str, dict[str, float]]:
    """Returns `base` (RULE: {NAME: VALUE}) with each RULE.NAME=VALUE of the command line applied.

    Raises:
        UsageError: a setting does not have that form, or its value is invalid.
    """
    from connectors.settings import parse_seconds
    from streaming.config.cluster_section import invalid_count

    thresholds = {rule: dict(values) for rule, values in base.items()}
    for text in settings:
        key, value = _pair(text, "--set")
        rule, dot, name = key.partition(".")
        if not dot:
            raise UsageError(f"--set {text}: expected RULE.NAME=VALUE, such as no-leader.hold=10s")
        if mistake := invalid_count(rule, name, value):
            raise UsageError(f"--set {text}: {mistake}")
        try:
            thresholds.setdefault(rule, {})[name] = parse_seconds(value)
        except ValueError as problem:
            raise UsageError(f"--set {text}: {problem}") from None
    return thresholds
