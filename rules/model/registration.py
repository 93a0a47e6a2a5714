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
        """Returns `metadata.version 7-30`."""
        return f"{self.name} {self.lowest}-{self.highest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """A RegisterControllerRecord: a controller writes it at every start, with its current endpoints."""

    id: NodeId
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    offset: Offset
    timestamp_ms: Millis | None
    features: tuple[FeatureRange, ...] | None = None
    """The supported levels; None if unknown: an old state blob has none until the controller registers again."""
    features_since_timestamp_ms: Millis | None = None
    """Timestamp of the registration that first contained these features: a restart with the same ones keeps it.

    From a snapshot: its last contained timestamp, that is "at least since".
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker by the log: its registration, and whether it is fenced or shutting down."""

    id: NodeId
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    fenced: bool
    in_controlled_shutdown: bool
    offset: Offset
    alive_since_timestamp_ms: Millis | None = None
    """Timestamp of the record that last made the broker alive (unfenced, by its registration or by a change).

    Replay sets it from the batch timestamp of the record that changed `fenced` from True (or from not registered) to
    False. It stays while the broker is unfenced, and is None while it is fenced. From a snapshot: the snapshot's last
    contained timestamp, that is "at least since". None also if unknown.
    """
    features: tuple[FeatureRange, ...] | None = None
    """The supported levels, as in a controller's registration."""
    features_since_timestamp_ms: Millis | None = None

    @property
    def alive(self) -> bool:
        """Whether the broker is unfenced: the active controller receives its heartbeats."""
        return not self.fenced
