"""JobSpec: the clusters that a job monitors and each one's thresholds, as one value that can be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.kafka.cluster_connection import ClusterConnection
from streaming.config import Config
from streaming.replay.cluster_settings import ClusterSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Read from the configuration once, secrets included: a secret's file may change later."""

    clusters: tuple[ClusterConnection, ...]
    """In the configuration's order; none where a relay gathers."""
    settings: Mapping[str, ClusterSettings]
    """Input of the step, by cluster name; without cluster ids until `with_ids`."""

    @classmethod
    def of(cls, config: Config) -> "JobSpec":
        """Returns the spec of a configuration.

        Raises:
            UsageError: a threshold of an unknown rule, or a file that cannot be read.
        """
        return cls(
            clusters=tuple(section.cluster() for section in config.watched) if config.source == "gatherer" else (),
            # The ids are those of the checkpoint.
            settings={
                section.name: replace(config.cluster_settings(section), cluster_id=None) for section in config.watched
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
