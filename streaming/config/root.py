"""The whole configuration."""

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from connectors.sinks.links import Links
from connectors.sinks.sink_config import Wanted
from rules.finding import Thresholds
from streaming.config.cluster_section import ClusterDefaults, ClusterSection, host_port
from streaming.config.heartbeat_section import HeartbeatSection
from streaming.config.maintenance_section import MaintenanceSection
from streaming.config.maintenance_window import Window
from streaming.config.section import Section
from streaming.config.sink_section import ConsoleSection, SinkEntry, Sinks
from streaming.config.thresholds import flattened, in_force

_FILE = "_file"


class WatchSection(Section):
    """Which of the clusters are watched."""

    include: tuple[str, ...] = Field(default=("*",), min_length=1)
    """Names, or patterns with `*` and `?`: a cluster is watched if one of them matches its name."""
    exclude: tuple[str, ...] = ()
    """Names, or patterns: it is not watched if one of these does."""

    def takes(self, name: str) -> bool:
        """Whether a cluster of this name is watched."""
        return _matches(name, self.include) and not _matches(name, self.exclude)


class Config(Section):
    """Everything `kraftwatch run` needs to know."""

    defaults: ClusterDefaults = Field(default_factory=ClusterDefaults)
    """Laid under each cluster: the settings that a fleet has in common. What a cluster says itself wins."""
    clusters: tuple[ClusterSection, ...] = Field(min_length=1)
    """The clusters, each under a name of its own."""
    watch: WatchSection = Field(default_factory=WatchSection)
    """Which of them are watched; all by default."""
    checkpoint: Path = Path("kraftwatch-checkpoint")
    """Holds the journal, Spark's checkpoint and the ledger: keep it, it is the memory."""
    sinks: Sinks = (SinkEntry(console=ConsoleSection()),)
    """Where alerts are told: texts as `--sink` takes them, or one kind each with its keys."""
    docs_url: str | None = Field(default=None, pattern=r"^https?://[^\s<>|]+$")
    """Where you serve the documentation: messages link to the rule's page in it, else to the one at `page_url`."""
    page_url: str | None = Field(default=None, pattern=r"^https?://[^\s<>|]+$")
    """How people reach this job's page, if not by `listen`: messages link to the cluster's page there."""
    thresholds: Mapping[str, Mapping[str, float]] = Field(default_factory=dict)
    """RULE: {THRESHOLD: VALUE}, for every cluster that has none of its own."""
    maintenance: tuple[MaintenanceSection, ...] = ()
    """When people are not told, week by week."""
    master: str = "local[2]"
    """Spark's master. With local[1] a batch takes half again as long."""
    spark: Mapping[str, str] = Field(default_factory=dict)
    """Further Spark settings, as they are."""
    heartbeat: HeartbeatSection | None = None
    """A dead man's switch: whom to ask while the job is well; nobody by default."""
    audit_every: float = Field(default=600.0, ge=0, le=86_400)
    """How often a sample of what is recorded is held against the data contracts, in seconds; 0 turns that off."""
    listen: str | None = None
    """HOST:PORT of the page, /metrics, /healthz and /readyz; none by default."""

    @model_validator(mode="before")
    @classmethod
    def _lay_under(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        defaults, clusters = value.get("defaults"), value.get("clusters")
        if not isinstance(defaults, Mapping) or not isinstance(clusters, list | tuple):
            return value
        laid = [_laid_under(each, defaults) if isinstance(each, Mapping) else each for each in clusters]
        return {**value, "clusters": laid}

    @field_validator("clusters")
    @classmethod
    def _names_differ(cls, value: tuple[ClusterSection, ...]) -> tuple[ClusterSection, ...]:
        names = [section.name for section in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two clusters are called {name}: give each a name of its own")
        return value

    @field_validator("page_url")
    @classmethod
    def _page_address(cls, value: str | None) -> str | None:
        if value is not None:
            # The page is asked under its name: one that cannot be read would fail each request.
            urlsplit(value)
        return value

    @field_validator("listen")
    @classmethod
    def _listen_address(cls, value: str | None) -> str | None:
        if value is not None:
            host_port(value)
        return value

    @model_validator(mode="after")
    def _something_watched(self) -> "Config":
        if not self.watched:
            names = ", ".join(section.name for section in self.clusters)
            raise ValueError(f"watch leaves no cluster to watch of {names}: correct its include and exclude")
        return self

    @property
    def watched(self) -> tuple[ClusterSection, ...]:
        """The clusters that are watched, in the file's order."""
        return tuple(section for section in self.clusters if self.watch.takes(section.name))

    def without(self, names: Collection[str]) -> "Config":
        """The same, but for the clusters of these names."""
        return self.model_copy(update={"clusters": tuple(each for each in self.clusters if each.name not in names)})

    def wanted(self) -> Sequence[Wanted]:
        """The sinks, as they are opened."""
        links = Links(docs_url=self.docs_url, page_url=self.page_url or self._served())
        return [sink.wanted(links) for sink in self.sinks]

    def _served(self) -> str | None:
        """The page's address where nobody gave it a name; all addresses at once are none."""
        if self.listen is None:
            return None
        host, port = host_port(self.listen)
        return None if host in ("0.0.0.0", "::") else f"http://{f'[{host}]' if ':' in host else host}:{port}"  # noqa: S104

    def windows(self) -> Sequence[Window]:
        """The maintenance windows."""
        return [section.window() for section in self.maintenance]

    def overrides(self, section: ClusterSection | None = None) -> dict[str, float]:
        """The thresholds as RULE.NAME -> value: the common ones, a cluster's laid over them."""
        return {**flattened(self.thresholds), **({} if section is None else flattened(section.thresholds))}

    def thresholds_in_force(self, section: ClusterSection | None = None) -> Mapping[str, Thresholds]:
        """Every rule's numbers for a cluster: the configuration's laid over the defaults.

        Raises:
            UsageError: no rule knows one of them, or it cannot be.
        """
        return in_force(self.overrides(section))


def _laid_under(section: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A cluster's keys over the common ones. A secret replaces a secret's file, and the other way round."""
    said = {key.removesuffix(_FILE) for key in section}
    under = {key: value for key, value in defaults.items() if key.removesuffix(_FILE) not in said}
    own, common = section.get("resolve"), defaults.get("resolve")
    if isinstance(own, Mapping) and isinstance(common, Mapping):
        section = {**section, "resolve": {**common, **own}}
    return {**under, **section}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
