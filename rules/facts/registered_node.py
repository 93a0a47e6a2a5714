"""The registered controllers and brokers alike: what each supports, and whether a process serves the registration."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rules.model.identifiers import Millis, NodeId
from rules.model.membership import BrokerRegistration, ControllerRegistration, FeatureRange
from rules.model.quorum import Quorum
from rules.model.subject import Subject

METADATA_VERSION = "metadata.version"
UNREGISTERS_CONTROLLERS = 33
"""The metadata.version from which on Kafka unregisters controllers: 4.4-IV2 (KIP-1312)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredNode:
    """A registration of a controller or of a broker; a combined node has both."""

    role: str
    """controller or broker."""
    registration: ControllerRegistration | BrokerRegistration
    running: bool
    """False for a fenced broker, and for a controller that is neither a voter nor an observer."""
    left_over: bool = False
    """A broker whose node runs as a controller only."""

    @property
    def name(self) -> str:
        """`controller 4`."""
        return str(self.subject)

    @property
    def subject(self) -> Subject:
        """The subject of a finding about it."""
        return Subject(self.role, self.registration.id)

    @property
    def features(self) -> tuple[FeatureRange, ...]:
        """The supported levels."""
        return self.registration.features

    @property
    def since_ms(self) -> Millis:
        """When the node registered these features; 0 if unknown."""
        return self.registration.features_since_timestamp_ms or Millis(0)

    def range(self, feature: str) -> FeatureRange:
        """Returns the supported levels of a feature: only level 0 if the node does not register it, as in Kafka."""
        none = FeatureRange(name=feature, lowest=0, highest=0)
        return next((each for each in self.features if each.name == feature), none)


def registered_nodes(quorum: Quorum, left_over: Collection[NodeId]) -> list[RegisteredNode]:
    """Returns every registration: controllers first, then brokers, each sorted by node id.

    `left_over`: the brokers whose node runs as a controller only.
    """
    listed = None if quorum.poll is None else quorum.poll.rows_by_id
    return [
        *(
            RegisteredNode(role="controller", registration=registration, running=listed is None or node in listed)
            for node, registration in sorted(quorum.controllers.items())
        ),
        *(
            RegisteredNode(role="broker", registration=broker, running=broker.alive, left_over=node in left_over)
            for node, broker in sorted(quorum.brokers.items())
        ),
    ]


def short_of_unregistering(registered: Iterable[RegisteredNode]) -> list[RegisteredNode]:
    """Returns the nodes whose registrations keep Kafka from the level that unregisters controllers."""
    return [node for node in registered if node.range(METADATA_VERSION).highest < UNREGISTERS_CONTROLLERS]
