"""Watched: which clusters a job watches and by which numbers, as one plain value that two configurations differ in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.cluster_connection import Cluster
from streaming.config import Config
from streaming.pipeline.step import ClusterSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Read from the configuration once, with the secrets of that moment: a file may say another one later."""

    clusters: tuple[Cluster, ...]
    """As configured."""
    settings: Mapping[str, ClusterSettings]
    """What the step is given, by name; without the cluster ids as long as those are not known."""

    @classmethod
    def of(cls, config: Config) -> "Watched":
        """What a configuration says.

        Raises:
            UsageError: a threshold that no rule knows, or a file that cannot be read.
        """
        return cls(
            clusters=tuple(section.cluster() for section in config.watched),
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

    def identified(self, ids: Mapping[str, str]) -> "Watched":
        """The same, once each cluster's id is known: another one at the same address is then refused."""
        return Watched(
            clusters=tuple(replace(each, cluster_id=ids[each.name]) for each in self.clusters),
            settings={name: replace(each, cluster_id=ids[name]) for name, each in self.settings.items()},
        )

    def besides(self, other: "Watched") -> Sequence[Cluster]:
        """The clusters that the other does not watch, or not in the same way."""
        return [each for each in self.clusters if each not in other.clusters]
