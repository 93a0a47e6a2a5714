"""The configuration that options and a configuration file make together.

An invalid option or configuration raises UsageError.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from connectors.errors import UsageError
from rules.model.identifiers import NOT
from streaming.cli.options import ConfigOptions, GatherOptions

if TYPE_CHECKING:
    from streaming.config import ClustersConfig, Config

ConfigT = TypeVar("ConfigT", bound="ClustersConfig")
_FORMS = {
    "--cluster": "NAME=HOST:PORT,…, such as prod=c1:9093,c2:9093,c3:9093",
    "--resolve": "HOST=ADDR",
    "--set": "RULE.NAME=VALUE",
}


def resolve_config(opts: GatherOptions, more: Mapping[str, Any] | None = None) -> "Config":
    """Returns the configuration file with the options applied; options override the file.

    `--set` overrides the thresholds of single clusters too; `--resolve` and `--hosts-file` are for every cluster;
    `--only` replaces the patterns of `watch` but those that begin with `!`. `more`: further keys of the configuration;
    empty values are ignored.
    """
    from streaming.config import checked, load

    data: dict[str, Any] = {}
    if opts.config is not None:
        data = load(opts.config, complete=not opts.cluster).model_dump(exclude_unset=True, by_alias=True)
    data = _with_clusters(data, opts)
    data.update({key: value for key, value in (more or {}).items() if value})
    config = checked(data, "options" if opts.config is None else f"{opts.config} and options")
    return with_settings(config, opts.setting if isinstance(opts, ConfigOptions) else None)


def resolve_clusters(opts: ConfigOptions) -> "ClustersConfig":
    """Returns the clusters that options name without a file, as `resolve_config`; loads no other section."""
    from streaming.config import checked_clusters

    return with_settings(checked_clusters(_with_clusters({}, opts), "options"), opts.setting)


def _with_clusters(data: Mapping[str, Any], opts: GatherOptions) -> dict[str, Any]:
    """Returns the keys of a configuration with the clusters that the options add or change."""
    clusters = [*map(dict, data.get("clusters", [])), *map(_cluster, opts.cluster or ())]
    if not clusters:
        raise UsageError("no cluster is given: give --cluster NAME=HOST:PORT,… or --config FILE")
    resolve = dict(_pair(text, "--resolve") for text in opts.resolve or ())
    for section in clusters:
        section["resolve"] = {**section.get("resolve", {}), **resolve}
        if opts.hosts_file is not None:
            section["hosts_file"] = opts.hosts_file
    changed = {**data, "clusters": clusters}
    if opts.only:
        only = patterns(opts.only)
        check_only(only, [section["name"] for section in clusters])
        changed["watch"] = (*only, *(each for each in data.get("watch", ()) if each.startswith(NOT)))
    return changed


def with_settings(config: ConfigT, settings: Sequence[str] | None) -> ConfigT:
    """Returns the configuration with each RULE.NAME=VALUE applied, for all clusters and for each single one."""
    clusters = [
        cluster.model_copy(update={"thresholds": overrides(cluster.thresholds, settings)})
        for cluster in config.clusters
    ]
    common = overrides(config.thresholds, settings)
    return config.model_copy(update={"thresholds": common, "clusters": tuple(clusters)})


def patterns(only: Sequence[str] | None) -> list[str]:
    """Returns the patterns of `--only`: each text is one or several separated by commas."""
    return [name.strip() for text in only or () for name in text.split(",") if name.strip()]


def check_only(only: Sequence[str], names: Sequence[str]) -> None:
    """Checks that each pattern of `--only` matches a cluster."""
    for pattern in only:
        if not any(fnmatchcase(name, pattern.removeprefix(NOT)) for name in names):
            raise UsageError(f"--only {pattern} matches none of the clusters: {', '.join(names)}")


def _cluster(text: str) -> dict[str, Any]:
    name, listed = _pair(text, "--cluster")
    return {"name": name, "bootstrap": [part.strip() for part in listed.split(",") if part.strip()]}


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise UsageError(f"{option} {text}: expected {_FORMS[option]}")
    return key, value


def overrides(base: Mapping[str, Mapping[str, float]], settings: Sequence[str] | None) -> dict[str, dict[str, float]]:
    """Returns `base` (RULE: {NAME: VALUE}) with each RULE.NAME=VALUE of the command line applied."""
    thresholds = {rule: dict(values) for rule, values in base.items()}
    for text in settings or ():
        from streaming.config.cluster_section import threshold_value

        key, value = _pair(text, "--set")
        rule, dot, name = key.partition(".")
        if not dot:
            raise UsageError(f"--set {text}: expected RULE.NAME=VALUE, such as no-leader.hold=10s")
        try:
            thresholds.setdefault(rule, {})[name] = threshold_value(rule, name, value)
        except ValueError as problem:
            raise UsageError(f"--set {text}: {problem}") from None
    return thresholds
