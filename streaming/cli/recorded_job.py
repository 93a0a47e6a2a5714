"""What a job recorded, as options select it: its rows and alerts, and the settings to evaluate them with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.errors import UsageError
from connectors.store.bundle_file import bundled_config
from rules.evaluate import OBSERVATION_RULES, thresholds_for, with_overrides
from rules.finding import Thresholds
from rules.formatting import iso
from rules.model.identifiers import Millis, selects
from streaming.cli.config_from_options import overrides, patterns, resolve_config, with_settings
from streaming.cli.options import ConfigOptions, RecordedOptions, parse_time_option
from streaming.cli.output import print_progress
from streaming.replay.cluster_settings import ClusterSettings

if TYPE_CHECKING:
    from connectors.observations.point_in_time import PointInTime
    from connectors.store.database import Database
    from rules.alert import Alert
    from rules.notifications.route import Silence
    from streaming.config import Config
    from streaming.query.recording import Recording, ReplayedJournal, SettingsOf


class RecordedJob:
    """What a job recorded: its rows and alerts, and the settings to evaluate them with."""

    def __init__(self, opts: RecordedOptions, only: Sequence[str] | None = None) -> None:
        """Reads nothing yet; `only`: the clusters to replay, whose rows alone are read of a topic."""
        self._opts, self._only = opts, patterns(only)
        self.from_ms, self.to_ms = parse_time_option("--from", opts.from_), parse_time_option("--to", opts.to)
        if self.from_ms is not None and self.to_ms is not None and self.from_ms > self.to_ms:
            raise UsageError(f"--from {iso(self.from_ms)}: the start must be before the end, {iso(self.to_ms)}")

    @property
    def place(self) -> str:
        """Where the rows are, for messages."""
        return str(self._opts.log_dir or self._opts.journal or f"what the job of {self._opts.config} recorded")

    @cached_property
    def config(self) -> "Config | None":
        """The given configuration, else that of a bundle, with the settings applied; None if there is none."""
        recorded, setting = self._opts.journal, self._opts.setting
        if self._opts.config is not None:
            return resolve_config(ConfigOptions(config=self._opts.config, setting=setting))
        data = None if recorded is None or not recorded.is_file() else bundled_config(recorded)
        if data is None:
            return None
        from streaming.config import checked

        return with_settings(checked(data, f"{recorded}: its configuration is damaged"), setting)

    def recording(self) -> "Recording":
        """Returns the given journal, or that of the configured job, or what relays wrote for it."""
        from streaming.query.recording import open_journal

        if self._opts.journal is not None:
            return open_journal(self._opts.journal, print_progress)
        config = resolve_config(ConfigOptions(config=self._opts.config, only=self._only))
        if config.source != "kafka" or config.relay is None:
            return open_journal(config.folder, print_progress)
        from connectors.relay.topic_recording import TopicRecording

        ids = {cluster.name: cluster.cluster_id for cluster in config.watched}
        return TopicRecording(config.relay.recorded_topics(ids), print_progress)

    def replayed(
        self, settings_of: "SettingsOf", evaluates_from_ms: Millis | None, upto: "PointInTime | None" = None
    ) -> "Iterator[tuple[ReplayedJournal, Sequence[Alert]]]":
        """Replays the rows of the time and, before them, what a state of that time needs.

        Raises:
            UsageError: they cannot be read.
            JournalError: the journal is damaged.
        """
        from streaming.query.recording import replayed, replayed_recording
        from streaming.report.back_test import EVALUATE_BEFORE_MS, log_dir_rows

        if self._opts.log_dir is not None:
            rows = log_dir_rows(self._opts.log_dir)
            return replayed(rows, settings_of, upto=upto, evaluates_from_ms=evaluates_from_ms)
        return replayed_recording(
            self.recording(),
            settings_of,
            from_ms=None if self.from_ms is None else Millis(self.from_ms - EVALUATE_BEFORE_MS),
            to_ms=self.to_ms,
            upto=upto,
            evaluates_from_ms=evaluates_from_ms,
        )

    def database(self) -> "Database":
        """Returns the database with the alerts, which may be missing: the configured server, or the checkpoint's."""
        from connectors.store.bundle_file import unpacked_bundle
        from connectors.store.tables import job_database

        config = None if self._opts.config is None else self.config
        if config is not None and config.server is not None:
            return job_database(config.server, read_only=True)
        folder = self._opts.journal or (Path() if config is None else config.folder)
        if folder.is_file():
            folder = unpacked_bundle(folder)
        found = job_database(folder, read_only=True)
        return found if found.exists else job_database(folder.absolute().parent, read_only=True)

    def silences(self, now_ms: Millis) -> "Sequence[Silence]":
        """Returns the silences of people and services, and of the maintenance windows that are active at this time."""
        from connectors.store.collection import ServiceSilenceStore, SilenceStore
        from streaming.config.maintenance import in_force

        database = self.database()
        windows = () if self.config is None else in_force(self.config.maintenance, now_ms)
        stored = SilenceStore(database).read() if database.exists else ()
        return (*stored, *windows, *(ServiceSilenceStore(database).current() if database.exists else ()))

    @cached_property
    def settings(self) -> "Callable[[str], ClusterSettings]":
        """Returns the settings of a cluster; one that the configuration does not name has the thresholds for all."""
        if self.config is None:
            common = thresholds_for(self._overrides())
            return lambda name: ClusterSettings(name=name, thresholds=common)
        by_name = {section.name: self.config.cluster_settings(section) for section in self.config.clusters}
        rest = self.config.thresholds_in_force()
        return lambda name: by_name.get(name) or ClusterSettings(name=name, thresholds=rest)

    def _overrides(self) -> Mapping[str, float]:
        if not self._opts.setting:
            return {}
        from streaming.config import flattened

        return flattened(overrides({}, self._opts.setting))

    @cached_property
    def monitored_settings(self) -> "SettingsOf":
        """Returns the settings of a cluster that the configuration monitors, of any cluster if there is none."""
        watched = None if self.config is None else {section.name for section in self.config.watched}
        if self._opts.log_dir is None:
            return lambda name: (
                self.settings(name) if selects(self._only, name) and (watched is None or name in watched) else None
            )
        # A log directory does not know its cluster's name: the configuration's only cluster, or the rules for all. It
        # holds no polls, so the rules about what is not observed are not evaluated.
        only = next(iter(watched)) if watched is not None and len(watched) == 1 else None
        found, off = self.settings(only or ""), dict.fromkeys(OBSERVATION_RULES, Thresholds(enabled=False))
        settings = replace(found, thresholds=with_overrides(found.thresholds, off))
        return lambda name: replace(settings, name=only or name)
