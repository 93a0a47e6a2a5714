"""What the configuration says about the clusters: all that a query of them needs.

A module of its own: the sections of the sinks take longer to load than everything else in the configuration.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from connectors.settings.sections import Section
from rules.model.identifiers import selects
from streaming.config.cluster_section import (
    ClusterDefaults,
    ClusterSection,
    RuleSection,
    RuleThresholds,
    flattened,
    overrides_in_force,
)

if TYPE_CHECKING:
    from rules.finding import Thresholds
    from streaming.replay.cluster_settings import ClusterSettings


class ClustersConfig(Section):
    """The clusters, and how the rules are evaluated for them."""

    defaults: ClusterDefaults = Field(default_factory=ClusterDefaults)
    """Default values of every cluster's keys. A cluster's own value wins."""
    clusters: tuple[ClusterSection, ...] = Field(min_length=1)
    """The clusters, each with its own name."""
    watch: tuple[str, ...] = Field(default=("*",), min_length=1)
    """The clusters that are monitored: names, or patterns with `*` and `?`; `"!dev-*"` excludes what `dev-*` matches,
    and a list of only such patterns has all others. `--only` on the command line replaces those without `!`."""
    thresholds: RuleThresholds = Field(default_factory=dict)
    """RULE: {THRESHOLD: VALUE} for all clusters."""
    rules: Mapping[str, RuleSection] = Field(default_factory=dict)
    """RULE: {severity: …, enabled: …} for all clusters."""

    @model_validator(mode="before")
    @classmethod
    def _apply_defaults(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        defaults, clusters = value.get("defaults"), value.get("clusters")
        if not isinstance(defaults, Mapping) or not isinstance(clusters, list | tuple):
            return value
        merged = [
            _with_defaults(cluster, defaults) if isinstance(cluster, Mapping) else cluster for cluster in clusters
        ]
        return {**value, "clusters": merged}

    @property
    def watched(self) -> tuple[ClusterSection, ...]:
        """Returns the monitored clusters in the file's order."""
        return tuple(section for section in self.clusters if selects(self.watch, section.name))

    def without(self, names: Collection[str]) -> Self:
        """Returns the configuration without the clusters of these names."""
        return self.model_copy(
            update={"clusters": tuple(cluster for cluster in self.clusters if cluster.name not in names)}
        )

    def overrides(self, section: ClusterSection | None = None) -> dict[str, float]:
        """Returns the configured thresholds as RULE.NAME -> value; those of the cluster win."""
        return {**flattened(self.thresholds), **({} if section is None else flattened(section.thresholds))}

    def thresholds_in_force(self, section: ClusterSection | None = None) -> "Mapping[str, Thresholds]":
        """Returns all thresholds of a cluster by rule id: the defaults with all that the configuration overrides."""
        from rules.evaluate import thresholds_for, with_overrides

        overrides = overrides_in_force(self.rules, {} if section is None else section.rules)
        return with_overrides(thresholds_for(self.overrides(section)), overrides)

    def cluster_settings(self, section: ClusterSection) -> "ClusterSettings":
        """Returns what the replay and the evaluation of a cluster need."""
        from streaming.replay.cluster_settings import ClusterSettings

        return ClusterSettings(
            name=section.name,
            cluster_id=section.cluster_id,
            bootstrap=tuple(section.bootstrap),
            vantage=section.vantage,
            min_isr=section.min_isr,
            access=section.access,
            thresholds=self.thresholds_in_force(section),
        )


def _with_defaults(section: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a cluster's keys with the defaults added."""
    own, common = section.get("resolve"), defaults.get("resolve")
    if isinstance(own, Mapping) and isinstance(common, Mapping):
        section = {**section, "resolve": {**common, **own}}
    return {**defaults, **section}
