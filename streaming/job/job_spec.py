"""JobSpec: the clusters that a job monitors and each one's thresholds, as one value that can be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.cluster_connection import ClusterConnection
from streaming.config import Config
from streaming.pipeline.step import ClusterSettings
from streaming.status.past_state import MonitoredCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Read from the configuration once, secrets included: a secret's file may change later."""

    clusters: tuple[ClusterConnection, ...]
    """In the configuration's order; none where a relay gathers."""
    settings: Mapping[str, ClusterSettings]
    """Input of the step, by cluster name; the cluster ids are empty until `with_ids`."""

    @classmethod
    def of(cls, config: Config) -> "JobSpec":
        """Returns the spec of a configuration.

        Raises:
            UsageError: a threshold of an unknown rule, or a file that cannot be read.
        """
        return cls(
            clusters=tuple(section.cluster() for section in config.watched) if config.source == "gatherer" else (),
            settings={
                section.name: ClusterSettings(
                    cluster_id="",
                    bootstrap=section.bootstrap,
                    vantage=section.vantage,
                    access=section.access,
                    thresholds=config.thresholds_in_force(section),
                )
                for section in config.watched
            },
        )

    def with_ids(self, ids: Mapping[str, str]) -> "JobSpec":
        """Returns the spec with each cluster's id, so that another cluster at the same address is refused."""
        return JobSpec(
            clusters=tuple(replace(each, cluster_id=ids[each.name]) for each in self.clusters),
            settings={name: replace(each, cluster_id=ids[name]) for name, each in self.settings.items()},
        )

    def added_to(self, other: "JobSpec") -> Sequence[ClusterConnection]:
        """Returns the clusters that are not in `other`, or that `other` connects to differently."""
        return [each for each in self.clusters if each not in other.clusters]

    def monitored_cluster(self, name: str) -> MonitoredCluster | None:
        """Returns a cluster as the replay of the journal needs it; None for an unknown name."""
        settings = self.settings.get(name)
        if settings is None:
            return None
        return MonitoredCluster(
            name=name,
            cluster_id=settings.cluster_id or None,
            bootstrap=settings.bootstrap,
            vantage=settings.vantage,
            access=settings.access,
            thresholds=settings.thresholds,
        )
