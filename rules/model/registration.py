"""Controllers and brokers as the log registers them, with the feature levels that they support."""

from dataclasses import dataclass

from rules.model.identifiers import Endpoint, Millis, NodeId, Offset


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FeatureRange:
    """The levels of one feature (KIP-584), such as `metadata.version`, that a node supports."""

    name: str
    lowest: int
    highest: int

    def __str__(self) -> str:
        """`metadata.version 7-30`."""
        return f"{self.name} {self.lowest}-{self.highest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """A RegisterControllerRecord: written at every controller start with its current endpoints."""

    id: NodeId
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    offset: Offset
    timestamp_ms: Millis | None
    features: tuple[FeatureRange, ...] | None = None
    """What it supports; None = not known: a state of before this was kept, until the controller registers again."""
    features_since_timestamp_ms: Millis | None = None
    """Log time of the registration that first told these features: a restart with the same ones keeps it.

    From a snapshot: its last contained timestamp, that is "at least since".
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker as the log knows it: registered, fenced or not, shutting down or not."""

    id: NodeId
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    fenced: bool
    in_controlled_shutdown: bool
    offset: Offset
    alive_since_timestamp_ms: Millis | None = None
    """Log time of the record that last made it alive (unfenced, by its registration or by a change).

    Filled by replay: the batch timestamp of the record that turned `fenced` from True (or from not
    registered) to False; kept while it stays unfenced, None while it is fenced. From a snapshot: the
    snapshot's last contained timestamp, that is "at least since". None also when it is not known.
    """
    features: tuple[FeatureRange, ...] | None = None
    """What it supports, as with a controller's registration."""
    features_since_timestamp_ms: Millis | None = None

    @property
    def alive(self) -> bool:
        """Unfenced: the active controller hears its heartbeats."""
        return not self.fenced
