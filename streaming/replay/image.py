"""An Image: everything the log says of the quorum, but for the topics, as one frozen value.

Kafka's own word for it is MetadataImage. A change makes a new image, so the one that is shown stays as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rules.model.history import RecentHistory, Recovery
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.registration import BrokerRegistration, ControllerRegistration
from rules.model.voter_set import VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A replica that a VotersRecord no longer listed, and that record's timestamp (the log's clock)."""

    key: ReplicaKey
    timestamp_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What the log says, up to and with `last_offset`."""

    complete: bool = False
    """Read from the log's first record or from a whole snapshot: what it does not hold does not exist."""
    last_offset: Offset | None = None
    newest_timestamp_ms: Millis | None = None
    kraft_version: int | None = None
    metadata_version: int | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    """The finalized level of each feature (KIP-584)."""
    committed: VoterSet | None = None
    gone: tuple[Gone, ...] = ()
    """Voters that left since the image was last shown."""
    leader_id: NodeId | None = None
    leader_epoch: Epoch | None = None
    controllers: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)
    brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    recovering: tuple[Recovery, ...] = ()
    past: RecentHistory = field(default_factory=RecentHistory)
    """What the log told while it was read record by record: carried over a snapshot, which tells none of it."""

    @property
    def kraft(self) -> int | None:
        """kraft.version. A whole log without a KRaftVersionRecord is version 0, as Kafka itself takes it."""
        return 0 if self.kraft_version is None and self.complete else self.kraft_version

    @property
    def endpoints(self) -> set[tuple[NodeId, str]]:
        """Each node with each HOST:PORT where the log says it can be reached."""
        listed: list[tuple[NodeId, tuple[Endpoint, ...]]] = []
        if self.committed is not None:
            listed += [(voter.key.id, voter.endpoints) for voter in self.committed.voters]
        listed += [(one.id, one.endpoints) for one in self.controllers.values()]
        listed += [(one.id, one.endpoints) for one in self.brokers.values()]
        return {(node, str(endpoint)) for node, endpoints in listed for endpoint in endpoints}
