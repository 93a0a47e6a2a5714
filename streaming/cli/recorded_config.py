"""The configuration with which recorded data is evaluated: the one of `--config`, of a bundle, or the defaults."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from connectors.errors import UsageError
from connectors.store.bundle_file import bundled_config
from rules.evaluate import RuleOverride, with_overrides
from rules.finding import Thresholds
from rules.model.identifiers import Millis
from streaming.cli import config_from_options

if TYPE_CHECKING:
    from connectors.observations.observation import Observation
    from connectors.store.database import Database
    from streaming.config import Config
    from streaming.report.back_test import ClusterSettingsOf
    from streaming.status.recording import Recording

ThresholdsOf: TypeAlias = Callable[[str], Mapping[str, Thresholds]]
"""Returns the thresholds of a cluster, by rule id, by the cluster's name."""


def recorded_config(config: Path | None, setting: Sequence[str], recorded: Path | None) -> "Config | None":
    """Returns the configuration with the settings applied; None if there is none.

    Args:
        setting: RULE.NAME=VALUE each.
        recorded: a checkpoint, a journal or a bundle; only a bundle may hold a configuration.

    Raises:
        UsageError: the configuration or a setting is invalid, or the bundle is damaged.
    """
    if config is not None:
        return config_from_options.resolve_config(config=config, setting=setting)
    data = None if recorded is None or not recorded.is_file() else bundled_config(recorded)
    if data is None:
        return None
    from streaming.config import checked
    from streaming.report.bundle import config_of_bundle

    plain = config_of_bundle(data)
    for section in (plain, *plain["clusters"]):
        section["thresholds"] = config_from_options.overrides(section.get("thresholds", {}), setting)
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
    resolved = config_from_options.resolve_config(config=config, only=only)
    if resolved.source != "kafka" or resolved.relay is None:
        return open_journal(resolved.folder)
    from connectors.relay.topic_recording import TopicRecording

    ids = {one.name: one.cluster_id for one in resolved.watched}
    return TopicRecording(resolved.relay.recorded_topics(ids))


@dataclass(frozen=True, kw_only=True)
class RecordedRows:
    """The rows that a verb evaluates: of a log directory, a journal, or the job of a configuration."""

    config: Path | None
    journal: Path | None
    log_dir: Path | None
    only: Sequence[str] = ()
    """Of a topic, only the rows of these clusters are read: names or patterns."""
    from_ms: Millis | None = None
    to_ms: Millis | None = None

    def __post_init__(self) -> None:
        """Checks that there is one place.

        Raises:
            UsageError: there is none, or there are two.
        """
        places = [self.journal, self.log_dir].count(None)
        if places == 0 or (places == 2 and self.config is None):
            raise UsageError("give --journal DIR or --log-dir DIR, but not both; or --config FILE of a job alone")

    @property
    def place(self) -> str:
        """Where the rows are, for messages."""
        return str(self.log_dir or self.journal or f"what the job of {self.config} recorded")

    def read(self, say: Callable[[str], None]) -> "Iterator[Observation]":
        """Yields the rows of the time and, before them, what a state of that time needs.

        Raises:
            UsageError: they cannot be read.
            JournalError: the journal is damaged.
        """
        from streaming.report.back_test import EVALUATE_BEFORE_MS, log_dir_rows

        if self.log_dir is not None:
            return log_dir_rows(self.log_dir)
        since_ms = None if self.from_ms is None else Millis(self.from_ms - EVALUATE_BEFORE_MS)
        recorded = recording(self.config, self.journal, self.only)
        return recorded.rows(since_ms=since_ms, until_ms=self.to_ms, say=say)

    def settings_of(self, config: Path | None, setting: Sequence[str]) -> "ClusterSettingsOf":
        """Returns the settings of each cluster with this configuration, which another one may be compared with.

        Raises:
            UsageError: the configuration or a setting is invalid.
        """
        return back_test_settings(config, setting, polled=self.log_dir is None, recorded=self.journal)


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

    resolved = None if config is None else config_from_options.resolve_config(config=config)
    if resolved is not None and resolved.server is not None:
        return job_database(resolved.server, read_only=True)
    folder = journal or (Path() if resolved is None else resolved.folder)
    if folder.is_file():
        folder = unpacked_bundle(folder)
    found = job_database(folder, read_only=True)
    return found if found.exists else job_database(folder.absolute().parent, read_only=True)


def recorded_thresholds(config: Path | None, setting: Sequence[str], recorded: Path | None) -> ThresholdsOf:
    """Returns the thresholds of each cluster; of one that the configuration does not name, those for all clusters.

    Arguments and errors as of `recorded_config`.
    """
    from streaming.config import flattened, in_force

    resolved = recorded_config(config, setting, recorded)
    if resolved is None:
        common = in_force(flattened(config_from_options.overrides({}, setting)))
        return lambda _: common
    by_name = {section.name: resolved.thresholds_in_force(section) for section in resolved.clusters}
    others = resolved.thresholds_in_force()
    return lambda name: by_name.get(name, others)


def back_test_settings(
    config: Path | None, setting: Sequence[str], *, polled: bool, recorded: Path | None = None
) -> "ClusterSettingsOf":
    """Returns the settings by cluster name: of the configuration's clusters, or of any cluster without one.

    Args:
        setting: RULE.NAME=VALUE each.
        recorded: the journal or bundle; a bundle's configuration counts if `config` is None.
        polled: whether the rows hold polls; without them, the rule about the monitor's own visibility is not evaluated.

    Raises:
        UsageError: the configuration or a setting is invalid.
    """
    from streaming.config import flattened, in_force
    from streaming.replay.cluster_settings import ClusterSettings

    blind = {} if polled else {"monitor-blind": RuleOverride(enabled=False)}
    resolved = recorded_config(config, setting, recorded)
    if resolved is None:
        thresholds = with_overrides(in_force(flattened(config_from_options.overrides({}, setting))), blind)
        return lambda name: ClusterSettings(name=name, thresholds=thresholds)
    found = {section.name: resolved.cluster_settings(section) for section in resolved.watched}
    found = {name: replace(each, thresholds=with_overrides(each.thresholds, blind)) for name, each in found.items()}
    if polled:
        return found.get
    # A log directory does not know its cluster's name: the configuration's only cluster, or the rules for all.
    only = next(iter(found.values())) if len(found) == 1 else None
    thresholds = with_overrides(resolved.thresholds_in_force(), blind)
    return lambda name: only or ClusterSettings(name=name, thresholds=thresholds)
