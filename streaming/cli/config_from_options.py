"""The configuration that options and a configuration file make together; which recorded rows options select."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.errors import UsageError
from connectors.sinks.alert_json import iso
from connectors.store.bundle_file import bundled_config
from rules.evaluate import with_overrides
from rules.finding import Thresholds
from rules.model.identifiers import Millis
from streaming.cli.options import ClusterOptions, RecordedOptions, parse_time_option

if TYPE_CHECKING:
    from connectors.observations.observation import Observation
    from connectors.store.database import Database
    from streaming.config import Config
    from streaming.replay.cluster_settings import ClusterSettings
    from streaming.status.recording import Recording, SettingsOf

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


def config_of(opts: ClusterOptions) -> "Config":
    """Returns the configuration of a verb that reads clusters; arguments and errors as of `resolve_config`."""
    return resolve_config(
        config=opts.config,
        cluster=opts.cluster,
        setting=opts.setting,
        resolve=opts.resolve,
        hosts_file=opts.hosts_file,
        only=opts.only,
    )


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


def recorded_config(config: Path | None, setting: Sequence[str], recorded: Path | None) -> "Config | None":
    """Returns the configuration with the settings applied; None if there is none.

    Args:
        setting: RULE.NAME=VALUE each.
        recorded: a checkpoint, a journal or a bundle; only a bundle may hold a configuration.

    Raises:
        UsageError: the configuration or a setting is invalid, or the bundle is damaged.
    """
    if config is not None:
        return resolve_config(config=config, setting=setting)
    data = None if recorded is None or not recorded.is_file() else bundled_config(recorded)
    if data is None:
        return None
    from streaming.config import checked
    from streaming.report.bundle import config_of_bundle

    try:
        plain = config_of_bundle(data)
        for section in (plain, *plain["clusters"]):
            section["thresholds"] = overrides(section.get("thresholds", {}), setting)
    except (LookupError, TypeError, AttributeError, ValueError):
        raise UsageError(f"{recorded}: its configuration is damaged: make the bundle again") from None
    return checked(plain, f"{recorded}: its configuration")


def recording(config: Path | None, journal: Path | None, only: Sequence[str] = ()) -> "Recording":
    """Returns what was recorded: the given journal, or that of the configured job, or what relays wrote for it.

    Args:
        only: of a topic, only the rows of these clusters are read: names or patterns.

    Raises:
        UsageError: neither is given, the configuration is invalid, or there is no journal.
    """
    from streaming.status.recording import open_journal

    if journal is not None:
        return open_journal(journal)
    if config is None:
        raise UsageError("give the job's --config FILE, or --journal DIR")
    resolved = resolve_config(config=config, only=only)
    if resolved.source != "kafka" or resolved.relay is None:
        return open_journal(resolved.folder)
    from connectors.relay.topic_recording import TopicRecording

    ids = {one.name: one.cluster_id for one in resolved.watched}
    return TopicRecording(resolved.relay.recorded_topics(ids))


class RecordedRows:
    """The rows that a verb evaluates: of a log directory, a journal, or the job of a configuration."""

    def __init__(self, opts: RecordedOptions, only: Sequence[str]) -> None:
        """Checks that there is one place, and that the time does not end before it begins.

        Args:
            only: of a topic, only the rows of these clusters are read: names or patterns.

        Raises:
            UsageError: there is none, or there are two; or it does; or an option is no time.
        """
        self._opts, self._only = opts, only
        self.from_ms, self.to_ms = parse_time_option("--from", opts.from_), parse_time_option("--to", opts.to)
        places = [opts.journal, opts.log_dir].count(None)
        if places == 0 or (places == 2 and opts.config is None):
            raise UsageError("give --journal DIR or --log-dir DIR, but not both; or --config FILE of a job alone")
        if self.from_ms is not None and self.to_ms is not None and self.from_ms > self.to_ms:
            raise UsageError(f"--from {iso(self.from_ms)}: the start must be before the end, {iso(self.to_ms)}")

    @property
    def place(self) -> str:
        """Where the rows are, for messages."""
        return str(self._opts.log_dir or self._opts.journal or f"what the job of {self._opts.config} recorded")

    def read(self, say: Callable[[str], None]) -> "Iterator[Observation]":
        """Yields the rows of the time and, before them, what a state of that time needs.

        Raises:
            UsageError: they cannot be read.
            JournalError: the journal is damaged.
        """
        from streaming.report.back_test import EVALUATE_BEFORE_MS, log_dir_rows

        if self._opts.log_dir is not None:
            return log_dir_rows(self._opts.log_dir)
        since_ms = None if self.from_ms is None else Millis(self.from_ms - EVALUATE_BEFORE_MS)
        recorded = recording(self._opts.config, self._opts.journal, self._only)
        return recorded.rows(since_ms=since_ms, until_ms=self.to_ms, say=say)

    def settings_of(self, config: Path | None, setting: Sequence[str]) -> "SettingsOf":
        """Returns the settings of each monitored cluster with this configuration, or of any cluster without one.

        Raises:
            UsageError: the configuration or a setting is invalid.
        """
        resolved = recorded_config(config, setting, self._opts.journal)
        of_any, watched = _settings_of(resolved, setting), () if resolved is None else resolved.watched
        if self._opts.log_dir is None:
            names = {section.name for section in watched}
            return lambda name: of_any(name) if resolved is None or name in names else None
        # A log directory does not know its cluster's name: the configuration's only cluster, or the rules for all. It
        # holds no polls, so the rule about the monitor's own visibility is not evaluated.
        only = watched[0].name if len(watched) == 1 else None
        found, blind = of_any(only or ""), {"monitor-blind": Thresholds(enabled=False)}
        settings = replace(found, thresholds=with_overrides(found.thresholds, blind))
        return lambda name: replace(settings, name=only or name)


def recorded_database(config: Path | None, journal: Path | None) -> "Database":
    """Returns the database with the alerts: the configured server, else that of the checkpoint, which may be missing.

    Args:
        config: the job's configuration.
        journal: a checkpoint, the journal in it, or a bundle; None: the folder of the configured job.

    Raises:
        UsageError: the configuration is invalid.
    """
    from connectors.store.bundle_file import unpacked_bundle
    from connectors.store.tables import job_database

    resolved = None if config is None else resolve_config(config=config)
    if resolved is not None and resolved.server is not None:
        return job_database(resolved.server, read_only=True)
    folder = journal or (Path() if resolved is None else resolved.folder)
    if folder.is_file():
        folder = unpacked_bundle(folder)
    found = job_database(folder, read_only=True)
    return found if found.exists else job_database(folder.absolute().parent, read_only=True)


def recorded_settings(
    config: Path | None, setting: Sequence[str], recorded: Path | None
) -> "Callable[[str], ClusterSettings]":
    """Returns the settings of each cluster; one that the configuration does not name has the thresholds for all.

    Arguments and errors as of `recorded_config`.
    """
    return _settings_of(recorded_config(config, setting, recorded), setting)


def _settings_of(resolved: "Config | None", setting: Sequence[str]) -> "Callable[[str], ClusterSettings]":
    from streaming.config import flattened, in_force
    from streaming.replay.cluster_settings import ClusterSettings

    if resolved is None:
        by_name, common = {}, in_force(flattened(overrides({}, setting)))
    else:
        by_name = {section.name: resolved.cluster_settings(section) for section in resolved.clusters}
        common = resolved.thresholds_in_force()
    return lambda name: by_name.get(name) or ClusterSettings(name=name, thresholds=common)
