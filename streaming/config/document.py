"""The whole configuration."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field, field_validator

from connectors.sinks.links import Links
from connectors.sinks.place import Wanted
from rules.finding import Thresholds
from streaming.config.cluster import ClusterSection, host_port
from streaming.config.heartbeat import HeartbeatSection
from streaming.config.section import Section
from streaming.config.sink import ConsoleSection, SinkEntry, Sinks
from streaming.config.thresholds import flattened, in_force


class Config(Section):
    """Everything `kraftwatch run` needs to know."""

    clusters: tuple[ClusterSection, ...] = Field(min_length=1)
    checkpoint: Path = Path("kraftwatch-checkpoint")
    """Holds the journal, Spark's checkpoint and the ledger: keep it, it is the memory."""
    sinks: Sinks = (SinkEntry(console=ConsoleSection()),)
    """Where alerts are told: texts as `--sink` takes them, or one kind each with its keys."""
    docs_url: str | None = Field(default=None, pattern=r"^https?://[^\s<>|]+$")
    """Where you serve the documentation: messages link to the rule's page in it."""
    page_url: str | None = Field(default=None, pattern=r"^https?://[^\s<>|]+$")
    """How people reach this job's page, if not by `listen`: messages link to the cluster's page there."""
    thresholds: Mapping[str, Mapping[str, float]] = Field(default_factory=dict)
    """RULE: {THRESHOLD: VALUE}."""
    master: str = "local[2]"
    """Spark's master. With local[1] a batch takes half again as long."""
    spark: Mapping[str, str] = Field(default_factory=dict)
    """Further Spark settings, as they are."""
    heartbeat: HeartbeatSection | None = None
    """A dead man's switch: whom to ask while the job is well; nobody by default."""
    listen: str | None = None
    """HOST:PORT of /healthz and /readyz; none by default."""

    @field_validator("clusters")
    @classmethod
    def _names_differ(cls, value: tuple[ClusterSection, ...]) -> tuple[ClusterSection, ...]:
        names = [section.name for section in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two clusters are called {name}: give each a name of its own")
        return value

    @field_validator("listen")
    @classmethod
    def _listen_address(cls, value: str | None) -> str | None:
        if value is not None:
            host_port(value)
        return value

    def wanted(self) -> Sequence[Wanted]:
        """The sinks, as they are opened."""
        links = Links(docs_url=self.docs_url, page_url=self.page_url)
        return [sink.wanted(links) for sink in self.sinks]

    def overrides(self) -> dict[str, float]:
        """The thresholds as RULE.NAME -> value."""
        return flattened(self.thresholds)

    def thresholds_in_force(self) -> Mapping[str, Thresholds]:
        """Every rule's numbers, the configuration's laid over the defaults.

        Raises:
            UsageError: no rule knows one of them, or it cannot be.
        """
        return in_force(self.thresholds)
