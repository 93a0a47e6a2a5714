"""ClusterSettings: one cluster as the configuration describes it, for everything that replays or evaluates it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rules.evaluate import thresholds_for
from rules.facts.freshness import ages_of
from rules.finding import Thresholds
from rules.model.ages import Ages
from rules.model.monitoring import PLAINTEXT, Access, Vantage


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Name, addresses and thresholds."""

    name: str
    cluster_id: str | None = None
    """None or empty if it is not known yet; the first poll that reports it sets it."""
    bootstrap: tuple[str, ...] = ()
    """HOST:PORT of each configured controller or broker."""
    vantage: Vantage = Vantage.INSIDE
    """Whether the monitor is inside the cluster's network."""
    min_isr: int | None = None
    """The min.insync.replicas in the brokers' server.properties; None: not known."""
    access: Access = PLAINTEXT
    """How the monitor connects."""
    thresholds: Mapping[str, Thresholds] = field(default_factory=lambda: thresholds_for({}), repr=False)
    """By rule id: the defaults with the configured overrides."""

    @property
    def ages(self) -> Ages:
        """How old each kind of observation may be."""
        return ages_of(self.thresholds)
