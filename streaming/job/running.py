"""Running: the configuration that a job runs with, and what follows from it. The job's parts read it whenever they act.

A reload replaces all of it at once (`Job.change`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.cluster_id_lookup import repeated_ids
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import MessageLinks, SinkSection
from rules.finding import Thresholds
from rules.model.identifiers import Millis
from rules.notifications.route import Silence
from streaming.config import Config
from streaming.config.maintenance import in_force
from streaming.metrics.heartbeat import HeartbeatSchedule
from streaming.metrics.otlp import OtlpTarget
from streaming.pipeline.checkpoint_source import GATHERER
from streaming.replay.cluster_settings import ClusterSettings

OpenSinks: TypeAlias = Sequence[tuple[SinkSection, MessageLinks, Sink]]
"""Each open sink with the configuration that it was opened from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Read from the configuration once, secrets included: a secret's file may change later."""

    clusters: tuple[ClusterConnection, ...]
    """In the configuration's order; none where a relay gathers."""
    settings: Mapping[str, ClusterSettings]
    """Input of the processor, by cluster name; without cluster ids until `with_ids`."""

    @classmethod
    def of(cls, config: Config) -> "JobSpec":
        """Returns the spec of a configuration."""
        return cls(
            clusters=tuple(section.cluster() for section in config.watched) if config.source == GATHERER else (),
            # The ids are those of the checkpoint.
            settings={
                section.name: replace(config.cluster_settings(section), cluster_id=None) for section in config.watched
            },
        )

    def with_ids(self, ids: Mapping[str, str]) -> "JobSpec":
        """Returns the spec with each cluster's id, so that another cluster at the same address is refused.

        A cluster without one has the configured id.
        """
        known = {cluster.name: cluster.cluster_id for cluster in self.clusters} | dict(ids)
        return JobSpec(
            clusters=tuple(replace(cluster, cluster_id=known[cluster.name]) for cluster in self.clusters),
            settings={name: replace(settings, cluster_id=known.get(name)) for name, settings in self.settings.items()},
        )


@dataclass(frozen=True, kw_only=True)
class Effective:
    """One configuration, ready to be put into effect. No slots: its thresholds are computed once."""

    config: Config
    """Without the clusters that are not available yet."""
    open_sinks: OpenSinks
    spec: JobSpec
    """As configured, without cluster ids."""
    identified: JobSpec
    """The same with cluster ids."""

    @cached_property
    def thresholds(self) -> Mapping[str, Thresholds]:
        """Those of the rules about the job itself."""
        return self.config.thresholds_in_force()

    @cached_property
    def repeated_ids(self) -> Mapping[str, tuple[str, ...]]:
        """The cluster ids that several clusters have, with the names of these."""
        known = self.identified.settings.items()
        return repeated_ids((name, one.cluster_id) for name, one in known if one.cluster_id is not None)


class Running:
    """The configuration in effect. Any thread may read it."""

    def __init__(self, effective: Effective) -> None:
        self._effective = effective

    def put(self, effective: Effective) -> None:
        """Puts another configuration into effect."""
        self._effective = effective

    def put_ids(self, ids: Mapping[str, str]) -> None:
        """Puts the ids of clusters into effect that had none."""
        self._effective = replace(self._effective, identified=self.identified.with_ids(ids))

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._effective.config

    @property
    def names(self) -> Sequence[str]:
        """The monitored clusters, in the configuration's order."""
        return [section.name for section in self.config.watched]

    @property
    def spec(self) -> JobSpec:
        """What was read from it once, without cluster ids."""
        return self._effective.spec

    @property
    def identified(self) -> JobSpec:
        """The same with cluster ids."""
        return self._effective.identified

    @property
    def repeated_ids(self) -> Mapping[str, tuple[str, ...]]:
        """The cluster ids that several clusters have, with the names of these."""
        return self._effective.repeated_ids

    @property
    def without_id(self) -> Sequence[str]:
        """The clusters whose id is not known."""
        return [name for name, settings in self.identified.settings.items() if settings.cluster_id is None]

    @property
    def thresholds(self) -> Mapping[str, Thresholds]:
        """Those of the rules about the job itself."""
        return self._effective.thresholds

    @property
    def open_sinks(self) -> OpenSinks:
        """The sinks with their configuration."""
        return self._effective.open_sinks

    @property
    def sinks(self) -> Sequence[Sink]:
        """The sinks."""
        return [sink for *_, sink in self.open_sinks]

    @property
    def gathers(self) -> bool:
        """Whether this job gathers itself; else it reads what relays sent."""
        return self.config.source == GATHERER

    @property
    def topics(self) -> Mapping[str, str]:
        """The topic of each cluster's relay; none, if this job gathers itself."""
        relay = self.config.relay
        return {} if self.gathers or relay is None else {name: relay.topic_of(name) for name in self.names}

    def maintenance(self, now_ms: Millis) -> Sequence[Silence]:
        """Returns the silences of the maintenance windows that are active at this time."""
        return in_force(self.config.maintenance, now_ms)

    def settings_of(self, cluster: str) -> ClusterSettings | None:
        """Returns the settings of a monitored cluster; None if it is none."""
        return self.identified.settings.get(cluster)

    def heartbeat(self) -> HeartbeatSchedule | None:
        """Returns when which URL is requested; None: none is."""
        return None if self.config.heartbeat is None else self.config.heartbeat.schedule()

    def otlp_target(self) -> OtlpTarget | None:
        """Returns where metrics are sent by OTLP; None: nowhere."""
        return self.config.otlp_target()

    def page_url(self) -> str | None:
        """Returns the URL under which people open the page; None: it is not configured."""
        return self.config.page_url
